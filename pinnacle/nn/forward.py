"""Partial derivatives of any function, by nested forward mode."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .multi_index import MultiIndex


def forward_derivatives(
    fn: Callable[[Array], Array],
    x: Float[Array, " d"],
    indices: tuple[MultiIndex, ...],
) -> tuple[Float[Array, "..."], ...]:
    """Partial derivatives ∂^α f(x) for several α at once.

    The indices are split by their first coordinate i. One `jax.jvp` along e_i of the
    function that returns all the shortened derivatives gives those derivatives as its
    primal part and the wanted ones as its tangent part, so common prefixes are
    evaluated once.

    **Arguments:**

    - `fn`: a function of one point.
    - `x`: the point.
    - `indices`: multi-indices α, each sorted.

    **Returns:**

    One array of the shape of `fn(x)` for each multi-index.
    """
    found: dict[MultiIndex, Array] = {}
    # Deep branches first: their primal parts hold shorter derivatives for nothing.
    axes = {index[0] for index in indices if index}
    branches = {
        axis: tuple(sorted({index[1:] for index in indices if index[:1] == (axis,)}))
        for axis in axes
    }
    for axis, shorter in sorted(branches.items(), key=lambda b: -max(map(len, b[1]))):
        direction = jnp.zeros_like(x).at[axis].set(1)
        values, tangents = jax.jvp(
            lambda p, shorter=shorter: forward_derivatives(fn, p, shorter),
            (x,),
            (direction,),
        )
        for index, value, tangent in zip(shorter, values, tangents, strict=True):
            found.setdefault(index, value)
            found[(axis, *index)] = tangent
    if () in indices and () not in found:
        found[()] = fn(x)
    return tuple(found[index] for index in indices)
