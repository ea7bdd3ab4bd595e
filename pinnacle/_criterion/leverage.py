"""Ridge leverage scores: how much a Gauss–Newton step depends on a point."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._misc import as_number, require_number
from .._types import PoolInfo
from ._pool import by_kind, with_pool
from .base import AbstractConvergenceCriterion


class Leverage(AbstractConvergenceCriterion):
    """Score ℓ(z) = tr [Θ(Θ + μI)⁻¹]_zz with Θ the NTK of the whole pool.

    The rows of a candidate of kind r are weighted by 1/√n_r, n_r being the number of
    candidates of its kind. So Θ = JJᵀ is the Gauss–Newton matrix of the training
    objective on the whole pool, and μ = damping · λ_max(Θ) is what
    [`pinnacle.GaussNewton`][] adds to it. Σℓ = Σ_i λ_i/(λ_i + μ) is the number of
    directions that the damping leaves free: about as many points are needed to
    determine a step. Sampling ∝ ℓ with importance weights is the classical sketch for
    least squares; source: Alaoui and Mahoney 2015, "Fast randomized kernel ridge
    regression with statistical guarantees".

    Residuals do not enter. φ(z) has the columns of every row of z side by side, and
    φ(z)·φ(z') = tr [Θ(Θ + μI)⁻¹]_zz': K-means++ on it spreads points over the free
    directions.

    **Arguments:**

    - `damping`: μ/λ_max > 0, the one of the optimiser.
    - `by_kind`: whether rows carry 1/√n_r; without it all candidates count the same.
    """

    damping: Float[Array, ""] = eqx.field(converter=as_number, default=1e-6)
    by_kind: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        require_number("damping", self.damping, lambda d: d > 0, "a number > 0")

    def __call__(self, info: PoolInfo) -> Float[Array, "n q"]:
        # Thin factor Θ = FFᵀ, one row a residual row; of these rows and of the pool.
        F, of_pool = with_pool(_factor, info)
        counts = info.pool.mask & jnp.all(jnp.isfinite(of_pool), axis=(1, 2))
        if self.by_kind:
            number = by_kind(jax.ops.segment_sum, counts.astype(F.dtype), info)
            root = jnp.sqrt(jnp.maximum(number, 1))[:, None, None]
            F, of_pool = F / root[info.kind], of_pool / root[info.pool.kind]
        # FFᵀ(FFᵀ + μI)⁻¹ = F(FᵀF + μI)⁻¹Fᵀ has an r × r matrix instead of a pool-sized
        # one; FᵀF = VSVᵀ gives the features FV(S + μI)^(-1/2).
        live = jnp.where(counts[:, None, None], of_pool, 0).reshape(-1, F.shape[2])
        S, V = jnp.linalg.eigh(live.T @ live)
        S = jnp.maximum(S, 0)
        scale = S + self.damping.astype(S.dtype) * jnp.max(S, initial=0)
        scale = jnp.where(scale > 0, jax.lax.rsqrt(jnp.where(scale > 0, scale, 1)), 0)
        return (F @ (V * scale[None, :])).reshape(F.shape[0], -1)


def _factor(info: PoolInfo) -> Float[Array, "n m r"]:
    root = jnp.sqrt(jnp.maximum(info.spectrum.eigenvalues, 0))
    return info.spectrum.eigenfunctions * root[None, None, :]
