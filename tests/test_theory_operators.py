"""The laws of operators, on all of the library's and on the equations of the paper."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pinnacle import (
    PDE,
    AbstractOperator,
    Box,
    Dirichlet,
    Interval,
    Neumann,
    Observation,
    Periodic,
    Robin,
    SpaceTime,
    TimeDerivative,
    derivatives,
    problems,
)
from pinnacle.testing import check_operator


@pytest.fixture(autouse=True, scope="module")
def float64(quick_compile):
    with jax.enable_x64(True):
        yield


X, T = 0, 1
DOMAIN = SpaceTime(Interval(0, 1), 0, 2)
SIDES = DOMAIN.periodic(X)
RIGHT = DOMAIN.boundary(X, "upper")


def polynomial(x):
    """x³t + 2t² − x."""
    return x[X] ** 3 * x[T] + 2 * x[T] ** 2 - x[X]


def wave(x):
    """sin(2x − 3t)."""
    return jnp.sin(2 * x[X] - 3 * x[T])


def phase(x):
    return 2 * x[X] - 3 * x[T]


def heat(u, x):
    u_t, u_xx = derivatives(u, x, (T,), (X, X))
    return u_t - 0.5 * u_xx


def transport_with_coefficient(u, x):
    u_t, u_x = derivatives(u, x, T, X)
    return u_t + u["speed"] * u_x


def nested(u, x):
    """u_xxt by three of JAX's transforms."""
    return jax.grad(lambda p: jax.hessian(lambda q: u(q)[0])(p)[X, X])(x)[T]


# name: (operator, domain, what check_operator is told)
OPERATORS = {
    "dirichlet": (
        Dirichlet(),
        DOMAIN.initial(),
        dict(linear=True, order=0, closed_form=[(wave, wave)]),
    ),
    "observation of two outputs": (
        Observation((2, 0)),
        DOMAIN,
        dict(
            linear=True,
            order=0,
            outputs=3,
            closed_form=[
                (
                    lambda x: jnp.stack([x[X], x[T], x[X] * x[T]]),
                    lambda x: jnp.stack([x[X] * x[T], x[X]]),
                )
            ],
        ),
    ),
    "neumann on a face": (
        Neumann(RIGHT),
        RIGHT,
        dict(
            linear=True,
            order=1,
            closed_form=[
                (polynomial, lambda x: 3 * x[X] ** 2 * x[T] - 1),
                (wave, lambda x: 2 * jnp.cos(phase(x))),
            ],
        ),
    ),
    "neumann outwards on all sides": (
        Neumann(Box((0, 0), (1, 2)).boundary()),
        Box((0, 0), (1, 2)).boundary(),
        dict(linear=True, order=1),
    ),
    "robin": (
        Robin(X, 2.0, -0.5),
        RIGHT,
        dict(
            linear=True,
            order=1,
            closed_form=[(wave, lambda x: 2 * wave(x) - jnp.cos(phase(x)))],
        ),
    ),
    "initial velocity": (
        TimeDerivative(T),
        DOMAIN.initial(),
        dict(
            linear=True,
            order=1,
            closed_form=[(polynomial, lambda x: x[X] ** 3 + 4 * x[T])],
        ),
    ),
    "initial acceleration": (
        TimeDerivative(T, order=2),
        DOMAIN.initial(),
        dict(linear=True, order=2, closed_form=[(wave, lambda x: -9 * wave(x))]),
    ),
    "periodic of value and slope": (
        Periodic(X, SIDES.period, order=1),
        SIDES,
        dict(
            linear=True,
            closed_form=[
                (polynomial, lambda x: jnp.stack([1 - x[T], -3 * x[T]])),
                (
                    lambda x: jnp.cos(2 * jnp.pi * x[X] - x[T]),
                    lambda x: jnp.zeros(2),
                ),
            ],
        ),
    ),
    "heat": (
        PDE(heat),
        DOMAIN,
        dict(
            linear=True,
            order=2,
            closed_form=[
                (polynomial, lambda x: x[X] ** 3 + 4 * x[T] - 3 * x[X] * x[T]),
                (wave, lambda x: -3 * jnp.cos(phase(x)) + 2 * wave(x)),
            ],
        ),
    ),
    "transport with a coefficient": (
        PDE(transport_with_coefficient),
        DOMAIN,
        dict(
            linear=True,
            order=1,
            coefficients={"speed": 1.5},
            closed_form=[(wave, lambda x: 0 * x[X])],
        ),
    ),
    "nested transforms": (
        PDE(nested),
        DOMAIN,
        dict(linear=True, order=3, closed_form=[(polynomial, lambda x: 6 * x[X])]),
    ),
    "burgers": (
        problems.burgers().space.components[0].operator,
        DOMAIN,
        dict(
            order=2,
            closed_form=[
                (
                    wave,
                    lambda x: (
                        -3 * jnp.cos(phase(x))
                        + 2 * wave(x) * jnp.cos(phase(x))
                        + 4 * 0.02 / jnp.pi * wave(x)
                    ),
                )
            ],
        ),
    ),
    "kdv": (
        problems.kdv().space.components[0].operator,
        SpaceTime(Interval(-1, 1), 0, 1),
        dict(
            order=3,
            closed_form=[
                (
                    polynomial,
                    lambda x: (
                        x[X] ** 3
                        + 4 * x[T]
                        + polynomial(x) * (3 * x[X] ** 2 * x[T] - 1)
                        + 0.0025 * 6 * x[T]
                    ),
                )
            ],
        ),
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_laws(name):
    operator, domain, laws = OPERATORS[name]
    check_operator(operator, domain, **laws)


def test_laws_in_float32():
    with jax.enable_x64(False):
        check_operator(PDE(heat), DOMAIN, linear=True)


class Wrong(AbstractOperator):
    """A difference quotient with a large step, which is not local, or not finite."""

    step: float = 1e-2
    power: float = 1.0

    @property
    def rows(self):
        return 1

    def __call__(self, u, x):
        ahead = u(x.at[X].add(self.step))
        return (ahead - u(x)) / self.step * x[T] ** (self.power - 1)


@pytest.mark.parametrize(
    ("operator", "laws", "message"),
    [
        (Wrong(step=0.4), dict(order=1), "finite differences of u give"),
        (Wrong(power=0.0), {}, "not finite"),
        (PDE(heat), dict(closed_form=[(wave, wave)]), "differs from its closed form"),
        (
            problems.burgers().space.components[0].operator,
            dict(linear=True),
            "the operator is not linear",
        ),
        (PDE(lambda u, x: jax.lax.stop_gradient(u(x))), {}, "difference quotient"),
    ],
)
def test_a_wrong_operator_is_found(operator, laws, message):
    with pytest.raises(AssertionError, match=message):
        check_operator(operator, DOMAIN, **laws)


def test_faces_of_the_domain_are_among_the_points():
    from pinnacle.testing._operator import _faces

    points = np.asarray(_faces(DOMAIN, jnp.float64))
    for corner in [(0, 0), (1, 0), (0, 2), (1, 2), (0.5, 1)]:
        assert np.min(np.abs(points - np.array(corner)).max(axis=1)) < 1e-5
