"""A network that is periodic by construction."""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .base import AbstractNetwork
from .forward import forward_derivatives
from .mlp import MLP
from .multi_index import MultiIndex, closure


class PeriodicInput(AbstractNetwork):
    """N(cos kωx, sin kωx, the other coordinates) with k = 1, …, modes and ω = 2π/L.

    It repeats after L in x whatever its parameters are.

    The value and all derivatives agree at the two ends, so no periodic condition has to
    be trained (Dong and Ni, 2021, "A method for representing periodic functions and
    enforcing exactly periodic boundary conditions with deep neural networks").

    **Arguments:**

    - `network`: takes 2·modes − 1 coordinates more than a point has: all cosines, all
      sines, then the other coordinates in their order. A [`pinnacle.nn.MLP`][] keeps
      its fast derivatives.
    - `axis`: the coordinate x that wraps around.
    - `period`: L, not trained.
    - `modes`: how many waves. More than one helps where the solution has that many
      periods in the domain; tanh networks learn high frequencies slowly.

    **Raises:** `ValueError` if the period is not positive, or without a mode.
    """

    network: PyTree
    axis: int = eqx.field(static=True)
    period: float = eqx.field(static=True)
    modes: int = eqx.field(static=True)

    def __init__(self, network, axis: int, period: float, modes: int = 1):
        self.network = network
        self.axis = axis
        self.period = float(period)
        self.modes = modes

    def __check_init__(self):
        if not 0 < self.period < math.inf:
            raise ValueError(
                f"`period` is {self.period}: give the positive length after which the "
                "solution repeats."
            )
        if self.modes < 1:
            raise ValueError(f"`modes` is {self.modes}: give at least 1.")

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " outputs"]:
        return jnp.atleast_1d(self.network(self._features(x)))

    def derivatives(self, x, indices):
        if not isinstance(self.network, MLP):
            return forward_derivatives(self, x, indices)
        needed = closure(indices)
        live = [i for i in needed if len(i) < 2 or set(i) == {self.axis}]
        return self.network.compose({i: self._stream(x, i) for i in live}, indices)

    def _stream(self, x, index: MultiIndex) -> Float[Array, " _"]:
        """∂^α of the network's input."""
        if not index:
            return self._features(x)
        if self.axis in index:
            return jnp.pad(self._wave(x, len(index)), (0, x.size - 1))
        (unit,) = (jnp.zeros_like(x).at[axis].set(1) for axis in index)
        return jnp.pad(jnp.delete(unit, self.axis), (2 * self.modes, 0))

    def _features(self, x) -> Float[Array, " _"]:
        return jnp.concatenate([self._wave(x, 0), jnp.delete(x, self.axis)])

    def _wave(self, x, order: int) -> Float[Array, " _"]:
        """∂^n of cos kωx and sin kωx: (kω)^n times cos and sin of kωx + nπ/2."""
        frequency = 2 * math.pi / self.period * jnp.arange(1, self.modes + 1)
        frequency = frequency.astype(x.dtype)
        angle = frequency * x[self.axis] + order * math.pi / 2
        waves = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        return (frequency[None] ** order * waves).reshape(-1)
