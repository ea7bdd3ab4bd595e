"""How good the Nyström approximation of Θ, and of α, is; and how much it has to cover.

Θ(Z) ≈ Θ(Z, ref) Θ(ref)⁺ Θ(ref, Z), so that α̂ = RᵀΘ(·, ref)Θ(ref)⁺Θ(ref, ·)R
(the paper's appendix `appx:approx-error`). Here every set is given by rows of a pool,
and Θ is the kernel of the pool.
"""

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int


def nystrom_kernel(
    theta: Float[Array, "n n"], reference: Int[Array, " p"]
) -> Float[Array, "n n"]:
    """Θ(pool, ref) Θ(ref)⁺ Θ(ref, pool), eigenvalues of Θ(ref) below p·ε·λ̃_1 cut.

    **Arguments:**

    - `theta`: Θ(pool), symmetric positive semi-definite.
    - `reference`: rows of the reference set.
    """
    cross = theta[:, reference]
    values, vectors = jnp.linalg.eigh(cross[reference])
    noise = reference.shape[0] * float(jnp.finfo(theta.dtype).eps) * values[-1]
    kept = values > noise
    inverse = jnp.where(kept, 1 / jnp.sqrt(jnp.where(kept, values, 1)), 0)
    factor = (cross @ vectors) * inverse[None, :]
    return factor @ factor.T


def nystrom_alpha(
    theta: Float[Array, "n n"],
    reference: Int[Array, " p"],
    residual: Float[Array, " n"],
) -> Float[Array, ""]:
    """α̂(Z) = Σ_i λ̃_i⁻¹(ṽ_iᵀΘ(ref, Z)R(Z))² (eq. `eqn:convergence-embed-approx`).

    0 ≤ α̂ ≤ α; α̂ grows with the reference set and equals α once Z is part of it.

    **Arguments:**

    - `theta`, `reference`: as in `nystrom_kernel`.
    - `residual`: R(z) for z in Z, and 0 at the other rows of the pool.
    """
    return residual @ (nystrom_kernel(theta, reference) @ residual)


def nystrom_error(
    theta: Float[Array, "n n"], reference: Int[Array, " p"]
) -> Float[Array, ""]:
    """‖Θ − Θ(·, ref)Θ(ref)⁺Θ(ref, ·)‖₂ on the pool, as observed."""
    gap = theta - nystrom_kernel(theta, reference)
    return jnp.max(jnp.abs(jnp.linalg.eigvalsh((gap + gap.T) / 2)))


def coherence(theta: Float[Array, "n n"], k: int) -> Float[Array, ""]:
    """τ = (n/k) max_i ‖(U_k)_i‖² of the k leading eigenvectors; 1 ≤ τ ≤ n/k.

    (Proposition `corr:nystrom-good`.) τ = 1: the eigenvectors spread over all points;
    τ = n/k: one of them sits on a single point, which sampling must not miss.

    **Raises:** `ValueError` unless 1 ≤ k ≤ n.
    """
    n = theta.shape[0]
    _check_k(k, n)
    _, vectors = jnp.linalg.eigh(theta)
    leading = vectors[:, n - k :]
    return jnp.max(jnp.sum(leading**2, axis=1)) * (n / k)


def reference_size(
    tau: ArrayLike, k: int, epsilon: ArrayLike, delta: ArrayLike
) -> Float[Array, ""]:
    """p_min = 2τk log(k/δ)/(1 − ε)² (proposition `corr:nystrom-good`).

    **Arguments:**

    - `tau`: coherence of the k leading eigenvectors.
    - `k`: how many of them the reference set shall capture.
    - `epsilon`, `delta`: ε and δ, both in (0, 1); the bound on the error falls with ε
      and holds with probability 1 − δ.

    **Returns:**

    p_min, not rounded; it may exceed the pool, and then the proposition says nothing.
    NaN if ε or δ is outside (0, 1), or τ < 1.
    """
    tau, epsilon, delta = _numbers(tau, epsilon, delta)
    valid = (epsilon > 0) & (epsilon < 1) & (delta > 0) & (delta < 1)
    valid = valid & (tau > 1 - 1e-4)
    size = 2 * tau * k * jnp.log(k / delta) / (1 - epsilon) ** 2
    return jnp.where(valid, size, jnp.nan)


