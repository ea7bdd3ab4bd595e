"""The radial dam break, a system of three equations in two space dimensions."""

import functools

import jax.numpy as jnp

from .._geometry import Box, SpaceTime
from .._operator import PDE, Dirichlet, Neumann, derivatives
from .._space import AugmentedSpace, Component
from ..nn import MLP
from ._pdebench import PDEBenchData
from ._problem import Problem, Settings
from ._reference import Reference, shallow_water_reference


X, Y, T = 0, 1, 2
INSIDE, OUTSIDE, RADIUS = 2.0, 1.0, 0.5
OUTPUTS = ("h", "u", "v")


def shallow_water(data: PDEBenchData | None = None) -> Problem:
    """A round dam of radius 0.5 breaks, on (−2.5, 2.5)² × (0, 1), g = 1.

        h_t + (hu)_x + (hv)_y = 0
        u_t + u u_x + v u_y + h_x = 0
        v_t + u v_x + v v_y + h_y = 0

    At t = 0 the depth h is 2 inside the dam and 1 outside, and the water is still. At
    the boundary, which the wave does not reach, nothing changes across it. The paper
    reports the error of h.

    **Arguments:**

    - `data`: a sample of PDEBench's file of this problem, in place of the reference
      solution.
    """
    domain = SpaceTime(Box((-2.5, -2.5), (2.5, 2.5)), 0, 1)
    walls = domain.boundary()
    all_three = (0, 1, 2)
    if data is not None:
        data.check(domain, OUTPUTS)
    return Problem(
        name="shallow-water",
        title="Shallow water, radial dam break",
        space=AugmentedSpace(
            [
                Component("pde", domain, PDE(_residual, rows=3)),
                Component("ic", domain.initial(), Dirichlet(all_three), _initial),
                Component("bc", walls, Neumann(walls, all_three)),
            ]
        ),
        network=lambda key: MLP(3, 3, 32, 4, key=key),
        settings=Settings(1e-3, 100_000, 1000, 200, 5000, (800, 200)),
        solve=functools.partial(_solution, data),
        coordinates=("x", "y", "t"),
        outputs=OUTPUTS,
        reported=("h",),
    )


def _solution(data: PDEBenchData | None) -> Reference:
    if data is not None:
        return data.reference
    return shallow_water_reference(inside=INSIDE, outside=OUTSIDE, radius=RADIUS)


def _residual(w, x):
    (h, u, v), w_x, w_y, w_t = derivatives(w, x, (), (X,), (Y,), (T,))
    mass = w_t[0] + h * (w_x[1] + w_y[2]) + u * w_x[0] + v * w_y[0]
    gravity = jnp.stack([w_x[0], w_y[0]])
    momentum = w_t[1:] + u * w_x[1:] + v * w_y[1:] + gravity
    return mass, momentum


def _initial(x):
    inside = x[X] ** 2 + x[Y] ** 2 <= RADIUS**2
    depth = jnp.where(inside, INSIDE, OUTSIDE).astype(x.dtype)
    return jnp.stack([depth, jnp.zeros_like(depth), jnp.zeros_like(depth)])
