"""Independent uniform points."""

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from ._unit import check_size
from .base import AbstractSampler


class Uniform(AbstractSampler):
    """Independent points, uniform on the cube."""

    def unit(self, n: int, dim: int, *, key: PRNGKeyArray) -> Float[Array, "n dim"]:
        check_size(n, dim)
        return jax.random.uniform(key, (n, dim))
