"""Components, the augmented space and the pool."""

import equinox as eqx
import hypothesis
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import (
    MEASURED,
    POISSON,
    SQUARE,
    STRIP,
    TRANSPORT,
    Fixed,
    Reaction,
    T,
    Transport,
    X,
    laplace,
    model,
    same_bits,
    transport_components,
)
from hypothesis import strategies as st

from pinnacle import (
    PDE,
    AugmentedSpace,
    Box,
    CandidatePool,
    Component,
    Dirichlet,
    Interval,
    Model,
    Neumann,
    Observation,
    Periodic,
    Points,
    SpaceTime,
    TimeDerivative,
    Uniform,
    derivatives,
    nn,
)


# ---------------------------------------------------------------- static mistakes


def two_rows(u, x):
    return jnp.stack([u(x)[0], u(x)[0]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box((0, 1), (1, 1)), "upper"),
        (lambda: Interval(1, 0), "upper"),
        (lambda: SpaceTime(Interval(0, 1), 2, 1), "t_upper"),
        (
            lambda: Component("a", STRIP, Dirichlet(), [0.0, 1.0]),
            r"`target` of component 'a' has shape \(2,\).* 1 row",
        ),
        (
            lambda: Component("a", STRIP, PDE(two_rows, rows=2), [0.0, 1.0, 2.0]),
            r"`target` of component 'a' has shape \(3,\).* 2 row",
        ),
        (
            lambda: Component("a", STRIP, PDE(two_rows, rows=2), lambda x: x[0]),
            r"`target` of component 'a' returns shape \(\).* 2 row",
        ),
        (
            lambda: Component("a", STRIP, Dirichlet(), weight=[1.0, 2.0]),
            r"`weight` of component 'a' has shape \(2,\)",
        ),
        (
            lambda: Component("a", STRIP, Dirichlet(), weight=-1.0),
            r"`weight` of component 'a' is \[-1.0\].*positive",
        ),
        (
            lambda: Component("a", STRIP, Dirichlet(), weight=jnp.nan),
            r"`weight` of component 'a' is \[nan\]",
        ),
        (
            lambda: Component("a", STRIP, Dirichlet(), None),
            r"`target` of component 'a' is None.*experimental",
        ),
        (
            lambda: Component("a", STRIP, Dirichlet(), group="measured"),  # pyright: ignore
            r"`group` of component 'a' is 'measured'.*'collocation'",
        ),
        (lambda: Component("a", STRIP.initial(), Neumann(X)), "initial face"),
        (lambda: Component("a", STRIP, TimeDerivative(X)), "not the time axis"),
        (lambda: Component("a", STRIP, Periodic(X, 1.0)), "outside the domain"),
        (
            lambda: Component("a", STRIP.periodic(X), Periodic(X, 2.0)),
            "`period` 2.0 puts the periodic image outside",
        ),
        (
            lambda: Component("a", STRIP, Dirichlet(), lambda x: None),
            "`target` of component 'a' returns NoneType: return real numbers",
        ),
        (
            lambda: Component("a", STRIP, Dirichlet(), lambda x: 1j),
            "`target` of component 'a' returns complex",
        ),
        (
            lambda: Component("a", STRIP, Dirichlet(), 1j),
            "`target` of component 'a' is complex",
        ),
        (
            lambda: Component("a", STRIP, two_rows),  # pyright: ignore
            r"`operator` of component 'a' is <function two_rows.*wrap .* `PDE\(...\)`",
        ),
        (
            lambda: Component("a", 3, Dirichlet()),  # pyright: ignore
            "`domain` of component 'a' is 3: give a domain",
        ),
        (lambda: AugmentedSpace([]), "`components` is empty"),
        (lambda: AugmentedSpace(3), "`components` is 3: give `Component`s in a list"),
        (lambda: AugmentedSpace(["a"]), r"`components\[0\]` is 'a': give `Component`s"),
        (
            lambda: AugmentedSpace([Component("a", STRIP, Dirichlet())] * 2),
            r"repeats the name\(s\) \['a'\]",
        ),
        (
            lambda: AugmentedSpace(
                [
                    Component("a", STRIP, Dirichlet()),
                    Component("b", Interval(0, 1), Dirichlet()),
                ]
            ),
            "different dimensions, {'a': 2, 'b': 1}",
        ),
        (lambda: TRANSPORT.kind("pde2"), r"no component 'pde2'.*'pde', 'ic', 'bc'"),
        (
            lambda: AugmentedSpace(
                [
                    Component("a", Interval(0, 1), Dirichlet()),
                    Component("b", Interval(0, 2).boundary(0, "upper"), Dirichlet()),
                ]
            ),
            r"'b' lies in \(2.0,\) to \(2.0,\), outside of the domain of the equations",
        ),
        (lambda: Component("", STRIP, Dirichlet()), "`name` of a component is ''"),
        (lambda: CandidatePool((), Uniform()), r"`sizes` of the pool is \(\)"),
        (lambda: CandidatePool((3, -1), Uniform()), "`sizes` is -1"),
        (lambda: CandidatePool({"a": 3}, Uniform()), "`sizes` of the pool is"),  # pyright: ignore
        (lambda: CandidatePool((3, 2.5), Uniform()), "`sizes` is 2.5"),
        (lambda: CandidatePool((0, 0), Uniform()), r"`sizes` of the pool is"),
        (
            lambda: CandidatePool((3, 3), (Uniform(),)),
            "`sampler` names 1 samplers for 2 kinds",
        ),
        (
            lambda: CandidatePool((3, 3), (Uniform(), Uniform)),  # pyright: ignore
            "`sampler` is the class Uniform itself: give one such as",
        ),
    ],
)
def test_static_mistakes(make, message, no_type_checks):
    with pytest.raises(ValueError, match=message):
        make()


