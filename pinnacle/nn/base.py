"""What a network that knows its own derivatives looks like."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .forward import forward_derivatives
from .multi_index import MultiIndex


class AbstractNetwork(eqx.Module):
    """A network that computes several partial derivatives at once, and fast."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " outputs"]:
        """Evaluate the network at one point."""

    @abc.abstractmethod
    def derivatives(
        self, x: Float[Array, " d"], indices: tuple[MultiIndex, ...]
    ) -> tuple[Float[Array, " outputs"], ...]:
        """Partial derivatives ∂^α N(x), one for each multi-index α.

        **Arguments:**

        - `x`: one point.
        - `indices`: sorted tuples of coordinates, `()` for the value.

        **Returns:**

        One array a multi-index.
        """


def network_derivatives(
    network: Callable[[Array], Array],
    x: Float[Array, " d"],
    indices: tuple[MultiIndex, ...],
) -> tuple[Float[Array, " outputs"], ...]:
    """The network's own derivatives, or nested forward mode if it has none."""
    if isinstance(network, AbstractNetwork):
        return network.derivatives(x, indices)
    return forward_derivatives(lambda p: jnp.atleast_1d(network(p)), x, indices)
