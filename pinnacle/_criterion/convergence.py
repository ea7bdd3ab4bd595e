"""The convergence degree α, the paper's criterion."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import PoolInfo
from ._rows import row_by_row
from .base import AbstractConvergenceCriterion


class ConvergenceDegree(AbstractConvergenceCriterion):
    """How much training on a set would move all residuals at once.

    φ_i(z) = √λ_i Σ_rows ψ_i(z)R(z), so that ‖Σ_{z∈Z} φ(z)‖² = R(Z)ᵀΘ(Z)R(Z) = α(Z)
    (equation "convergence-embed-approx" of the paper).
    """

    def __call__(self, info: PoolInfo) -> Float[Array, "n q"]:
        # Rounding can leave a λ just below zero.
        root = jnp.sqrt(jnp.maximum(info.spectrum.eigenvalues, 0))[None]

        def embed(psi, R):
            return jnp.einsum("nmr,nm->nr", psi, R) * root

        return row_by_row(embed, info.spectrum.eigenfunctions, info.residual)
