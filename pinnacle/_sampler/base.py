"""How points of the unit cube are drawn."""

import abc

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray


class AbstractSampler(eqx.Module):
    """A keyed source of points in the unit cube."""

    @abc.abstractmethod
    def unit(self, n: int, dim: int, *, key: PRNGKeyArray) -> Float[Array, "n dim"]:
        """Draw exactly `n` points of [0,1)^dim.

        The same key gives the same bits; another key gives other points.

        **Arguments:**

        - `n`: number of points, static.
        - `dim`: number of coordinates, static.
        - `key`: a JAX random key.

        **Returns:**

        Points of [0,1)^dim, one a row, in JAX's default floating dtype.
        """
