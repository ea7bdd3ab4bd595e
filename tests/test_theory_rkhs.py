"""The RKHS of a kernel on a finite set, and the four formulas of α."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from theory_cases import N, decays, draw_jacobian, laws, seeds

from pinnacle import theory


@pytest.fixture(autouse=True, scope="module")
def float64(quick_compile):
    with jax.enable_x64(True):
        yield


@jax.jit
def _space(theta, mu, f, g):
    system = theory.eigensystem(theta, mu)
    products = jax.vmap(
        jax.vmap(theory.inner_product, (None, 1, None)), (None, None, 1)
    )
    return {
        "system": system,
        "mercer": theory.mercer(system),
        "kernel products": products(system, theta, theta),
        "psi products": products(system, system.eigenfunctions, system.eigenfunctions),
        "norm": theory.squared_norm(system, f),
        "product": theory.inner_product(system, f, g),
    }


@laws
@given(seeds, decays)
def test_eigensystem(seed, decay):
    """Orthonormal in L²(μ), eigenfunctions of the integral operator, Mercer, the
    reproducing property."""
    rng = np.random.default_rng(seed)
    J = draw_jacobian(seed, decay)
    theta, mu = J @ J.T, rng.uniform(0.2, 2, N)
    f, g = rng.normal(size=(2, N))
    out = _space(*map(jnp.asarray, (theta, mu, f, g)))
    system = out["system"]
    values, psi = np.asarray(system.eigenvalues), np.asarray(system.eigenfunctions)
    root = np.sqrt(mu)
    reference = scipy.linalg.eigvalsh(root[:, None] * theta * root)[::-1]
    np.testing.assert_allclose(values, reference, rtol=1e-8, atol=1e-13)
    np.testing.assert_allclose(psi.T @ (mu[:, None] * psi), np.eye(N), atol=1e-12)
    np.testing.assert_allclose(theta @ (mu[:, None] * psi), psi * values, atol=1e-12)
    np.testing.assert_allclose(out["mercer"], theta, atol=1e-13)
    # ⟨Θ(·, z), Θ(·, z')⟩_H = Θ(z, z'), and ⟨ψ_i, ψ_j⟩_H = δ_ij/λ_i.
    np.testing.assert_allclose(out["kernel products"], theta, atol=1e-9)
    scaled = np.asarray(out["psi products"]) * np.sqrt(np.outer(values, values))
    np.testing.assert_allclose(scaled, np.eye(N), atol=1e-9)
    # On a finite set ⟨f, g⟩_H = fᵀΘ⁻¹g, whatever the measure.
    np.testing.assert_allclose(out["product"], f @ np.linalg.solve(theta, g), rtol=1e-6)
    np.testing.assert_allclose(out["norm"], f @ np.linalg.solve(theta, f), rtol=1e-6)


@jax.jit
def _alphas(J, R, mu):
    theta = theory.kernel(J)
    system = theory.eigensystem(theta)
    weighted = theory.eigensystem(theta, mu)
    change = theory.residual_change(theta, R)
    in_l2 = jnp.sum(theory.coefficients(system, change) ** 2 / system.eigenvalues)
    printed = jnp.sum(theory.alignments(system, R) ** 2 / system.eigenvalues)
    formulas = [
        theory.alpha_from_kernel(theta, R),
        theory.alpha_from_gradient(J, R),
        theory.alpha_from_spectrum(system, R),
        theory.alpha_from_spectrum(weighted, R),
        theory.alpha_from_norm(theta, R),
        theory.alpha_from_norm(theta, R, mu),
        in_l2,
    ]
    return jnp.stack(formulas), printed, theory.alignments(system, R), change


@laws
@given(seeds, decays)
def test_four_formulas_of_alpha(seed, decay):
    """Of Z = the first five rows of a set of eight."""
    rng = np.random.default_rng(seed)
    J = draw_jacobian(seed, decay)
    R = np.where(np.arange(N) < 5, rng.normal(size=N), 0)
    mu = rng.uniform(0.2, 2, N)
    formulas, _, a, change = _alphas(*map(jnp.asarray, (J, R, mu)))
    alpha = np.sum((J[:5].T @ R[:5]) ** 2)
    np.testing.assert_allclose(formulas, alpha, rtol=1e-7)
    # ΔR(·; Z)/η has the values −Θ(·, Z)R(Z), and R(Z) is Σ a_i ψ_i.
    np.testing.assert_allclose(change, -(J @ J[:5].T) @ R[:5], atol=1e-13)
    np.testing.assert_allclose(np.sum(np.asarray(a) ** 2), np.sum(R**2), rtol=1e-10)


def test_printed_middle_of_the_definition_of_alpha_is_not_alpha():
    """Σλ_i⁻¹⟨ΔR, ψ_i⟩²_H = Σa_i²/λ_i: the product must be that of L²."""
    J = draw_jacobian(0, 0.5)
    R, mu = np.random.default_rng(0).normal(size=N), np.ones(N)
    formulas, printed, _, _ = _alphas(*map(jnp.asarray, (J, R, mu)))
    assert printed > 100 * formulas[0]


def test_outside_the_space():
    """A function with a part where λ_i = 0 has no finite norm."""
    J = draw_jacobian(0, 0.3, rank=4)
    theta = jnp.asarray(J @ J.T)
    inside = theta @ jnp.arange(1.0, N + 1)
    outside = jnp.ones(N)
    out = _space(theta, jnp.ones(N), inside, outside)
    assert int(jnp.sum(out["system"].eigenvalues > 0)) == 4
    expected = np.arange(1, N + 1) @ inside
    np.testing.assert_allclose(out["norm"], expected, rtol=1e-8)
    assert jnp.isnan(out["product"])
    assert jnp.isinf(_space(theta, jnp.ones(N), outside, inside)["norm"])


def test_measure_must_be_positive():
    theta = jnp.eye(N)
    out = _space(theta, jnp.ones(N).at[2].set(-1.0), jnp.ones(N), jnp.ones(N))
    assert jnp.isnan(out["norm"])
