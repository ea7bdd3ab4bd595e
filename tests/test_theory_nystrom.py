"""The quality of the Nyström approximation and the bounds on it."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from theory_cases import laws, seeds

from pinnacle import theory
from pinnacle._ntk.basis import basis_from_rows


N, P, REFERENCES, K = 40, 60, 12, 3


@pytest.fixture(autouse=True, scope="module")
def float64(quick_compile):
    with jax.enable_x64(True):
        yield


def draw_pool(seed, decay, spread):
    """A Jacobian with decaying singular values; `spread` evens out the rows."""
    rng = np.random.default_rng(seed)
    U, _ = np.linalg.qr(rng.normal(size=(N, N)) * 10 ** (-spread * rng.random((N, 1))))
    W, _ = np.linalg.qr(rng.normal(size=(P, N)))
    return (U * 10 ** (-decay * np.arange(N) / 2)) @ W.T, rng


@jax.jit
def _quality(J, reference, fewer, R):
    theta = theory.kernel(J)
    error = theory.nystrom_error(theta, reference)
    # The estimator of the library: thin factorisation of the reference Jacobian.
    basis = basis_from_rows(J[reference], None)
    projected = J @ basis.directions
    subset = R != 0
    gap = (theta - theory.nystrom_kernel(theta, reference)) * jnp.outer(subset, subset)
    return {
        "kernel": theory.nystrom_kernel(theta, reference),
        "estimator": projected @ projected.T,
        "error": error,
        "error on part": jnp.max(jnp.abs(jnp.linalg.eigvalsh(gap))),
        "alpha": theory.alpha_from_kernel(theta, R),
        "nystrom": theory.nystrom_alpha(theta, reference, R),
        "fewer": theory.nystrom_alpha(theta, fewer, R),
        "whole": theory.nystrom_alpha(theta, jnp.arange(N), R),
        "alpha bound": theory.alpha_error_bound(error, R),
        "trace share": theory.nystrom_trace_share(theta, reference),
        "coherence": theory.coherence(theta, K),
    }


@laws
@given(seeds, st.floats(0.0, 0.15), st.floats(0.0, 1.0))
def test_nystrom(seed, decay, spread):
    """0 ≤ α̂ ≤ α, monotone, exact with the pool as reference, equal to the estimator's,
    and |α − α̂| below the observed spectral error times ‖R‖², on any part Z."""
    J, rng = draw_pool(seed, decay, spread)
    reference = rng.permutation(N)[:REFERENCES]
    R = np.where(rng.random(N) < 0.5, rng.normal(size=N), 0)
    out = _quality(*map(jnp.asarray, (J, reference, reference[:6], R)))
    C, theta = J @ J[reference].T, J @ J.T
    dense = C @ np.linalg.pinv(C[reference], hermitian=True) @ C.T
    np.testing.assert_allclose(out["kernel"], dense, atol=1e-9)
    np.testing.assert_allclose(out["estimator"], out["kernel"], atol=1e-9)
    slack = 1e-9 * float(out["alpha"])
    assert -slack <= out["fewer"] <= out["nystrom"] + slack
    assert out["nystrom"] <= out["alpha"] + slack
    np.testing.assert_allclose(out["whole"], out["alpha"], rtol=1e-8)
    np.testing.assert_allclose(
        out["error"], np.linalg.norm(theta - dense, 2), rtol=1e-5, atol=1e-10
    )
    assert out["error on part"] <= out["error"] + 1e-10
    assert out["alpha"] - out["nystrom"] <= out["alpha bound"] + slack
    share = np.trace(dense) / np.trace(theta)
    np.testing.assert_allclose(out["trace share"], share, rtol=1e-8)
    _, U = np.linalg.eigh(theta)
    tau = N / K * np.max(np.sum(U[:, -K:] ** 2, axis=1))
    np.testing.assert_allclose(out["coherence"], tau, rtol=1e-6)
    assert 1 - 1e-9 <= out["coherence"] <= N / K + 1e-9


def test_alpha_error_is_attained():
    """R along the leading eigenvector of Θ − Nyström."""
    J, rng = draw_pool(0, 0.1, 0.0)
    reference = rng.permutation(N)[:REFERENCES]
    C, theta = J @ J[reference].T, J @ J.T
    gap = theta - C @ np.linalg.pinv(C[reference], hermitian=True) @ C.T
    R = np.linalg.eigh(gap)[1][:, -1]
    out = _quality(*map(jnp.asarray, (J, reference, reference[:6], R)))
    np.testing.assert_allclose(out["alpha"] - out["nystrom"], out["alpha bound"])


@partial(jax.jit, static_argnums=(1, 2))
def _promise(theta, k, p, references, epsilon, delta):
    bound = theory.spectral_error_bound(theta, k, p, epsilon, delta)
    errors = jax.vmap(lambda r: theory.nystrom_error(theta, r))(references)
    return bound, errors


@laws
@given(seeds, st.floats(0.0, 0.15), st.floats(0.2, 0.6))
def test_spectral_bound(seed, decay, epsilon):
    """In at most a share δ of all reference sets the bound may fail; it never did."""
    J, rng = draw_pool(seed, decay, 0.0)
    p, delta, draws = 38, 0.3, 20
    references = np.stack([rng.permutation(N)[:p] for _ in range(draws)])
    arrays = map(jnp.asarray, (references, epsilon, delta))
    bound, errors = _promise(jnp.asarray(J @ J.T), 1, p, *arrays)
    # Infinite where p < p_min: nothing is promised there.
    assert (np.asarray(errors) <= float(bound) * (1 + 1e-9)).all()


def test_spectral_bound_is_within_a_factor_of_ten():
    """One spread-out leading eigenvector and a flat tail."""
    theta = jnp.eye(N) + 3 * jnp.ones((N, N)) / N
    rng = np.random.default_rng(0)
    references = jnp.asarray(np.stack([rng.permutation(N)[:38] for _ in range(20)]))
    bound, errors = _promise(theta, 1, 38, references, 0.5, 0.3)
    np.testing.assert_allclose(theory.coherence(theta, 1), 1, rtol=1e-9)
    np.testing.assert_allclose(bound, 1 + N / (0.5 * 38))
    assert (np.asarray(errors) <= float(bound)).all()
    assert np.min(errors) > 0.1 * float(bound)


def test_reference_size():
    size = theory.reference_size(1.5, 4, 0.5, 0.1)
    np.testing.assert_allclose(size, 2 * 1.5 * 4 * math.log(40) / 0.25)
    for tau, epsilon, delta in [
        (1.5, 0.0, 0.1),
        (1.5, 1.0, 0.1),
        (1.5, 0.5, 0.0),
        (1.5, 0.5, 1.0),
        (0.5, 0.5, 0.1),
    ]:
        assert jnp.isnan(theory.reference_size(tau, 4, epsilon, delta))


def test_nothing_is_promised_below_the_reference_size():
    theta = jnp.diag(jnp.arange(1.0, N + 1))  # coherence N/k: eigenvectors are points
    np.testing.assert_allclose(theory.coherence(theta, 2), N / 2)
    assert jnp.isinf(theory.spectral_error_bound(theta, 2, 30, 0.5, 0.1))
    assert jnp.isnan(theory.spectral_error_bound(theta, 2, 30, 1.5, 0.1))
    with pytest.raises(ValueError, match=r"`k` is 41, but the pool has 40 rows"):
        theory.coherence(theta, N + 1)


def test_effective_rank_and_trace_share():
    rank = jax.jit(theory.effective_rank)
    np.testing.assert_allclose(rank(jnp.ones(6)), 6)
    np.testing.assert_allclose(rank(jnp.asarray([2.0, 0, 0, 0, 0, -1e-18])), 1)
    np.testing.assert_allclose(rank(jnp.asarray([1.0, 1, 1, 0, 0, 0])), 3)
    assert jnp.isnan(rank(jnp.zeros(6)))
    values = jnp.asarray([4.0, 3, 2, 1, 0, -1e-9])
    np.testing.assert_allclose(
        theory.trace_share(values), [0.4, 0.7, 0.9, 1, 1, 1], atol=1e-8
    )
    assert jnp.isnan(theory.trace_share(jnp.zeros(3))).all()
