"""The norm of a point's own loss gradient."""

from jaxtyping import Array, Float

from .._types import PoolInfo
from .base import AbstractConvergenceCriterion


class GradientNorm(AbstractConvergenceCriterion):
    """Score ‖J(z)ᵀR(z)‖², the exact convergence degree of each point by itself.

    J goes over everything that is trained, unknown coefficients included.

    One column: unlike [`ConvergenceDegree`][] it does not know that two points pull in
    the same direction.
    """

    def __call__(self, info: PoolInfo) -> Float[Array, "n q"]:
        return info.gradient_norm[:, None]
