"""How well eigenfunctions describe a target, and loss weights by traces."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from theory_cases import N, decays, draw_jacobian, laws, seeds, small_network

from pinnacle import (
    PDE,
    AugmentedSpace,
    Box,
    Component,
    Dirichlet,
    Model,
    Points,
    theory,
)


@pytest.fixture(autouse=True, scope="module")
def float64(quick_compile):
    with jax.enable_x64(True):
        yield


@jax.jit
def _describe(theta, mu, y):
    system = theory.eigensystem(theta, mu)
    first = jnp.arange(N) < 3
    return {
        "psi": system.eigenfunctions,
        "power": theory.cumulative_power(system, y),
        "three": theory.reconstruction(system, y, 3),
        "all": theory.reconstruction(system, y, N),
        "error": theory.reconstruction_error(system, y),
        "error on part": theory.reconstruction_error(system, y, first),
        "alignment": theory.kernel_target_alignment(theta, y),
    }


@laws
@given(seeds, decays)
def test_alignment(seed, decay):
    rng = np.random.default_rng(seed)
    J, mu, y = draw_jacobian(seed, decay), rng.uniform(0.2, 2, N), rng.normal(size=N)
    theta = J @ J.T
    out = _describe(*map(jnp.asarray, (theta, mu, y)))
    psi, D = np.asarray(out["psi"]), np.diag(mu)
    # The best approximation by three eigenfunctions, by weighted least squares.
    root = np.sqrt(D)
    best = psi[:, :3] @ np.linalg.lstsq(root @ psi[:, :3], root @ y, rcond=None)[0]
    np.testing.assert_allclose(out["three"], best, atol=1e-10)
    np.testing.assert_allclose(out["all"], y, atol=1e-10)
    error = np.sqrt((y - best) @ D @ (y - best) / (y @ D @ y))
    np.testing.assert_allclose(out["error"][2], error, atol=1e-10)
    power = np.asarray(out["power"])
    assert (np.diff(power) >= -1e-14).all()
    np.testing.assert_allclose(power[-1], 1, rtol=1e-10)
    errors = np.asarray(out["error"])
    np.testing.assert_allclose(errors**2, 1 - power, atol=1e-10)
    gap = (y - best)[:3] ** 2 @ mu[:3] / (y[:3] ** 2 @ mu[:3])
    np.testing.assert_allclose(out["error on part"][2], np.sqrt(gap), atol=1e-9)
    assert 0 <= out["alignment"] <= 1


def test_kernel_target_alignment_is_one_for_its_own_target():
    y = jnp.arange(1.0, N + 1)
    alignment = jax.jit(theory.kernel_target_alignment)
    np.testing.assert_allclose(alignment(3 * jnp.outer(y, y), y), 1)
    np.testing.assert_allclose(alignment(jnp.eye(N), y), 1 / np.sqrt(N))
    assert jnp.isnan(alignment(jnp.eye(N), 0 * y))


def test_reconstruction_says_how_many_eigenfunctions_there_are():
    with pytest.raises(ValueError, match=r"`k` is 9: there are 8 eigenfunctions"):
        theory.reconstruction(theory.eigensystem(jnp.eye(N)), jnp.ones(N), 9)


def test_operate_gives_prediction_minus_target():
    """F[û] − F[u] is the residual, for the solution of the problem."""
    space, model, blocks = small_network()
    rows, parameters = theory.residual_function(space, model, blocks)
    initial = space.components[1].target
    assert callable(initial)
    solution = Model(lambda x: initial(jnp.stack([x[0] - x[1], 0 * x[1]])))

    @eqx.filter_jit
    def residuals():
        F = [theory.operate(space, u, blocks) for u in (model, solution)]
        return F[0] - F[1], rows(parameters)

    np.testing.assert_allclose(*residuals(), atol=1e-9)
    kinds = theory.row_kinds(space, blocks)
    np.testing.assert_array_equal(kinds, np.repeat([0, 1, 2], [8, 3, 3]))


class Linear(eqx.Module):
    w: jax.Array

    def __call__(self, x):
        return jnp.atleast_1d(self.w @ x)


def linear_space(weights=(1.0, 1.0, 1.0)):
    """u(x) = w·x, so that J(x) = √weight·x (and 3x for the second kind)."""
    square = Box((-1, -1), (1, 1))
    operators = [Dirichlet(), PDE(lambda u, x: 3 * u(x)), Dirichlet()]
    return AugmentedSpace(
        [
            Component(f"kind {k}", square, F, 0.0, weight=w)
            for k, (F, w) in enumerate(zip(operators, weights, strict=True))
        ]
    )


def points_of(x, kind):
    return Points(jnp.asarray(x), jnp.asarray(kind, jnp.int32))


def test_opposite_jacobians_add_up():
    """Two points with J = ±x: the trace is 2‖x‖², not 0."""
    points = points_of([[0.3, -0.4], [-0.3, 0.4]], [0, 0])
    model = Model(Linear(jnp.asarray([1.0, 2.0])))
    traces = theory.kernel_traces(linear_space(), model, points)
    np.testing.assert_allclose(traces, [2 * 0.25, 0, 0])


def test_ntk_weights():
    """tr Θ/tr Θ_kk with the traces of the unweighted kernel, whatever the weights."""
    x = np.random.default_rng(0).uniform(-1, 1, size=(7, 2))
    kind = np.array([0, 1, 0, 1, 1, 0, 0])
    mask = jnp.arange(7) < 6
    points = Points(jnp.asarray(x), jnp.asarray(kind, jnp.int32), mask)
    model = Model(Linear(jnp.asarray([1.0, 2.0])))
    squares = np.where(kind == 1, 9, 1) * np.sum(x**2, axis=1) * np.asarray(mask)
    traces = np.array([squares[kind == k].sum() for k in (0, 1)])
    weights = jax.jit(theory.ntk_weights, static_argnames="per_point")
    for space in (linear_space(), linear_space((5.0, 0.1, 2.0))):
        # The third kind has no points: its weight is 1.
        found = weights(space, model, points)
        np.testing.assert_allclose(found, [*traces.sum() / traces, 1], rtol=1e-10)
    mean = traces / [3, 3]
    found = weights(space, model, points, per_point=True)
    np.testing.assert_allclose(found, [*mean.sum() / mean, 1], rtol=1e-10)


def test_space_with_ntk_weights():
    """All blocks of the weighted kernel have the same trace; once is as good as twice;
    it works under `jit` and on a real problem."""
    space, model, blocks = small_network()
    points = space.join(blocks)

    @eqx.filter_jit
    def twice():
        once = theory.with_ntk_weights(space, model, points)
        again = theory.with_ntk_weights(once, model, points)
        return once, again, theory.kernel_traces(once, model, points)

    once, again, traces = twice()
    np.testing.assert_allclose(traces, traces[0], rtol=1e-10)
    triples = zip(once.components, again.components, space.components, strict=True)
    for a, b, old in triples:
        np.testing.assert_allclose(a.weight, b.weight, rtol=1e-12)
        assert a.weight.shape == old.weight.shape
    assert jax.tree.structure(once) == jax.tree.structure(space)


def test_blocks_need_one_array_a_kind():
    space, _, _ = small_network()
    with pytest.raises(ValueError, match=r"`coordinates` has 1 arrays for the 3 kinds"):
        theory.blocks_at(space, [jnp.zeros((2, 2))])