def spectral_error_bound(
    theta: Float[Array, "n n"],
    k: int,
    references: ArrayLike,
    epsilon: ArrayLike,
    delta: ArrayLike,
) -> Float[Array, ""]:
    """ĉ = λ_{k+1}(1 + n/(εp)) ≥ ‖Θ − Nyström‖₂, for any part of the pool
    (proposition `corr:nystrom-good`), with probability 1 − δ over a uniformly random
    reference set.

    **Arguments:**

    - `theta`: Θ(pool), n rows.
    - `k`: how many leading eigenvectors are captured.
    - `references`: p, number of reference rows.
    - `epsilon`, `delta`: as in `reference_size`.

    **Returns:**

    ĉ; infinite if p < p_min, where nothing is promised; NaN as in `reference_size`.

    **Raises:** `ValueError` unless 1 ≤ k ≤ n.
    """
    n = theta.shape[0]
    least = reference_size(coherence(theta, k), k, epsilon, delta)
    eps, references = _numbers(epsilon, references)
    values = jnp.linalg.eigvalsh(theta)[::-1]
    following = jnp.maximum(values[k], 0) if k < n else jnp.zeros((), theta.dtype)
    bound = following * (1 + n / (eps * references))
    promised = jnp.where(references >= least, bound, jnp.inf)
    return jnp.where(jnp.isnan(least), jnp.nan, promised)


def alpha_error_bound(
    spectral_error: ArrayLike, residual: Float[Array, " n"]
) -> Float[Array, ""]:
    """|α − α̂| ≤ ĉ‖R(Z)‖² (proposition `corr:alpha-alignment`).

    (The proof's middle line squares the spectral norm; the first power is right.)

    **Arguments:**

    - `spectral_error`: ĉ, or the observed `nystrom_error`.
    - `residual`: R(Z).
    """
    return jnp.asarray(spectral_error, residual.dtype) * jnp.sum(residual**2)


def effective_rank(eigenvalues: Float[Array, " r"]) -> Float[Array, ""]:
    """exp(−Σ p_i log p_i) with p_i = λ_i/Σλ: how many eigenvalues count.

    From 1 (one eigenvalue) to r (all equal). Source: Roy and Vetterli (2007). NaN if
    all eigenvalues are 0; negative ones count as 0.
    """
    positive = jnp.maximum(eigenvalues, 0)
    share = positive / jnp.sum(positive)
    log = jnp.log(jnp.where(share > 0, share, 1))
    return jnp.exp(-jnp.sum(share * log))


def trace_share(eigenvalues: Float[Array, " r"]) -> Float[Array, " r"]:
    """Σ_{i≤k} λ_i/Σλ for k = 1, …, r: the share of the trace that k eigenpairs keep.

    **Arguments:**

    - `eigenvalues`: in descending order. NaN if all are 0; negative ones count as 0.
    """
    positive = jnp.maximum(eigenvalues, 0)
    return jnp.cumsum(positive) / jnp.sum(positive)


def nystrom_trace_share(
    theta: Float[Array, "n n"], reference: Int[Array, " p"]
) -> Float[Array, ""]:
    """tr(Nyström)/tr Θ: the share of the trace that a reference set keeps."""
    return jnp.trace(nystrom_kernel(theta, reference)) / jnp.trace(theta)


def _check_k(k: int, n: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(
            f"`k` is {k}, but the pool has {n} rows: choose 1 ≤ k ≤ {n} eigenvectors."
        )


def _numbers(*values: ArrayLike) -> tuple[Array, ...]:
    return tuple(jnp.asarray(v, jnp.result_type(float)) for v in values)
