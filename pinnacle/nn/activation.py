"""Activation functions with their derivatives in closed form."""

import abc
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class AbstractActivation(eqx.Module):
    """A function applied elementwise, with its derivatives."""

    @abc.abstractmethod
    def tower(
        self, z: Float[Array, "*shape"], order: int
    ) -> tuple[Float[Array, "*shape"], ...]:
        """σ(z), σ'(z), …, σ^(order)(z).

        **Arguments:**

        - `z`: where.
        - `order`: the highest derivative, static.

        **Returns:**

        `order + 1` arrays of the shape of `z`.
        """

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self.tower(z, 0)[0]


class Tanh(AbstractActivation):
    """σ(z) = tanh z."""

    def tower(self, z, order):
        y = jnp.tanh(z)
        if order == 0:
            return (y,)
        slope = 1 - y * y
        return (y, slope, *(slope * _horner(_tanh(k), y) for k in range(2, order + 1)))


class Sin(AbstractActivation):
    """σ(z) = sin z."""

    def tower(self, z, order):
        s = jnp.sin(z)
        if order == 0:
            return (s,)
        c = jnp.cos(z)
        return tuple((s, c, -s, -c)[k % 4] for k in range(order + 1))


class Elementwise(AbstractActivation):
    """Any elementwise function; its derivatives come from nested forward mode."""

    fn: Callable[[Array], Array] = eqx.field(static=True)

    def tower(self, z, order):
        if order == 0:
            return (self.fn(z),)
        values, slopes = jax.jvp(
            lambda p: Elementwise(self.fn).tower(p, order - 1),
            (z,),
            (jnp.ones_like(z),),
        )
        return (*values, slopes[-1])


class LAAF(AbstractActivation):
    """Layer-wise locally adaptive activation σ(n a z) with one trainable a a layer.

    `MLP` gives each hidden layer its own copy, so each learns its own slope. n is
    fixed and a starts at 1/n: the function starts as σ and its slope learns n times
    faster. From Jagtap, Kawaguchi and Karniadakis, "Locally adaptive activation
    functions with slope recovery for deep and physics-informed neural networks" (2020),
    without the slope-recovery term.

    **Arguments:**

    - `activation`: σ, a name (`"tanh"`, `"sin"`), a function or an activation.
    - `scale`: n, at least 1.

    **Raises:** `ValueError` for an unknown name or a scale below 1.
    """

    activation: AbstractActivation
    slope: Float[Array, ""]
    scale: float = eqx.field(static=True)

    def __init__(self, activation: str | Callable = "tanh", *, scale: float = 10.0):
        if not scale >= 1:
            raise ValueError(
                f"`scale` must be at least 1, got {scale!r}; the usual choice is 10."
            )
        self.activation = as_activation(activation)
        self.scale = float(scale)
        self.slope = jnp.asarray(1 / self.scale, jnp.result_type(float))

    def tower(self, z, order):
        factor = self.scale * self.slope
        inner = self.activation.tower(factor * z, order)
        return tuple(factor**k * d if k else d for k, d in enumerate(inner))


_NAMED = {"tanh": Tanh, "sin": Sin}


def as_activation(activation: str | Callable) -> AbstractActivation:
    """An activation from its name, from a function, or from itself."""
    if isinstance(activation, AbstractActivation):
        return activation
    if isinstance(activation, str) and activation in _NAMED:
        return _NAMED[activation]()
    if callable(activation):
        return Elementwise(activation)
    raise ValueError(
        f"`activation` must be one of {sorted(_NAMED)}, an elementwise function or an "
        f"activation of `pinnacle.nn`, got {activation!r}."
    )


@functools.cache
def _tanh(order: int) -> tuple[int, ...]:
    """Coefficients (constant first) of Q in tanh^(order) = (1 - y²) Q(y), y = tanh.

    With Q_1 = 1, Q_{k+1} = (1 - y²) Q_k' - 2y Q_k.
    """
    if order == 1:
        return (1,)
    q = _tanh(order - 1)
    new = [0] * (len(q) + 1)
    for power, c in enumerate(q):
        if power:
            new[power - 1] += power * c
        new[power + 1] -= (power + 2) * c
    return tuple(new)


def _horner(coefficients: tuple[int, ...], y: Array) -> Array:
    """An even or odd polynomial of y, by Horner's rule in y²."""
    odd = coefficients[0] == 0
    *lower, total = coefficients[int(odd) :: 2]
    # Python numbers until they meet y: a constant array has no batch axis under `vmap`
    # and would change the layout of what it meets.
    for c in reversed(lower):
        total = total * (y * y) + c
    return total * y if odd else jnp.asarray(total, y.dtype)
