"""Reference solution of the radial dam break, by finite volumes in the radius.

The flow depends on r = √(x² + y²) only, as long as the wave has not met the boundary:

    (r h)_t + (r q)_r = 0,     (r q)_t + (r q²/h + r g h²/2)_r = g h²/2,     q = h u_r.

A cell is a ring. The right side, the pressure on its two sides that point across r, is
integrated so that still water stays still to rounding. Slopes of (h, u_r) are limited
(van Leer), faces have the flux of Harten, Lax and van Leer, time steps are the
three-stage scheme that keeps bounds (Shu and Osher).
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .base import Reference
from .grid import check_positive, on_cpu


_COURANT = 0.8


def shallow_water_reference(
    *,
    inside: float = 2.0,
    outside: float = 1.0,
    radius: float = 0.5,
    gravity: float = 1.0,
    half_width: float = 2.5,
    duration: float = 1.0,
    cells: int = 50,
    intervals: int = 20,
    rings: int = 4000,
) -> Reference:
    """h, u, v of a round dam that breaks at t = 0, on [−w, w]² × [0, duration].

    h_t + (hu)_x + (hv)_y = 0, u_t + u u_x + v u_y + g h_x = 0 and the same for v, with
    h = `inside` for r < `radius`, else `outside`, and u = v = 0.

    With the default numbers, 8000 rings in place of 4000 change h by 1.1e-3 and the
    velocity by 1e-2 relative in the L2 norm on the grid, nearly all of it at the few
    grid points that the shock is just passing. In the L1 norm over r at the final time
    it is 8e-5 and 7e-4.

    **Arguments:**

    - `inside`, `outside`: depths, inside > outside > 0.
    - `radius`, `gravity`: of the dam; g.
    - `half_width`: w. The wave must not have met the boundary at the end.
    - `duration`: the final time.
    - `cells`, `intervals`: the grid of the result has `cells + 1` points in x and in y
      and `intervals + 1` in t, ends included.
    - `rings`: cells of the solver.

    **Returns:**

    The solution on the grid, axes (x, y, t), outputs h, u and v. Raises `ValueError`
    for sizes that are not positive, for depths in the wrong order, and if the wave may
    meet the boundary.
    """
    check_positive(
        outside=outside,
        radius=radius,
        gravity=gravity,
        duration=duration,
        cells=cells,
        intervals=intervals,
        rings=rings,
        half_width=half_width,
    )
    if inside <= outside:
        raise ValueError(
            f"`inside` must be larger than `outside`, got {inside} and {outside}."
        )
    reach = radius + duration * _fastest_shock(inside, outside, gravity)
    if reach > half_width:
        raise ValueError(
            f"the wave may reach r = {reach:.3g}, but `half_width` is {half_width}: "
            "enlarge it or shorten `duration`; the flow is round only until it meets "
            "the boundary."
        )
    width = 1.02 * reach / rings
    # On |u| + √(g h), from u + 2√(g h) ≤ 2√(g inside) of the flow without curvature,
    # which lowers it.
    bound = 2 * math.sqrt(gravity * inside) - math.sqrt(gravity * outside)
    steps = math.ceil(duration / intervals * bound / (_COURANT * width))
    with on_cpu():
        start = _dam(inside, outside, radius / width, rings)
        r = width * (jnp.arange(rings) + 0.5)
        numbers = jnp.asarray([width, duration / intervals / steps, gravity])
        states = np.asarray(_integrate(start, r, numbers, intervals, steps))
    x = half_width * (2 * np.arange(cells + 1) / cells - 1)
    t = duration * np.arange(intervals + 1) / intervals
    values = _on_square(np.asarray(r), states, x)
    within = np.hypot(x[:, None], x[None, :]) <= radius * (1 + 1e-12)
    values[:, :, 0, 0] = np.where(within, inside, outside)
    return Reference((x, x, t), values)


def _fastest_shock(inside, outside, gravity) -> float:
    """Speed into the still water of a shock behind which the depth is `inside`; that
    of the flow is lower and slower."""
    return math.sqrt(gravity * inside * (inside + outside) / (2 * outside))


def _dam(inside, outside, radius, rings) -> Float[Array, "2 rings"]:
    """h and q at the start, the radius in units of the rings' width."""
    share = jnp.clip(radius - jnp.arange(rings), 0, 1)
    h = outside + (inside - outside) * share
    return jnp.stack([h, jnp.zeros_like(h)])


