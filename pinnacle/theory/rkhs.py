"""The reproducing kernel Hilbert space of Θ on a finite set, and α as a norm in it.

On a set of n rows with measure μ = Σ_j μ_j δ_{z_j} the integral operator of the kernel
is T[f](z) = Σ_j μ_j Θ(z, z_j) f(z_j) (the paper's appendix on RKHS). Its eigenpairs
T[ψ_i] = λ_i ψ_i, orthonormal in L²(μ), give Θ = Σ λ_i ψ_i ψ_iᵀ and the inner product

    ⟨f, g⟩_H = Σ_i ⟨f, ψ_i⟩⟨g, ψ_i⟩/λ_i,    ⟨ψ_i, ψ_j⟩_H = δ_ij/λ_i,

where ⟨·,·⟩ without index is that of L²(μ). (The paper prints ⟨·,·⟩_H in the numerator,
here and in the middle of eq. `eq:convergence`; with that the formulas do not hold.)
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class EigenSystem(eqx.Module):
    """Eigenpairs of Θ on a finite set, eigenvalues in descending order.

    **Attributes:**

    - `eigenvalues`: λ_i ≥ 0; those below rounding, n·ε·λ_1, are set to 0.
    - `eigenfunctions`: ψ_i(z_j), one column an eigenfunction, orthonormal in L²(μ).
    - `measure`: μ_j, the weight of each row.
    """

    eigenvalues: Float[Array, " r"]
    eigenfunctions: Float[Array, "n r"]
    measure: Float[Array, " n"]


def eigensystem(
    theta: Float[Array, "n n"], measure: Float[Array, " n"] | None = None
) -> EigenSystem:
    """Eigenvalues and eigenfunctions of the kernel (eq. `eq:eigK`).

    With D = diag(μ) and D^½ΘD^½ = VΛVᵀ, the eigenfunctions are ψ = D^{-½}V.

    **Arguments:**

    - `theta`: Θ on the set, symmetric positive semi-definite.
    - `measure`: μ, positive; by default every row counts 1, and (λ_i, ψ_i) are the
      eigenpairs of the matrix. With μ_j = 1/n they approximate those of the continuous
      operator, as in eq. `eq:nystrom`.

    **Returns:**

    The eigen-system; NaN if some μ_j is not positive.
    """
    n = theta.shape[0]
    mu = jnp.ones(n, theta.dtype) if measure is None else measure
    root = jnp.sqrt(jnp.where(mu > 0, mu, jnp.nan))
    values, vectors = jnp.linalg.eigh(root[:, None] * theta * root[None, :])
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = n * float(jnp.finfo(theta.dtype).eps) * values[0]
    values = jnp.where(values <= noise, 0, values)
    return EigenSystem(values, vectors / root[:, None], mu)


def mercer(system: EigenSystem) -> Float[Array, "n n"]:
    """Θ = Σ_i λ_i ψ_i ψ_iᵀ (Mercer's theorem, eq. `eq:eigK`)."""
    psi = system.eigenfunctions
    return (psi * system.eigenvalues[None, :]) @ psi.T


def coefficients(system: EigenSystem, f: Float[Array, " n"]) -> Float[Array, " r"]:
    """⟨f, ψ_i⟩ in L²(μ), for a function given by its values on the set."""
    return system.eigenfunctions.T @ (system.measure * f)


def inner_product(
    system: EigenSystem, f: Float[Array, " n"], g: Float[Array, " n"]
) -> Float[Array, ""]:
    """⟨f, g⟩_H = Σ_i ⟨f, ψ_i⟩⟨g, ψ_i⟩/λ_i.

    **Arguments:**

    - `system`: of Θ.
    - `f`, `g`: functions by their values on the set.

    **Returns:**

    The inner product; NaN if f or g is no element of H, that is, if more than √ε of
    its L² norm lies where λ_i = 0.
    """
    kept = system.eigenvalues > 0
    inverse = jnp.where(kept, 1 / jnp.where(kept, system.eigenvalues, 1), 0)
    a, b = coefficients(system, f), coefficients(system, g)
    outside = _outside(a, kept) | _outside(b, kept)
    return jnp.where(outside, jnp.nan, jnp.sum(inverse * a * b))


def squared_norm(system: EigenSystem, f: Float[Array, " n"]) -> Float[Array, ""]:
    """‖f‖²_H; infinite if f is no element of H (see `inner_product`)."""
    product = inner_product(system, f, f)
    outside = _outside(coefficients(system, f), system.eigenvalues > 0)
    return jnp.where(outside, jnp.inf, product)


def _outside(a: Float[Array, " r"], kept: Bool[Array, " r"]) -> Bool[Array, ""]:
    eps = float(jnp.finfo(a.dtype).eps)
    return jnp.sum(jnp.where(kept, 0, a**2)) > eps * jnp.sum(a**2)


def residual_change(
    cross: Float[Array, "m n"], residual: Float[Array, " n"]
) -> Float[Array, " m"]:
    """ΔR(z; Z)/η = −Θ(z, Z) R(Z), an element of H (eqs. `eq:convergence_vec`,
    `eqn:appx-evo`).

    **Arguments:**

    - `cross`: Θ(z, Z) for m rows z and the n rows of Z.
    - `residual`: R(Z).
    """
    return -cross @ residual


def alignments(system: EigenSystem, residual: Float[Array, " n"]) -> Float[Array, " r"]:
    """a_i(Z) = ψ_i(Z)ᵀR(Z), the residual along the eigenfunctions.

    The product is the plain one over the rows of Z, whatever μ is (the paper's
    eq. `eqn:convergence-embed`; eq. `eq:convergence_vec` prints ⟨·,·⟩_H).

    **Arguments:**

    - `system`: of Θ on the whole set.
    - `residual`: R(z) for z in Z, and 0 at the other points of the set.
    """
    return system.eigenfunctions.T @ residual


def alpha_from_kernel(
    theta: Float[Array, "n n"], residual: Float[Array, " n"]
) -> Float[Array, ""]:
    """α(Z) = R(Z)ᵀΘ(Z)R(Z) (the proof of the corollary to `lemma:param-diff`)."""
    return residual @ (theta @ residual)


def alpha_from_gradient(
    J: Float[Array, "n P"], residual: Float[Array, " n"]
) -> Float[Array, ""]:
    """α(Z) = ‖J(Z)ᵀR(Z)‖², the squared norm of the loss gradient."""
    return jnp.sum((J.T @ residual) ** 2)


def alpha_from_spectrum(
    system: EigenSystem, residual: Float[Array, " n"]
) -> Float[Array, ""]:
    """α(Z) = Σ_i λ_i a_i(Z)² (eq. `eq:convergence`, right).

    **Arguments:**

    - `system`: of Θ on a set that contains Z.
    - `residual`: R(z) for z in Z, and 0 at the other points of the set.
    """
    return jnp.sum(system.eigenvalues * alignments(system, residual) ** 2)


def alpha_from_norm(
    theta: Float[Array, "n n"],
    residual: Float[Array, " n"],
    measure: Float[Array, " n"] | None = None,
) -> Float[Array, ""]:
    """α(Z) = ‖ΔR(·; Z)/η‖²_H (eq. `eq:convergence`, left), whatever the measure.

    **Arguments:**

    - `theta`: Θ on a set that contains Z.
    - `residual`: R(z) for z in Z, and 0 at the other points of the set.
    - `measure`: of L²(μ), as in `eigensystem`.
    """
    change = residual_change(theta, residual)
    return squared_norm(eigensystem(theta, measure), change)
