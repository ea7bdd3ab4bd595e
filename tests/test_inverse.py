"""Unknown coefficients, and what must not depend on how a problem is written down."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import STRIP, Fixed, chosen, pipeline, transport_components

from pinnacle import (
    PDE,
    AugmentedSpace,
    CandidatePool,
    Coefficient,
    Component,
    Constant,
    ConvergenceDegree,
    Dirichlet,
    EveryN,
    Exact,
    FiniteSet,
    GaussNewton,
    Greedy,
    Interval,
    KeepNone,
    Model,
    Nystrom,
    Observation,
    PerKindQuota,
    Points,
    Sampling,
    Sketch,
    SpaceTime,
    TableOracle,
    Uniform,
    derivatives,
    fit,
    loss_by_kind,
    select_points,
)
from pinnacle._ntk.jacobian import Rows
from pinnacle.nn import MLP


X, T = 0, 1
ROD = SpaceTime(Interval(0, 1), 0, 0.2)
TRUE = 2.4


def heat(u, x):
    u_t, u_xx = derivatives(u, x, (T,), (X, X))
    return u_t - u_xx


def amplitude(u, x):
    """u(x, 0) = λ sin(πx)."""
    return u(x)[0] - u["lambda"] * jnp.sin(jnp.pi * x[X])


def solution(x):
    return TRUE * np.exp(-(np.pi**2) * x[:, T]) * np.sin(np.pi * x[:, X])


@pytest.fixture
def places():
    """Ten places in the rod."""
    return np.random.default_rng(7).uniform((0.1, 0.02), (0.9, 0.2), size=(10, 2))


@pytest.fixture
def space(places, x64):
    sensors = FiniteSet(places)
    return AugmentedSpace(
        [
            Component("heat", ROD, PDE(heat)),
            Component("walls", ROD.boundary(), Dirichlet()),
            Component("start", ROD.initial(), PDE(amplitude)),
            Component("data", sensors, Observation(), None, group="experimental"),
        ]
    )


def unknown(start=1.0, transform=None):
    network = MLP(2, 1, 10, 2, key=jr.key(0))
    return Model(network, {"lambda": Coefficient(start, transform)})


# ---------------------------------------------------------------- case 1


def some_blocks(space, places):
    """A few points of each kind, two of them with an importance weight."""
    unit = np.random.default_rng(8).uniform(size=(16, 2))
    kind = np.repeat([0, 1, 2, 3], 4).astype(np.int32)
    x = unit * [1, 0.2]
    x[kind == 1, X] = [0, 1, 0, 1]
    x[kind == 2, T] = 0
    x[kind == 3] = places[:4]
    label = jnp.asarray(np.where(kind == 3, solution(x), 0))[:, None]
    weight = jnp.asarray(np.where((kind == 2) & (np.arange(16) < 10), 1.7, 1))
    points = Points(jnp.asarray(x), jnp.asarray(kind), None, label, weight)
    return eqx.filter_jit(space.split)(points, (4, 5, 4, 6))


def test_the_gradient_by_a_coefficient_is_the_difference_quotient(space, places):
    blocks = some_blocks(space, places)
    start = AugmentedSpace([space.components[2]])

    @eqx.filter_jit
    def value_and_slope(u, space, blocks):
        def loss(u):
            return jnp.sum(loss_by_kind(space, u, blocks))

        value, gradient = eqx.filter_value_and_grad(loss)(u)
        return value, gradient.coefficients["lambda"].raw

    h = 1e-5
    for raw, transform, *where in (
        (1.0, None, space, blocks),
        (math.log(1.3), jnp.exp, start, blocks[2:3]),
    ):
        _, slope = value_and_slope(unknown(raw, transform), *where)
        above, _ = value_and_slope(unknown(raw + h, transform), *where)
        below, _ = value_and_slope(unknown(raw - h, transform), *where)
        quotient = (above - below) / (2 * h)
        assert abs(slope) > 0.01, "or nothing is tested"
        assert abs(slope - quotient) < 1e-6 * abs(slope)


def test_the_jacobian_has_a_column_for_the_coefficient(space, places):
    blocks, u = some_blocks(space, places), unknown()

    @eqx.filter_jit
    def jacobians(u):
        both = Rows(space, u, True, None), Rows(space, u, False, None)
        return [[r.jacobian(k, b)[:, 0] for k, b in enumerate(blocks)] for r in both]

    with_it, without = jacobians(u)
    size = sum(leaf.size for leaf in jax.tree.leaves(u.network) if eqx.is_array(leaf))
    both = zip(space.names, blocks, with_it, without, strict=True)
    for name, block, J, narrow in both:
        assert J.shape == (block.size, size + 1)
        assert narrow.shape == (block.size, size)
        np.testing.assert_allclose(J[:, :-1], narrow, rtol=1e-12, atol=1e-12)
        column = -np.sin(np.pi * block.x[:, X]) if name == "start" else 0.0
        np.testing.assert_allclose(J[:, -1], column * block.mask, rtol=1e-12)
    for estimator in (Exact, Nystrom, Sketch):
        for coefficients in (False, True):
            basis = eqx.filter_eval_shape(
                estimator(coefficients=coefficients).basis,
                space,
                u,
                blocks,
                key=jr.key(0),
            )
            assert basis.directions.shape[0] == size + coefficients


def test_a_coefficient_in_a_condition_is_found(space, places):
    method = pipeline(
        space,
        pool=CandidatePool((40, 20, 20, 10), Uniform()),
        criterion=Constant(),
        selector=PerKindQuota(Sampling(), (3, 1, 1, 1)),
        budget=60,
        experimental_per_round=10,
        experimental_capacity=10,
    )
    done = fit(
        method,
        unknown(),
        GaussNewton(),
        steps=60,
        key=jr.key(1),
        trigger=EveryN(60),
        oracle=TableOracle(places, solution(places)),
        report_every=15,
    )
    course = done.history.training["coefficient/lambda"]
    assert len(set(course.tolist())) == len(course), "its history moves"
    assert course[-1] == done.model["lambda"]
    assert abs(course[-1] / TRUE - 1) < 0.01
    points = jax.tree.map(np.asarray, done.state.selection.points)
    x, label = points.x[60:], points.label[60:, 0]
    assert set(map(tuple, x.tolist())) == set(map(tuple, places.tolist()))
    np.testing.assert_array_equal(label, solution(x))


# ---------------------------------------------------------------- cases 4 and 5


UNIT = np.random.default_rng(2).uniform(size=(12, 2))


def test_scaling_an_equation_changes_no_loss_and_no_kernel(x64):
    points = Points(jnp.asarray(UNIT), jnp.repeat(jnp.arange(3), 4))
    u = Model(MLP(2, 1, 6, 2, key=jr.key(3)))

    @eqx.filter_jit
    def look(space):
        blocks = space.split(points, (4, 5, 4))
        rows = Rows(space, u, coefficients=False, chunk=None)
        J = jnp.concatenate([rows.jacobian(k, b)[:, 0] for k, b in enumerate(blocks)])
        return loss_by_kind(space, u, blocks), J @ J.T

    def of(*scale_and_weight):
        return look(AugmentedSpace(transport_components(*scale_and_weight)))

    for scaled in (of(1000.0, 1e-6), of(0.01, 1e4)):
        for there, here in zip(scaled, of(1.0, 1.0), strict=True):
            np.testing.assert_allclose(there, here, rtol=1e-11, atol=1e-14)


def ordered(*order):
    """Four kinds, two of them measured, in any order."""
    experimental = {"target": None, "group": "experimental"}
    components = [
        Component("square", STRIP, PDE(lambda u, x: u(x)[0] ** 2 - x[0])),
        Component("start", STRIP.initial(), Dirichlet(), 0.3),
        Component("first", STRIP, Observation(0), **experimental),
        Component("both", STRIP, Observation((1, 0)), **experimental),
    ]
    return AugmentedSpace([components[i] for i in order])


def test_the_order_of_kinds_changes_no_selection_of_measurements(x64):
    """Nor their labels' places, with points from the round before."""
    u, future = (Model(MLP(2, 2, 6, 2, key=jr.key(seed))) for seed in (3, 4))
    seed = {"square": 0, "start": 1, "first": 2, "both": 5}

    def select(space):
        method = pipeline(
            space,
            pool=CandidatePool((6,) * 4, tuple(Fixed(seed[n]) for n in space.names)),
            estimator=Exact(),
            criterion=ConvergenceDegree(),
            selector=Greedy(),
            retention=KeepNone(),
            min_per_kind=0,
            budget=5,
            experimental_per_round=3,
            experimental_capacity=6,
        )
        state, found = method.init(u.dtype), []
        for _ in range(2):
            state, info = select_points(method, u, state, key=jr.key(0), future=future)
            share = dict(zip(space.names, np.asarray(info.score_share), strict=True))
            points = jax.tree.map(np.asarray, state.points)
            found.append((chosen(space, points), share))
            labels = np.where(np.isnan(points.label), points.x, points.label)
            state = eqx.tree_at(lambda s: s.points.label, state, jnp.asarray(labels))
        return found

    plain, permuted = select(ordered(0, 1, 2, 3)), select(ordered(3, 1, 0, 2))
    for (here, share), (there, other) in zip(plain, permuted, strict=True):
        assert there == here
        assert share["first"] > 1e-3, "or nothing is tested"
        for name, value in share.items():
            np.testing.assert_allclose(other[name], value, rtol=1e-8)