def test_errors_in_functions_of_the_user_say_how_these_are_called():
    with pytest.raises(IndexError) as caught:
        Component("start", STRIP, Dirichlet(), lambda x: x[:, 0])
    assert any(
        "`target` of component 'start', called with one point x of shape (2,)" in note
        for note in caught.value.__notes__
    )
    swapped = Component("heat", STRIP, PDE(lambda x, u: x.shape))
    with pytest.raises(AttributeError, match="shape") as caught:
        swapped.residual(Model(lambda x: x[0]), jnp.zeros(2), jnp.zeros(1))
    (note,) = caught.value.__notes__
    assert "component 'heat' at one point x of shape (2,)" in note
    assert "calls its function as f(u, x)" in note


@pytest.mark.parametrize("target", [lambda x: 1.0, lambda x: [1]])
def test_a_target_may_return_any_numbers(target):
    component = Component("a", STRIP, Dirichlet(), target)
    u, x = model(), jnp.zeros(2)
    assert component.residual(u, x, jnp.zeros(1)) == u(x) - 1


def test_an_operator_that_returns_other_rows_than_declared():
    component = Component("a", STRIP, Fake(), 0.0)
    with pytest.raises(
        ValueError, match=r"component 'a' returned shape \(2,\).* 1 row"
    ):
        component.residual(model(), jnp.zeros(2), jnp.zeros(1))


class Fake(type(Dirichlet()).__mro__[1]):
    """Declares one row and returns two."""

    @property
    def rows(self) -> int:
        return 1

    def __call__(self, u, x):
        return jnp.zeros(2, x.dtype)


# ---------------------------------------------------------------- residuals


@eqx.filter_jit
def residual(space, u, points, capacities):
    return space.residual(u, space.split(points, capacities))


def test_the_residual_is_weight_times_what_the_operator_says_minus_the_target(x64):
    u = Model(lambda x: x[X] ** 2 * x[T])
    space = AugmentedSpace(
        [
            Component("pde", STRIP, PDE(Transport(speed=3.0)), 0.5, weight=4.0),
            Component("ic", STRIP.initial(), Dirichlet(), lambda x: x[X]),
            Component("both", STRIP, PDE(two_rows, rows=2), [1.0, 2.0], [1.0, 9.0]),
            Component("lab", STRIP, Observation(), None, group="experimental"),
        ]
    )
    x = jnp.asarray(np.random.default_rng(0).uniform(size=(8, 2)))
    label = jnp.arange(16.0).reshape(8, 2)
    kind = jnp.asarray([0, 1, 2, 3, 3, 2, 1, 0], jnp.int32)
    points = Points(x, kind, label=label)
    pde, ic, both, lab = residual(space, u, points, (2, 2, 2, 2))
    a, b = np.asarray(x).T
    value = a**2 * b
    np.testing.assert_allclose(
        pde[:, 0], 2 * (a**2 + 3 * 2 * a * b - 0.5)[[0, 7]], rtol=1e-12
    )
    np.testing.assert_allclose(ic[:, 0], (value - a)[[1, 6]], rtol=1e-12)
    np.testing.assert_allclose(both[:, 0], (value - 1)[[2, 5]], rtol=1e-12)
    np.testing.assert_allclose(both[:, 1], 3 * (value - 2)[[2, 5]], rtol=1e-12)
    np.testing.assert_allclose(
        lab[:, 0], (value - np.asarray(label)[:, 0])[[3, 4]], rtol=1e-12
    )


