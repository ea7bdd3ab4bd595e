"""Every candidate is worth the same."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import PoolInfo
from .base import AbstractConvergenceCriterion


class Constant(AbstractConvergenceCriterion):
    """Score 1 everywhere: what a selector makes of it is uniform."""

    def __call__(self, info: PoolInfo) -> Float[Array, "n q"]:
        return jnp.ones((info.kind.shape[0], 1), info.residual.dtype)
