"""Inverse problems: what is unknown is learnt from measurements chosen in training."""

import dataclasses
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._geometry import Box, FiniteSet, SpaceTime
from .._model import Coefficient
from .._operator import PDE, Observation, derivatives
from .._oracle import AbstractOracle, TableOracle
from .._space import AugmentedSpace, Component
from ..nn import LAAF, MLP, OutputTransform
from ._forward import kdv
from ._problem import Problem, Settings
from ._reference import (
    Reference,
    cylinder_wake_reference,
    eikonal_reference,
    grid_points,
)


DATA = "data"  # the name of the experimental kind


def navier_stokes_inverse() -> Problem:
    """The wake of a cylinder, λ1 and λ2 unknown (1 and 0.01), on (1, 8)×(−2, 2)×(0, 7).

        u_t + λ1 (u u_x + v u_y) = −p_x + λ2 (u_xx + u_yy)
        v_t + λ1 (u v_x + v v_y) = −p_y + λ2 (v_xx + v_yy)
        u_x + v_y = 0

    Measured are u and v, at points of a table with a spacing of 0.1 in space and 0.2 in
    time; p is never measured, and only known up to a function of time. λ1 and λ2 start
    at 0. The flow is that of `scripts/make_cylinder_wake.py`.
    """
    domain = SpaceTime(Box((1, -2), (8, 2)), 0, 7)
    table = cylinder_wake_reference(every=2, intervals=35)
    return Problem(
        name="navier-stokes-inverse",
        title="Navier–Stokes, wake of a cylinder, two unknown numbers",
        space=AugmentedSpace(
            [
                Component("pde", domain, PDE(_navier_stokes, rows=3)),
                _measured(table.x, outputs=(0, 1)),
            ]
        ),
        network=lambda key: MLP(3, 3, 64, 6, activation=LAAF(), key=key),
        settings=Settings(1e-3, 100_000, 1000, 200, 1000, (800, 0), 30, 3000, 200),
        solve=cylinder_wake_reference,
        coordinates=("x", "y", "t"),
        outputs=("u", "v", "p"),
        gauge=("p",),
        coefficients={"lambda1": 0.0, "lambda2": 0.0},
        true_coefficients={"lambda1": 1.0, "lambda2": 0.01},
        oracles=functools.partial(_table_oracles, table.x, table.values[:, :2]),
    )


def eikonal_inverse() -> Problem:
    """|∇T| = 1/v on (0, 2)³ with T = 0 at the origin; T is measured, v(x) unknown.

    The network gives τ and v, T = |x| τ, both made positive by softplus. The equation
    is used as v|∇T| − 1 = 0. Measured is T at the points of a grid with a spacing of
    0.1. The paper reports the error of v; its field is that of `eikonal_speed`.
    """
    cube = Box((0, 0, 0), (2, 2, 2))
    # The origin itself, where T = 0 by construction, is not worth a measurement.
    points = grid_points((np.linspace(0, 2, 21),) * 3)[1:]
    return Problem(
        name="eikonal-inverse",
        title="Eikonal, unknown field of speed",
        space=AugmentedSpace(
            [
                Component("pde", cube, PDE(_eikonal)),
                _measured(points, outputs=(0,)),
            ]
        ),
        network=lambda key: OutputTransform(
            MLP(3, 2, 32, 8, activation=LAAF(), key=key), _factored
        ),
        settings=Settings(1e-3, 100_000, 500, 100, 1000, (800, 0), 5, 500, 200),
        solve=eikonal_reference,
        coordinates=("x", "y", "z"),
        outputs=("T", "v"),
        reported=("v",),
        oracles=functools.partial(_reference_oracles, points, 1),
    )


def kdv_inverse() -> Problem:
    """u_t + λ1 u u_x + λ2 u_xxx = 0 as in `kdv`, λ1 and λ2 unknown (1 and 0.0025).

    λ1 starts at 0.5, and λ2 = 0.0025 e^s at s = −1. The initial and the boundary
    condition are known, u is measured at points of a grid. Not in the paper.
    """
    base = kdv()
    pde, *conditions = base.space.components
    axes = np.linspace(-1, 1, 257), np.linspace(0, 1, 101)
    points = grid_points(axes)
    return dataclasses.replace(
        base,
        name="kdv-inverse",
        title="Korteweg–de Vries, two unknown numbers",
        space=AugmentedSpace(
            [
                Component(pde.name, pde.domain, PDE(_kdv)),
                *conditions,
                _measured(points, outputs=(0,)),
            ]
        ),
        settings=Settings(1e-3, 100_000, 300, 100, 1000, (800, 200), 5, 500, 200),
        coefficients={"lambda1": 0.5, "lambda2": Coefficient(-1.0, _dispersion)},
        true_coefficients={"lambda1": 1.0, "lambda2": 0.0025},
        oracles=functools.partial(_reference_oracles, points, 1),
    )


def _measured(points: Float[np.ndarray, "n d"], outputs: tuple[int, ...]) -> Component:
    """Measurements of some outputs at any of the given points."""
    domain = FiniteSet(points)
    return Component(DATA, domain, Observation(outputs), None, group="experimental")


def _table_oracles(
    points, values, reference: Reference
) -> Mapping[str, AbstractOracle]:
    """Answers from a table of their own, whatever the errors are measured against."""
    del reference
    return {DATA: TableOracle(points, values)}


def _reference_oracles(
    points, outputs: int, reference: Reference
) -> Mapping[str, AbstractOracle]:
    """Answers from the reference solution; the points are the last of its grid."""
    rows = slice(-len(points), None)
    x = reference.x[rows]
    if x.shape != points.shape or not np.allclose(x, points):
        raise ValueError(
            f"the reference solution has a grid of {reference.shape} points, which is "
            f"not that of the {len(points)} points where measurements are possible."
        )
    return {DATA: TableOracle(points, reference.values[rows, :outputs])}


def _navier_stokes(w, x):
    X, Y, T = 0, 1, 2
    value, w_t, w_x, w_y, w_xx, w_yy = derivatives(
        w, x, (), (T,), (X,), (Y,), (X, X), (Y, Y)
    )
    lambda1, lambda2 = (w[name].astype(x.dtype) for name in ("lambda1", "lambda2"))
    transport = value[0] * w_x[:2] + value[1] * w_y[:2]
    pressure = jnp.stack([w_x[2], w_y[2]])
    momentum = w_t[:2] + lambda1 * transport + pressure - lambda2 * (w_xx + w_yy)[:2]
    return momentum, w_x[0] + w_y[1]


def _eikonal(w, x):
    """v|∇T| − 1; the small number keeps the derivatives finite where ∇T = 0."""
    value, *slopes = derivatives(w, x, (), 0, 1, 2)
    gradient = jnp.stack([slope[0] for slope in slopes])
    return value[1] * jnp.sqrt(jnp.sum(gradient**2) + 1e-12) - 1


def _factored(x, raw):
    """(τ, v) ↦ (|x| τ, v); the small number keeps the derivatives finite at x = 0."""
    tau, speed = jax.nn.softplus(raw)
    return jnp.stack([jnp.sqrt(jnp.sum(x**2) + 1e-12) * tau, speed])


def _kdv(u, x):
    X, T = 0, 1
    value, u_t, u_x, u_xxx = derivatives(u, x, (), (T,), (X,), (X, X, X))
    lambda1, lambda2 = (u[name].astype(x.dtype) for name in ("lambda1", "lambda2"))
    return u_t + lambda1 * value * u_x + lambda2 * u_xxx


def _dispersion(raw):
    return 0.0025 * jnp.exp(raw)
