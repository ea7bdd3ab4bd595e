"""The convergence degree α, the paper's criterion."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import PoolInfo
from .base import AbstractConvergenceCriterion


class ConvergenceDegree(AbstractConvergenceCriterion):
    """How much training on a set would move all residuals at once.

    φ_i(z) = √λ_i Σ_rows ψ_i(z)R(z), so that ‖Σ_{z∈Z} φ(z)‖² = R(Z)ᵀΘ(Z)R(Z) = α(Z)
    (equation "convergence-embed-approx" of the paper).
    """

    def __call__(self, info: PoolInfo) -> Float[Array, "n q"]:
        # a_i(z) = Σ_rows ψ_i(z)R(z); rounding can leave a λ just below zero.
        coefficients = jnp.einsum(
            "nmr,nm->nr", info.spectrum.eigenfunctions, info.residual
        )
        return coefficients * jnp.sqrt(jnp.maximum(info.spectrum.eigenvalues, 0))[None]
