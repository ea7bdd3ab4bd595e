"""Darcy's flow: a stationary problem with several pieces of boundary."""

import jax
import jax.numpy as jnp

from .._geometry import Box
from .._operator import PDE, Dirichlet, Neumann, derivatives
from .._space import AugmentedSpace, Component
from ..nn import MLP
from ._problem import Problem, Settings
from ._reference import darcy_reference, log_permeability


X, Y = 0, 1


def darcy() -> Problem:
    """∇·(a ∇u) = 0 on (0, 1)², from the head u = 1 on the left to u = 0 on the right.

    Nothing flows through the floor y = 0 and the roof y = 1. The permeability a varies
    by a factor of 13, see `log_permeability`. Not in the paper.
    """
    square = Box((0, 0), (1, 1))
    walls = {"floor": (Y, "lower"), "roof": (Y, "upper")}
    return Problem(
        name="darcy",
        title="Darcy flow",
        space=AugmentedSpace(
            [
                Component("pde", square, PDE(_residual)),
                Component("inflow", square.boundary(X, "lower"), Dirichlet(), 1.0),
                Component("outflow", square.boundary(X, "upper"), Dirichlet(), 0.0),
                *(
                    Component(name, square.boundary(*side), Neumann(Y))
                    for name, side in walls.items()
                ),
            ]
        ),
        network=lambda key: MLP(2, 1, 32, 4, key=key),
        settings=Settings(1e-3, 30_000, 300, 100, 1000, (800, 100)),
        solve=darcy_reference,
        coordinates=("x", "y"),
    )


def _residual(u, x):
    """a (u_xx + u_yy) + a_x u_x + a_y u_y, with ∇a = a ∇log a."""
    u_x, u_y, u_xx, u_yy = derivatives(u, x, (X,), (Y,), (X, X), (Y, Y))
    value, slope = jax.value_and_grad(lambda p: log_permeability(p[X], p[Y]))(x)
    return jnp.exp(value) * (u_xx + u_yy + slope[X] * u_x + slope[Y] * u_y)
