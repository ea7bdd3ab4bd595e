"""Operators, against closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from pinnacle._geometry import Box, Interval, SpaceTime
from pinnacle._model import Model
from pinnacle._operator import (
    PDE,
    Dirichlet,
    Neumann,
    Observation,
    Periodic,
    Robin,
    TimeDerivative,
    derivatives,
)
from pinnacle.nn import MLP


X, T = 0, 1
A, B = 0.3, 0.7
POINT = jnp.array([A, B])


def fields(x):
    """u = x³ t², v = sin(πx) e^{-t}, w = t."""
    return jnp.stack(
        [x[0] ** 3 * x[1] ** 2, jnp.sin(jnp.pi * x[0]) * jnp.exp(-x[1]), x[1]]
    )


U, V, W = A**3 * B**2, np.sin(np.pi * A) * np.exp(-B), B
U_X, U_T, U_TT = 3 * A**2 * B**2, 2 * A**3 * B, 2 * A**3
V_X = np.pi * np.cos(np.pi * A) * np.exp(-B)
SIN_L, COS_L = np.sin(np.pi * (A + 0.5)), np.cos(np.pi * (A + 0.5))


def heat(u, x):
    value, u_t, u_xx = derivatives(u, x, (), T, (X, X))
    return u_t[1] - u_xx[1] / jnp.pi**2 + value[1] + u["shift"]


CASES = {
    "pde": (PDE(heat), [V + 0.25]),
    "pde of two rows": (
        PDE(lambda u, x: (u(x)[0], derivatives(u, x, T)[0][2:]), rows=2),
        [U, 1.0],
    ),
    "pde of an array": (PDE(lambda u, x: u(x)[:2], rows=2), [U, V]),
    "dirichlet": (Dirichlet(), [U]),
    "dirichlet of chosen outputs": (Dirichlet((2, 0)), [W, U]),
    "observation": (Observation(outputs=(1, 2)), [V, W]),
    "neumann along an axis": (Neumann(X, (0, 1)), [U_X, V_X]),
    "neumann along a function": (
        Neumann(lambda x: jnp.stack([-x[0], x[1] ** 0])),
        [-A * U_X + U_T],
    ),
    "neumann on a face": (Neumann(Box([0, 0], [1, 1]).boundary(X, "lower")), [-U_X]),
    "robin": (Robin(X, 2.0, -3.0, (0, 1)), [2 * U - 3 * U_X, 2 * V - 3 * V_X]),
    "robin by output": (
        Robin(X, [1.0, 0.0], [0.0, 2.0], (0, 1)),
        [U, 2 * V_X],
    ),
    "initial velocity": (TimeDerivative(T), [U_T]),
    "second rate": (TimeDerivative(T, order=2, outputs=(0, 2)), [U_TT, 0.0]),
    "periodic": (Periodic(X, 0.5), [U - (A + 0.5) ** 3 * B**2]),
    "periodic with its slope": (
        Periodic(X, 0.5, order=1, outputs=(1, 2)),
        [V - SIN_L * np.exp(-B), 0.0, V_X - np.pi * COS_L * np.exp(-B), 0.0],
    ),
    "periodic along another axis": (
        Periodic(T, 0.5, order=1),
        [U - A**3 * (B + 0.5) ** 2, U_T - 2 * A**3 * (B + 0.5)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operators_match_their_closed_form(name, both_precisions):
    # Built in float32 above: their numbers follow the precision of the points.
    operator, expected = CASES[name]
    model = Model(fields, {"shift": 0.25})
    x = jnp.array([A, B])
    points = jnp.stack([x, x])
    found = jax.jit(lambda o: jax.vmap(lambda p: o(model, p))(points))(operator)
    assert found.shape == (2, operator.rows)
    assert found.dtype == x.dtype
    np.testing.assert_allclose(found[0], expected, rtol=2e-5, atol=1e-6)
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("name", CASES)
def test_operators_work_on_a_network(name):
    operator, _ = CASES[name]
    model = Model(MLP(2, 3, 8, 2, key=jr.key(0)), {"shift": 0.25})
    plain = Model(lambda x: model.network(x), {"shift": 0.25})
    found, expected = operator(model, POINT), operator(plain, POINT)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_new_numbers_do_not_trace_again():
    @eqx.debug.assert_max_traces(max_traces=1)
    def rows(operators, u):
        return [o(u, POINT) for o in operators]

    call, model = eqx.filter_jit(rows), Model(MLP(2, 1, 8, 2, key=jr.key(0)))
    for a in (0.5, 1.0, 2.0):
        call([Robin(X, a, 1 - a), Periodic(X, a), Neumann(X)], model)


class Decay(eqx.Module):
    """A residual with a number that is swept."""

    rate: jax.Array

    def __call__(self, u, x):
        return derivatives(u, x, T)[0] + self.rate * u(x)


def test_a_residual_may_be_a_module_with_numbers():
    @eqx.debug.assert_max_traces(max_traces=1)
    def rows(operator, u):
        return operator(u, POINT)

    call, model = eqx.filter_jit(rows), Model(lambda x: jnp.exp(-2 * x[1]))
    np.testing.assert_allclose(call(PDE(Decay(jnp.array(2.0))), model), 0, atol=1e-6)
    assert abs(float(call(PDE(Decay(jnp.array(1.0))), model)[0])) > 0.1


MODEL = Model(fields)
BOX = Box([0.0, 0.0], [1.0, 2.0])
SPACE_TIME = SpaceTime(Interval(0.0, 1.0), 0.0, 2.0)


def on(operator, domain):
    return lambda: operator.check(domain)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: PDE(heat, rows=0), "`rows` is 0: give the number of equations"),
        (lambda: PDE(heat, rows=1.5), "`rows` is 1.5"),  # pyright: ignore
        (lambda: PDE(lambda u, x: None)(MODEL, POINT), "`PDE` returned NoneType"),
        (lambda: PDE(lambda u, x: 1j * u(x)[0])(MODEL, POINT), "returned complex64"),
        (
            lambda: PDE(lambda u, x: u(x))(MODEL, POINT),
            "returned 3 rows, but `rows` is 1",
        ),
        (
            lambda: PDE(lambda u, x: (u(x)[0], u(x)[1]), rows=3)(MODEL, POINT),
            "returned 2 rows, but `rows` is 3",
        ),
        (
            lambda: PDE(lambda u, x: jnp.ones((1, 1)))(MODEL, POINT),
            r"got shapes \[\(1, 1\)\]",
        ),
        (lambda: Dirichlet(()), r"`outputs` must be distinct .* got \(\)"),
        (lambda: Dirichlet((0, 0)), r"`outputs` must be distinct .* got \(0, 0\)"),
        (
            lambda: Dirichlet((3,))(MODEL, POINT),
            r"`outputs` \(3,\) names an output that does not exist.* has 3",
        ),
        (lambda: Neumann("left"), "`normal` must be .*'left'"),
        (lambda: Robin(X, [1.0, 2.0], 1.0), r"`alpha` must be .* shape \(2,\)"),
        (lambda: TimeDerivative(T, order=0), "`order` must be at least 1, got 0"),
        (lambda: Periodic(X, 1.0, order=-1), "`order` must be at least 0, got -1"),
        (on(Neumann(2), BOX), "`axis` 2 does not exist.* 0 to 1"),
        (on(TimeDerivative(5), BOX), "`axis` 5 does not exist"),
        (on(Periodic(-1, 1.0), BOX), "`axis` -1 does not exist"),
        (on(Neumann(X), SPACE_TIME.initial()), "on the initial face"),
        (on(Robin(X, 1, 1), SPACE_TIME.initial()), "on the initial face"),
        (on(Neumann(SPACE_TIME.initial()), SPACE_TIME), "on the initial face"),
        (on(Neumann(T), SPACE_TIME.boundary()), "`normal` 1 is the time axis"),
        (
            on(Neumann(Interval(0.0, 1.0).boundary()), BOX),
            "face of a domain of 1 coordinates",
        ),
        (
            on(Neumann(BOX.boundary(1, "upper")), BOX.boundary(0, "upper")),
            "`normal` is that of .* on which not all points",
        ),
        (on(TimeDerivative(X), SPACE_TIME.initial()), "`axis` 0 .* not the time axis"),
        (on(Periodic(X, 1.0), BOX), "image .* lies outside the domain"),
        (on(Periodic(X, 1.0), BOX.periodic(1)), "image .* lies outside the domain"),
        (on(Periodic(X, 1.5), BOX.periodic(0)), "`period` 1.5 .* 1.0 long"),
    ],
)
def test_mistakes_are_named(action, message, no_type_checks):
    with pytest.raises(ValueError, match=message):
        action()


@pytest.mark.parametrize(
    ("operator", "domain"),
    [
        (PDE(heat), BOX),
        (Dirichlet(), SPACE_TIME.initial()),
        (Neumann(X), SPACE_TIME.boundary()),
        (Neumann(SPACE_TIME.boundary()), SPACE_TIME.boundary()),
        (Neumann(BOX.boundary()), BOX.boundary(0, "upper")),
        (Robin(lambda x: x, 1, 1), BOX.boundary()),
        (TimeDerivative(T), SPACE_TIME.initial()),
        (TimeDerivative(T), BOX),
        (Periodic(X, 1.0, order=1), SPACE_TIME.periodic(0)),
        (Periodic(1, 2.0), BOX.periodic(1)),
    ],
)
def test_sensible_domains_pass(operator, domain):
    operator.check(domain)