def test_unmeasured_labels_spoil_no_other_kind():
    points = Points(jnp.full((4, 2), 0.5), jnp.asarray([0, 1, 2, 3]))
    nan = eqx.tree_at(lambda p: p.label, points, jnp.full((4, 1), jnp.nan))
    *others, lab = residual(MEASURED, model(), nan, (1, 1, 1, 2))
    assert all(np.isfinite(R).all() for R in others)
    assert np.isnan(lab[0]).all()
    assert lab[1] == 0, "padding"


def test_gradients_are_finite_where_both_residuals_vanish():
    # û = 0 solves both equations of the reaction exactly.
    space = AugmentedSpace([Component("pde", STRIP, PDE(Reaction([0, 1]), rows=2))])
    zero = jax.tree.map(jnp.zeros_like, model(2).partition()[0])
    network = eqx.combine(zero, model(2))
    points = Points(jnp.full((3, 2), 0.5), 0)

    def loss(parameters):
        u = eqx.combine(parameters, network)
        (rows,) = space.residual(u, space.split(points, (4,)))
        return 0.5 * jnp.sum(rows**2)

    value, gradient = jax.jit(jax.value_and_grad(loss))(network.partition()[0])
    assert value == 0
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(gradient))


def test_scaling_an_equation_and_unscaling_its_weight_changes_nothing(x64):
    plain = AugmentedSpace(transport_components())
    scaled = AugmentedSpace(transport_components(scale=1000.0, weight=1e-6))
    points = Points(jnp.asarray(np.random.default_rng(1).uniform(size=(5, 2))), 0)
    (a, *_), (b, *_) = (
        residual(space, model(), points, (5, 0, 0)) for space in (plain, scaled)
    )
    np.testing.assert_allclose(a, b, rtol=1e-12)


# ---------------------------------------------------------------- split and join


def points_of(kinds, mask):
    n = len(kinds)
    x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
    arrays = (x, np.asarray(kinds, np.int32), np.asarray(mask), x[:, :1], 1 + x[:, 1])
    return Points(*map(jnp.asarray, arrays))


@jax.jit
def split(points):
    blocks = TRANSPORT.split(points, (9, 9, 9))
    return blocks, TRANSPORT.counts(points), TRANSPORT.join(blocks)


@hypothesis.given(
    st.lists(st.integers(0, 2), min_size=9, max_size=9),
    st.lists(st.booleans(), min_size=9, max_size=9),
)
@hypothesis.settings(deadline=None, max_examples=30)
def test_split_sorts_and_join_brings_back(kinds, mask):
    points = points_of(kinds, mask)
    live = [[i for i in range(9) if mask[i] and kinds[i] == k] for k in range(3)]
    blocks, counts, joined = split(points)
    for block, rows in zip(blocks, live, strict=True):
        number = len(rows)
        assert block.mask.tolist() == [True] * number + [False] * (9 - number)
        for name in ("x", "label", "weight"):
            wanted = np.asarray(getattr(points, name))[rows]
            assert np.array_equal(np.asarray(getattr(block, name))[:number], wanted)
        assert np.isfinite(block.x).all()
        assert not np.any(block.weight[number:])
    assert counts.tolist() == [len(rows) for rows in live]
    assert joined.kind.tolist() == [0] * 9 + [1] * 9 + [2] * 9
    order = jnp.asarray(np.argsort(~np.asarray(joined.mask), kind="stable")[:9])
    again, _, _ = split(jax.tree.map(lambda leaf: leaf[order], joined))
    assert same_bits(again, blocks)


def test_padding_sits_inside_the_domain_of_its_kind():
    nothing = points_of([0] * 3, [False] * 3)
    blocks = eqx.filter_jit(POISSON.split)(nothing, (1, 2, 3, 1))
    for component, block in zip(POISSON.components, blocks, strict=True):
        assert component.domain.contains(block.x).all()
        assert not block.mask.any()


