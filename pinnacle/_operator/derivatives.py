"""Several partial derivatives of the model at once."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._misc import require_integer
from .._model import Model
from ..nn.base import network_derivatives
from ..nn.multi_index import MultiIndex


def derivatives(
    u: Model | Callable[[Array], Array],
    x: Float[Array, " d"],
    *axes: int | tuple[int, ...],
) -> tuple[Float[Array, " outputs"], ...]:
    """Partial derivatives ∂^α u(x), for several α at once.

    `u0, u_t, u_xx = derivatives(u, x, (), T, (X, X))`, say. On the networks of
    `pinnacle.nn` all of them share one pass through the layers; on anything else it is
    nested forward mode, with common prefixes evaluated once.

    **Arguments:**

    - `u`: the model, or any function of one point.
    - `x`: the point.
    - `axes`: for each derivative wanted, the coordinates to differentiate by: `()` is
      the value, `(0, 1)` (or `(1, 0)`) the mixed second derivative. A bare integer
      stands for a one-element tuple: `1` is `(1,)`.

    **Returns:**

    One array of shape `(outputs,)` for each of `axes`, as a tuple also if there is only
    one: `(u_x,) = derivatives(u, x, X)`.

    **Raises:** `ValueError` if a coordinate does not exist or is no integer.
    """
    indices = tuple(_multi_index(a, x.shape[-1]) for a in axes)
    network = u.network if isinstance(u, Model) else u
    distinct = tuple(dict.fromkeys(indices))
    found = dict(zip(distinct, network_derivatives(network, x, distinct), strict=True))
    return tuple(jnp.atleast_1d(found[index]) for index in indices)


def _multi_index(axes: int | tuple[int, ...], dim: int) -> MultiIndex:
    advice = "differentiate by coordinates, counted from 0, such as `(0, 0)`"
    index = tuple(
        require_integer("axes", axis, 0, advice)
        for axis in (axes if isinstance(axes, tuple | list) else (axes,))
    )
    if any(axis >= dim for axis in index):
        raise ValueError(
            f"`axes` {axes!r} names a coordinate that does not exist: the point has "
            f"coordinates 0 to {dim - 1}."
        )
    return tuple(sorted(index))
