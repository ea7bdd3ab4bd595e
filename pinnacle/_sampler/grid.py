"""Regular grids."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ._unit import below_one, check_size, columns
from .base import AbstractSampler


class Grid(AbstractSampler):
    """The centres of a regular grid of cells, or one random point in each.

    The numbers of cells along the axes differ by at most one and their product is at
    least n. Where it is more, n cells are taken at random. The rows come in random
    order; if the product is n and there is no jitter, that order is all that the key
    changes.

    **Arguments:**

    - `jitter`: a uniform point of each cell instead of its centre.
    """

    jitter: bool = eqx.field(static=True, default=False)

    def unit(self, n: int, dim: int, *, key: PRNGKeyArray) -> Float[Array, "n dim"]:
        check_size(n, dim)
        counts = cells_per_axis(n, dim)
        choice_key, place_key = jax.random.split(key)
        bits = jax.random.bits(choice_key, (math.prod(counts),), jnp.uint32)
        cell = jnp.argsort(bits)[:n]
        place = jax.random.uniform(place_key, (n, dim)) if self.jitter else None
        parts = []
        for axis, count in enumerate(counts):
            offset = 0.5 if place is None else place[:, axis]
            parts.append(below_one((cell % count + offset) / count))
            cell = cell // count
        return columns(parts, n)


def cells_per_axis(n: int, dim: int) -> tuple[int, ...]:
    """Counts that differ by at most one, with the least product that is at least n."""
    if dim == 0:
        return ()
    side = max(round(n ** (1 / dim)) - 1, 1)
    while (side + 1) ** dim <= n:
        side += 1
    larger = next(k for k in range(dim + 1) if (side + 1) ** k * side ** (dim - k) >= n)
    return (side + 1,) * larger + (side,) * (dim - larger)