def test_padding_of_a_singular_operator_sends_no_nan_through_the_gradient(x64):
    # u'' + u'/|x| has no value at 0, the middle; none of the points lies there.
    def residual(u, x):
        u_x, u_xx = derivatives(u, x, (0,), (0, 0))
        return u_xx + u_x / jnp.abs(x[0])

    line = Component("pde", Box((-1,), (1,)), PDE(residual))
    space = AugmentedSpace([line])
    points = Points(jnp.asarray([[0.5], [-0.25]]), 0)
    network = Model(nn.MLP(1, 1, 4, 1, key=jr.key(0)))

    def gradient(capacity):
        def loss(network):
            (rows,) = space.residual(network, space.split(points, (capacity,)))
            return jnp.sum(rows**2)

        return jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(loss))(network))

    for tight, padded in zip(gradient(2), gradient(5), strict=True):
        np.testing.assert_allclose(padded, tight, rtol=1e-12)


def test_stack_pads_rows():
    space = AugmentedSpace(
        [
            Component("a", STRIP, PDE(two_rows, rows=2)),
            Component("b", STRIP.initial(), Dirichlet()),
        ]
    )
    stacked = space.stack([jnp.ones((2, 2)), 2 * jnp.ones((1, 1))])
    assert stacked.tolist() == [[1, 1], [1, 1], [2, 0]]


def test_which_kinds_fill_the_domain():
    whole_boundary = Component("bc", SQUARE.boundary(), Dirichlet())
    assert not whole_boundary.fills_domain
    assert Component("pde", SQUARE, PDE(laplace)).fills_domain
    assert [c.fills_domain for c in MEASURED.components] == [True, False, False, False]


# ---------------------------------------------------------------- the pool


@eqx.filter_jit
def draw(pool, space, dtype, key):
    return pool.draw(space, dtype, key=key)


def test_pde_candidates_also_lie_where_the_others_are():
    pool = CandidatePool((5, 3, 2), Uniform())
    pde, ic, bc = draw(pool, TRANSPORT, jnp.float32, jr.key(0))
    assert [b.size for b in (pde, ic, bc)] == [10, 3, 2]
    assert same_bits(pde.x[5:8], ic.x)
    assert same_bits(pde.x[8:], bc.x)
    assert pde.mask.all()
    alone = CandidatePool((5, 3, 2), Uniform(), everywhere=False)
    assert same_bits(draw(alone, TRANSPORT, jnp.float32, jr.key(0))[0], pde.rows(0, 5))


def test_locations_outside_the_domain_of_a_pde_are_masked():
    inner = AugmentedSpace(
        [
            Component("pde", Box((0.25, 0.25), (0.75, 0.75)), PDE(laplace)),
            Component("bc", SQUARE.boundary(), Dirichlet()),
        ]
    )
    pde, bc = draw(CandidatePool((4, 6), Uniform()), inner, jnp.float32, jr.key(1))
    assert pde.mask.tolist() == [True] * 4 + [False] * 6
    assert inner.components[0].domain.contains(pde.x).all(), "padding has a valid place"
    assert bc.size == 6, "and no condition is asked for inside"


def test_measurements_are_candidates_for_the_pde_too():
    pool = CandidatePool((4, 2, 2, 3), Uniform())
    pde, *_, sensor = draw(pool, MEASURED, jnp.float32, jr.key(2))
    assert same_bits(pde.x[8:], sensor.x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_pool_has_the_dtype_asked_for(dtype, x64):
    pool = CandidatePool((4, 2, 2), Uniform())
    for block in draw(pool, TRANSPORT, dtype, jr.key(0)):
        assert block.x.dtype == block.label.dtype == block.weight.dtype == dtype


def test_a_sampler_for_each_kind():
    pool = CandidatePool((4, 3, 3), (Fixed(0), Fixed(1), Uniform()), everywhere=False)
    a = draw(pool, TRANSPORT, jnp.float32, jr.key(0))
    b = draw(pool, TRANSPORT, jnp.float32, jr.key(1))
    assert same_bits(a[:2], b[:2])
    assert not np.array_equal(a[2].x, b[2].x)
    wanted = Fixed(0).unit(4, 2, key=jr.key(0))
    np.testing.assert_allclose(a[0].x, wanted, rtol=1e-6)


def test_a_kind_without_candidates():
    pool = CandidatePool((4, 0, 2), Uniform())
    pde, ic, bc = draw(pool, TRANSPORT, jnp.float32, jr.key(0))
    assert (pde.size, ic.size, bc.size) == (6, 0, 2)
