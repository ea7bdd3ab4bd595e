"""One step, linearised training in closed form, and real networks beside it."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, strategies as st
from theory_cases import (
    N,
    P,
    decays,
    descend_by_hand,
    draw_jacobian,
    draw_linear,
    laws,
    seeds,
    small_network,
)

from pinnacle import theory


STEPS = 20
shares = st.floats(0.05, 0.95)


@pytest.fixture(autouse=True, scope="module")
def float64(quick_compile):
    with jax.enable_x64(True):
        yield


@jax.jit
def _descent(J, Jz, R, Rz, rate):
    theta, cross = theory.kernel(J), theory.kernel(Jz, J)
    line = theory.gradient_descent(theta, R, rate, jnp.arange(STEPS + 1))
    return (
        line,
        theory.elsewhere(cross, Rz, line.dual),
        theory.movement(theta, line.dual),
    )


@laws
@given(seeds, decays, shares)
def test_closed_form_is_gradient_descent(seed, decay, share):
    """On a linear model, for any η < 2/λmax (here λmax = 1), on Z and elsewhere."""
    J, Jz, R, Rz = draw_linear(seed, decay)
    line, there, moved = _descent(J, Jz, R, Rz, 2 * share)
    thetas, residuals = descend_by_hand(np.asarray(J), np.asarray(R), 2 * share, STEPS)
    np.testing.assert_allclose(line.residual, residuals, atol=1e-11)
    expected = np.asarray(Rz) + thetas @ np.asarray(Jz).T
    np.testing.assert_allclose(there, expected, atol=1e-10)
    np.testing.assert_allclose(-line.dual @ J, thetas, atol=1e-10)
    np.testing.assert_allclose(moved, np.linalg.norm(thetas, axis=1), atol=1e-10)


@laws
@given(seeds, decays, shares)
def test_monotone_decay(seed, decay, share):
    """For η < 1/λmax every component of the residual shrinks and keeps its sign; for
    1/λmax < η < 2/λmax the loss still falls, but the first component alternates."""
    J, Jz, R, Rz = draw_linear(seed, decay)
    _, V = np.linalg.eigh(np.asarray(J @ J.T))
    line, _, _ = _descent(J, Jz, R, Rz, share)
    a = np.asarray(line.residual) @ V
    assert (a[1:] * a[:-1] >= -1e-20).all()
    assert (np.abs(a[1:]) <= np.abs(a[:-1]) + 1e-13).all()
    line, _, _ = _descent(J, Jz, R, Rz, 1 + share)
    loss = np.asarray(theory.half_loss(line.residual))
    assert (np.diff(loss) <= 1e-13).all()
    first = np.asarray(line.residual) @ V[:, -1]
    if decay > 0.01 and abs(first[0]) > 1e-3:
        assert first[0] * first[1] < 0


def test_too_large_a_rate_diverges():
    J, Jz, R, Rz = draw_linear(0, 0.3)
    line, _, _ = _descent(J, Jz, R, Rz, 2.5)
    _, residuals = descend_by_hand(np.asarray(J), np.asarray(R), 2.5, STEPS)
    np.testing.assert_allclose(line.residual, residuals, rtol=1e-8)
    assert (
        theory.half_loss(line.residual)[-1] > 100 * theory.half_loss(line.residual)[0]
    )


@jax.jit
def _flow(J, Jz, R, Rz, times):
    theta, cross = theory.kernel(J), theory.kernel(Jz, J)
    line = theory.gradient_flow(theta, R, times)
    system = theory.eigensystem(theta)
    return {
        "line": line,
        "there": theory.elsewhere(cross, Rz, line.dual),
        "limit": theory.limit(theta, R),
        "by solve": jax.vmap(lambda b: theory.solve(theta, b))(line.residual - R[None]),
        "start": theory.alignments(system, R),
        "components": line.residual @ system.eigenfunctions,
        "rates": theory.decay_rates(system, 0.3),
    }


@laws
@given(seeds, decays)
def test_gradient_flow(seed, decay):
    """e^{−ηtΘ}, the formula with Θ⁻¹ elsewhere, and the rate of every direction."""
    J, Jz, R, Rz = draw_linear(seed, decay)
    times = np.array([0.0, 0.1, 1.0, 30.0])
    out = _flow(J, Jz, R, Rz, jnp.asarray(times))
    theta, cross = np.asarray(J @ J.T), np.asarray(Jz @ J.T)
    for i, t in enumerate(times):
        decayed = scipy.linalg.expm(-t * theta) @ np.asarray(R)
        np.testing.assert_allclose(out["line"].residual[i], decayed, atol=1e-11)
        # Equation `eqn:appx-reschange`.
        change = cross @ np.linalg.solve(theta, decayed - np.asarray(R))
        np.testing.assert_allclose(out["there"][i], np.asarray(Rz) + change, atol=1e-6)
    np.testing.assert_allclose(out["by solve"], -out["line"].dual, atol=1e-6)
    np.testing.assert_allclose(theta @ out["limit"], R, atol=1e-7)
    # a_i(t) = e^{−ηλ_i t} a_i(0), with η = 0.3 and ηt = `times`.
    rates = np.asarray(out["rates"])
    factors = np.exp(-np.outer(times / 0.3, rates))
    np.testing.assert_allclose(
        out["components"], factors * np.asarray(out["start"]), atol=1e-10
    )


def test_singular_kernel():
    """Finite times need no inverse; the limit does not exist."""
    J = jnp.asarray(draw_jacobian(3, 0.2, rank=5))
    rng = np.random.default_rng(0)
    Jz, R, Rz = (jnp.asarray(rng.normal(size=s)) for s in ((5, P), N, 5))
    out = _flow(J, Jz, R, Rz, jnp.asarray([0.0, 0.1, 1.0, 1e6]))
    null = np.asarray(R) - np.asarray(J) @ np.linalg.pinv(J) @ np.asarray(R)
    np.testing.assert_allclose(out["line"].residual[-1], null, atol=1e-9)
    line, _, _ = _descent(J, Jz, R, Rz, 0.7)
    thetas, _ = descend_by_hand(np.asarray(J), np.asarray(R), 0.7, STEPS)
    np.testing.assert_allclose(-line.dual @ J, thetas, atol=1e-10)
    assert jnp.isnan(out["limit"]).all()


@jax.jit
def _matrix_free(J, Jz, R, Rz, rate, times):
    def rows(theta):
        return R + J @ theta

    def rows_z(theta):
        return Rz + Jz @ theta

    theta = theory.ntk_operator(rows, jnp.zeros(P))
    cross = theory.cross_operator(rows_z, rows, jnp.zeros(P))
    flow = theory.gradient_flow(theta, R, times)
    descent = theory.gradient_descent(theta, R, rate, jnp.arange(STEPS + 1))
    return {
        "limit": theory.limit(theta, R),
        "flow": flow.residual,
        "descent": descent.residual,
        "there": theory.elsewhere(cross, Rz, flow.dual),
        "movement": theory.movement(theta, descent.dual),
        "movement limit": theory.movement_limit(theta, R),
        "stopped": theory.solve(theta, R, max_steps=2),
    }


@laws
@given(seeds, st.floats(0.0, 0.3), shares)
def test_matrix_free_equals_dense(seed, decay, share):
    """Lanczos and conjugate gradients on jvp∘vjp against eigh and Cholesky."""
    J, Jz, R, Rz = draw_linear(seed, decay)
    times = jnp.asarray([0.0, 0.1, 1.0, 30.0])
    free = _matrix_free(J, Jz, R, Rz, share, times)
    dense, (line, _, moved) = _flow(J, Jz, R, Rz, times), _descent(J, Jz, R, Rz, share)
    np.testing.assert_allclose(free["flow"], dense["line"].residual, atol=1e-9)
    np.testing.assert_allclose(free["descent"], line.residual, atol=1e-9)
    np.testing.assert_allclose(free["there"], dense["there"], atol=1e-7)
    np.testing.assert_allclose(free["movement"], moved, atol=1e-8)
    np.testing.assert_allclose(free["limit"], dense["limit"], rtol=1e-4, atol=1e-4)
    square = float(R @ dense["limit"])
    np.testing.assert_allclose(free["movement limit"] ** 2, square, rtol=1e-6)


def test_conjugate_gradients_say_when_they_did_not_converge():
    J, Jz, R, Rz = draw_linear(0, 0.3)
    out = _matrix_free(J, Jz, R, Rz, 0.5, jnp.asarray([0.0, 0.1, 1.0, 30.0]))
    assert jnp.isnan(out["stopped"]).all()


@pytest.fixture(scope="module")
def network(float64):
    space, model, blocks = small_network()
    other = small_network((4, 2, 2), key=1)[2]
    rows, parameters = theory.residual_function(space, model, blocks)
    rows_z, _ = theory.residual_function(space, model, other)
    return rows, rows_z, parameters


def test_one_step_of_a_real_network(network):
    """Halving η quarters the remainder of the prediction, on Z and elsewhere."""
    rows, rows_z, parameters = network

    @jax.jit
    def step(rate):
        cross = theory.kernel(
            theory.jacobian(rows_z, parameters), theory.jacobian(rows, parameters)
        )
        change = theory.one_step_change(cross, rows(parameters), rate)
        gradient = jax.grad(lambda p: 0.5 * jnp.sum(rows(p) ** 2))(parameters)
        after = jax.tree.map(lambda p, g: p - rate * g, parameters, gradient)
        remainder = theory.one_step_remainder(rows_z, rows, parameters, rate)
        return change, rows_z(after) - rows_z(parameters), remainder

    change, actual, remainder = step(1e-3)
    np.testing.assert_allclose(change + remainder, actual, atol=1e-14)
    sizes = [float(jnp.linalg.norm(step(rate)[2])) for rate in (1e-3, 5e-4, 2.5e-4)]
    ratios = np.divide(sizes[:-1], sizes[1:])
    np.testing.assert_allclose(ratios, 4, rtol=0.05)
    assert sizes[0] < 0.05 * float(jnp.linalg.norm(change))


def test_loss_curve_of_a_real_network(network):
    """While the kernel has moved little the prediction is good, later it departs."""
    rows, _, parameters = network
    window = jax.jit(lambda rate: theory.training_window(rows, parameters, rate, 40))
    early, late = window(2e-5), window(1e-3)
    losses = [0.5 * np.sum(np.asarray(jax.jit(rows)(parameters)) ** 2)] * 2
    np.testing.assert_allclose(
        [early.measured[0], early.predicted[0]], losses, rtol=1e-9
    )
    assert early.drift < 0.02 < late.drift
    assert early.departure[-1] < 1e-3 < late.departure[-1]
    fallen = early.measured[0] - early.measured[-1]
    assert abs(early.predicted[-1] - early.measured[-1]) < 0.02 * fallen
    assert early.movement < late.movement


def test_window_of_a_linear_model_is_exact():
    J, _, R, _ = draw_linear(5, 0.3)
    window = jax.jit(
        lambda J, R: theory.training_window(
            lambda t: R + J @ t, jnp.zeros(P), 0.8, STEPS
        )
    )(J, R)
    thetas, residuals = descend_by_hand(np.asarray(J), np.asarray(R), 0.8, STEPS)
    np.testing.assert_allclose(
        window.measured, 0.5 * np.sum(residuals**2, 1), atol=1e-12
    )
    np.testing.assert_allclose(window.predicted, window.measured, atol=1e-12)
    assert jnp.max(window.departure) < 1e-12
    assert window.drift == 0
    np.testing.assert_allclose(window.movement, np.linalg.norm(thetas[-1]), rtol=1e-10)


def test_ntk_operator_of_a_real_network(network):
    """Θv by jvp∘vjp is JJᵀv, and J agrees with finite differences."""
    rows, rows_z, parameters = network

    @jax.jit
    def products(v):
        J = theory.jacobian(rows, parameters)
        Jz = theory.jacobian(rows_z, parameters)
        free = theory.ntk_operator(rows, parameters).mv(v)
        cross = theory.cross_operator(rows_z, rows, parameters).mv(v)
        return free, theory.kernel(J) @ v, cross, theory.kernel(Jz, J) @ v, J

    v = jnp.asarray(np.random.default_rng(0).normal(size=14))
    free, dense, cross, dense_cross, J = products(v)
    np.testing.assert_allclose(free, dense, atol=1e-12)
    np.testing.assert_allclose(cross, dense_cross, atol=1e-12)
    flat, unravel = jax.flatten_util.ravel_pytree(parameters)
    h, column = 1e-5, jax.jit(lambda p: rows(unravel(p)))
    for i in (0, 7, flat.size - 1):
        step = jnp.zeros_like(flat).at[i].set(h)
        slope = (column(flat + step) - column(flat - step)) / (2 * h)
        np.testing.assert_allclose(J[:, i], slope, atol=1e-7)


def test_linearisation_gap_is_of_second_order(network):
    rows, _, parameters = network

    @jax.jit
    def gap(h):
        moved = jax.tree.map(lambda p: p + h, parameters)
        return jnp.linalg.norm(theory.linearisation_gap(rows, parameters, moved))

    np.testing.assert_allclose(gap(2e-3) / gap(1e-3), 4, rtol=0.05)
