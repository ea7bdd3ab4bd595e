"""Tweaks of a network, each a wrapper around it."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from .base import AbstractNetwork, network_derivatives
from .forward import forward_derivatives
from .multi_index import MultiIndex, closure, factorial


class InputNormalisation(AbstractNetwork):
    """N(c ⊙ (x − lower) − 1) with c = 2 / (upper − lower): the box becomes [−1, 1]^d.

    A derivative stream of the inner network is multiplied by the factors c_i of its
    coordinates.

    **Arguments:**

    - `network`: any network.
    - `lower`, `upper`: corners of the box; not trained.

    **Raises:** `ValueError` if the corners differ in length or upper ≤ lower.
    """

    network: PyTree
    lower: tuple[float, ...] = eqx.field(static=True)
    upper: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, network, lower, upper):
        self.network = network
        self.lower = tuple(float(v) for v in np.atleast_1d(lower))
        self.upper = tuple(float(v) for v in np.atleast_1d(upper))

    def __check_init__(self):
        if len(self.lower) != len(self.upper) or any(
            b <= a for a, b in zip(self.lower, self.upper, strict=False)
        ):
            raise ValueError(
                "`lower` and `upper` must be the corners of a box with upper > lower "
                f"in each coordinate, got lower={self.lower}, upper={self.upper}."
            )

    @property
    def _factors(self) -> tuple[float, ...]:
        return tuple(2 / (b - a) for a, b in zip(self.lower, self.upper, strict=True))

    def _normalise(self, x):
        if x.shape != (len(self.lower),):
            raise ValueError(
                f"a point of shape {x.shape} met an `InputNormalisation` of "
                f"{len(self.lower)} coordinates; give it the bounds of the domain."
            )
        lower = jnp.asarray(self.lower, x.dtype)
        return (x - lower) * jnp.asarray(self._factors, x.dtype) - 1

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " outputs"]:
        return jnp.atleast_1d(self.network(self._normalise(x)))

    def derivatives(self, x, indices):
        inner = network_derivatives(self.network, self._normalise(x), indices)
        return tuple(
            math.prod(self._factors[i] for i in index) * d if index else d
            for index, d in zip(indices, inner, strict=True)
        )


class OutputTransform(AbstractNetwork):
    """fn(x, N(x)): builds conditions into the output, so that they hold exactly.

    For instance `lambda x, n: t * (1 - x**2) * n + sin(4πx)` of NOTES §4. Derivatives
    are those of h ↦ fn(x + h, p(h)) at h = 0, with p the Taylor polynomial of N at x,
    p(h) = Σ_α ∂^αN(x) h^α / α!; they are exact because ∂^α fn needs only the ∂^βN with
    β ≤ α, and cheap because N is evaluated once.

    **Arguments:**

    - `network`: any network.
    - `fn`: `(x, raw) -> outputs` at one point, plain JAX.
    """

    network: PyTree
    fn: Any

    def __init__(self, network, fn: Any):
        self.network = network
        self.fn = fn if isinstance(fn, eqx.Module) else jax.tree_util.Partial(fn)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " outputs"]:
        return jnp.atleast_1d(self.fn(x, jnp.atleast_1d(self.network(x))))

    def derivatives(self, x, indices):
        needed = closure(indices)
        raw = network_derivatives(self.network, x, needed)

        def transformed(h):
            taylor = _polynomial(h, needed, raw)
            return jnp.atleast_1d(self.fn(x + h, taylor))

        return forward_derivatives(transformed, jnp.zeros_like(x), indices)


def _polynomial(h, indices: tuple[MultiIndex, ...], derivatives):
    """Σ_α ∂^α h^α / α!."""
    total = jnp.zeros_like(derivatives[0])
    for index, derivative in zip(indices, derivatives, strict=True):
        term = derivative
        for i in index:
            term = term * h[i]
        total = total + term / factorial(index)
    return total


class Apply(eqx.Module):
    """Parameters and an apply function from elsewhere (Flax, plain JAX, …).

    **Arguments:**

    - `params`: any pytree; its floating-point arrays are trained.
    - `apply`: `(params, x) -> outputs` at one point.
    """

    params: PyTree
    apply: Callable[[Any, Array], Array] = eqx.field(static=True)

    def __init__(self, params, apply):
        self.params = jax.tree.map(
            lambda p: jnp.asarray(p) if isinstance(p, np.ndarray) else p, params
        )
        self.apply = apply

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " outputs"]:
        return jnp.atleast_1d(self.apply(self.params, x))