def _on_square(r, states, x) -> np.ndarray:
    """h, u, v on the square grid of `x`, from h and q on the rings at each time."""
    distance = np.hypot(x[:, None], x[None, :])
    depth = np.stack([np.interp(distance, r, h) for h, _ in states], -1)
    speed = [np.interp(distance, r, q / h) for h, q in states]
    # u_r vanishes at the origin, where the direction is not defined.
    rate = np.stack(speed, -1) / np.maximum(distance, r[0])[..., None]
    u, v = rate * x[:, None, None], rate * x[None, :, None]
    return np.stack([depth, u, v], -1)


@eqx.filter_jit
def _integrate(
    start: Float[Array, "2 rings"],
    r: Float[Array, " rings"],
    numbers: Float[Array, "3"],
    intervals: int,
    steps: int,
) -> Float[Array, "times 2 rings"]:
    """h and q at the ends of the intervals, the start included."""
    width, dt, gravity = numbers
    face = jnp.arange(r.size + 1) * width

    def rate(state):
        left, right = _reconstruct(state)
        flux = face[None] * _flux(left, right, gravity)
        h = state[0]
        source = jnp.stack([jnp.zeros_like(h), 0.5 * gravity * h**2])
        return (source - (flux[:, 1:] - flux[:, :-1]) / width) / r[None]

    def step(state, _):
        first = state + dt * rate(state)
        second = 0.75 * state + 0.25 * (first + dt * rate(first))
        return (state + 2 * (second + dt * rate(second))) / 3, None

    def interval(state, _):
        state, _ = jax.lax.scan(step, state, length=steps)
        return state, state

    states = jax.lax.scan(interval, start, length=intervals)[1]
    return jnp.concatenate([start[None], states])


def _reconstruct(state):
    """(h, u_r) on both sides of each face, from limited slopes in the cells."""
    h, q = state
    w = jnp.stack([h, q / h])
    # Beyond r = 0 the flow is its own mirror image; the water outside is still.
    mirrored = w[:, 1::-1] * jnp.asarray([[1.0], [-1.0]])
    w = jnp.concatenate([mirrored, w, w[:, -1:], w[:, -1:]], axis=1)
    d = jnp.diff(w, axis=1)
    a, b = d[:, :-1], d[:, 1:]
    product = a * b
    slope = jnp.where(product > 0, 2 * product / jnp.where(product > 0, a + b, 1), 0)
    inner = w[:, 1:-1]
    return (inner + slope / 2)[:, :-1], (inner - slope / 2)[:, 1:]


def _flux(left, right, gravity):
    """Flux of Harten, Lax and van Leer between two states (h, u_r)."""
    (h_l, u_l), (h_r, u_r) = left, right
    c_l, c_r = jnp.sqrt(gravity * h_l), jnp.sqrt(gravity * h_r)
    slow = jnp.minimum(jnp.minimum(u_l - c_l, u_r - c_r), 0)
    fast = jnp.maximum(jnp.maximum(u_l + c_l, u_r + c_r), 0)
    jump = jnp.stack([h_r - h_l, h_r * u_r - h_l * u_l])
    f_l, f_r = (
        jnp.stack([h * u, h * u**2 + 0.5 * gravity * h**2])
        for h, u in ((h_l, u_l), (h_r, u_r))
    )
    slow, fast = slow[None], fast[None]
    return (fast * f_l - slow * f_r + fast * slow * jump) / (fast - slow)
