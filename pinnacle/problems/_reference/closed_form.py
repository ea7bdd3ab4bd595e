"""Reference solutions that are known in closed form."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .base import Reference
from .grid import check_positive, evaluate, space_time


def advection_reference(
    initial: Callable[[Array], Array],
    *,
    speed: float,
    length: float = 1.0,
    duration: float = 2.0,
    cells: int = 256,
    intervals: int = 100,
) -> Reference:
    """u_t + β u_x = 0 on (0, L), periodic: u(x, t) = u0((x − βt) mod L).

    The paper prints the other sign with this same solution; this is the sign that it
    solves.

    **Arguments:**

    - `initial`: u0 on [0, L), elementwise.
    - `speed`: β, of either sign.
    - `length`, `duration`: L and the final time.
    - `cells`, `intervals`: the grid has `cells + 1` points in x, both ends included,
      and `intervals + 1` in t, the initial time included.

    **Returns:**

    The solution on the grid, axes (x, t), one output. Raises `ValueError` for sizes
    that are not positive.
    """
    check_positive(length=length)
    x, t = space_time(0.0, length, duration, cells, intervals)
    # The right end takes the position of the left one, so that they agree exactly.
    position = np.mod(np.append(x[:-1], x[0])[:, None] - speed * t, length)
    return Reference((x, t), evaluate(initial, position)[..., None])


def diffusion_reference(
    *, duration: float = 3.0, cells: int = 256, intervals: int = 100
) -> Reference:
    """u_t = u_xx + f on (−1, 1), u = 0 at both ends: u(x, t) = e^{−2t} sin(4πx).

    The source f is [`diffusion_source`][].

    **Arguments:**

    - `duration`: the final time.
    - `cells`, `intervals`: as in [`advection_reference`][].

    **Returns:**

    The solution on the grid, axes (x, t), one output. Raises `ValueError` for sizes
    that are not positive.
    """
    x, t = space_time(-1.0, 2.0, duration, cells, intervals)
    u = np.sin(4 * np.pi * x)[:, None] * np.exp(-2 * t)[None, :]
    return Reference((x, t), u[..., None])


def diffusion_source(
    x: Float[Array, "*shape"], t: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """The source f of [`diffusion_reference`][], f(x, t) = −e^{−2t} sin(4πx)(2 − 16π²).

    With u = e^{−2t} sin(4πx), u_t = −2u and u_xx = −16π² u, so f = u_t − u_xx =
    (16π² − 2) u. The paper prints 4π² for 16π², which u does not solve.

    **Arguments:**

    - `x`, `t`: position and time, elementwise.
    """
    return -jnp.exp(-2 * t) * jnp.sin(4 * jnp.pi * x) * (2 - 16 * jnp.pi**2)
