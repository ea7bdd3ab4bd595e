"""How far the parameters move, its limit, and the bounds through α."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from theory_cases import N, P, decays, draw_jacobian, draw_linear, laws, seeds

from pinnacle import theory


STEPS = 20


@pytest.fixture(autouse=True, scope="module")
def float64(quick_compile):
    with jax.enable_x64(True):
        yield


@jax.jit
def _bounds(J, R, rate):
    theta = theory.kernel(J)
    line = theory.gradient_descent(theta, R, rate, jnp.arange(STEPS + 1))
    values = jnp.linalg.eigvalsh(theta)
    alpha, top, low = theory.alpha_from_kernel(theta, R), values[-1], values[0]
    change = theory.parameter_change(lambda t: R + J @ t, jnp.zeros(P), line.dual[-1])
    later = line.residual[-1]
    return {
        "movement": theory.movement(theta, line.dual),
        "change": change,
        "limit": theory.movement_limit(theta, R),
        "bound": theory.movement_bound(R, alpha, top, low),
        "kantorovich": theory.movement_bound(R, alpha, top, low, kantorovich=True),
        # What the corollary prints: R and α at the time t.
        "printed": theory.movement_bound(
            later, theory.alpha_from_kernel(theta, later), top, low
        ),
    }


@laws
@given(seeds, decays, st.floats(0.05, 1.0))
def test_lemma_and_corollary(seed, decay, rate):
    """‖θ_t − θ_0‖ grows to its limit for η ≤ 1/λmax, and the limit obeys the bounds."""
    J, _, R, _ = draw_linear(seed, decay)
    out = _bounds(J, R, rate)
    moved, limit = np.asarray(out["movement"]), float(out["limit"])
    assert (np.diff(moved) >= -1e-12).all()
    assert moved[-1] <= limit * (1 + 1e-8)
    np.testing.assert_allclose(np.linalg.norm(out["change"]), moved[-1], atol=1e-11)
    J, R = np.asarray(J), np.asarray(R)
    np.testing.assert_allclose(limit, np.linalg.norm(np.linalg.pinv(J) @ R), rtol=1e-6)
    assert limit <= out["kantorovich"] * (1 + 1e-7)
    assert out["kantorovich"] <= out["bound"] * (1 + 1e-12)


def test_kantorovich_is_attained():
    """Equality for R with equal parts along the first and the last eigenvector; there
    the paper's factor is at most twice too large."""
    J = draw_jacobian(1, 0.5)
    _, V = np.linalg.eigh(J @ J.T)
    out = _bounds(jnp.asarray(J), jnp.asarray(V[:, 0] + V[:, -1]), 0.5)
    np.testing.assert_allclose(out["kantorovich"], out["limit"], rtol=1e-7)
    assert out["bound"] < 2.1 * out["limit"]


def test_movement_comes_close_to_its_limit():
    J, _, R, _ = draw_linear(0, 0.0)
    out = _bounds(J, R, 0.5)
    assert 0.99 * out["limit"] < out["movement"][-1] <= out["limit"]


def test_overshoot_above_one_over_lambda_max():
    """For 1/λmax < η < 2/λmax the lemma does not hold: up to twice the limit."""
    J = draw_jacobian(2, 0.5)
    _, V = np.linalg.eigh(J @ J.T)
    out = _bounds(jnp.asarray(J), jnp.asarray(V[:, -1]), 1.9)
    assert 1.8 * out["limit"] < jnp.max(out["movement"]) <= 2 * out["limit"]


def test_printed_corollary_with_the_residual_at_time_t_fails():
    """With R_t instead of R_0 the right-hand side goes to 0, the left does not."""
    J, _, R, _ = draw_linear(0, 0.0)
    out = _bounds(J, R, 0.9)
    assert out["printed"] < 1e-3 * out["movement"][-1]


def test_violated_assumptions():
    J = jnp.asarray(draw_jacobian(0, 0.2, rank=5))
    R = jnp.ones(N)
    assert jnp.isinf(_bounds(J, R, 0.5)["limit"])
    bound = jax.jit(theory.movement_bound)
    assert jnp.isinf(bound(R, 1.0, 1.0, 0.0))
    assert jnp.isinf(bound(R, 1.0, 1.0, -1e-9))
    assert jnp.isnan(bound(R, 1.0, 1.0, 2.0))
    assert jnp.isnan(bound(R, -1.0, 2.0, 1.0))
    assert bound(0 * R, 0.0, 2.0, 1.0) == 0
