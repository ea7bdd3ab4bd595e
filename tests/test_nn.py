"""Networks and their derivatives, against nested differentiation and closed forms."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from pinnacle._model import Model
from pinnacle._operator import derivatives
from pinnacle.nn import (
    LAAF,
    MLP,
    Apply,
    InputNormalisation,
    OutputTransform,
    PeriodicInput,
    Sin,
    Tanh,
)
from pinnacle.nn.layer import linear
from pinnacle.nn.multi_index import closure, partitions


def indices(dim, order):
    return [
        index
        for k in range(order + 1)
        for index in itertools.combinations_with_replacement(range(dim), k)
    ]


def nested(u, x, index):
    """∂^α u(x), one `jax.jacfwd` a coordinate."""
    if not index:
        return u(x)
    *rest, last = index
    return jax.jacfwd(lambda p: nested(u, p, rest))(x)[..., last]


def hard_constraint(x, raw):
    return x[1] * (1 - x[0] ** 2) * raw + jnp.sin(4 * x[0])


def mlp(dim, **options):
    return MLP(dim, 2, 7, 2, key=jr.key(0), **options)


NETWORKS = {
    "tanh": mlp,
    "sin": lambda d: mlp(d, activation="sin"),
    "laaf": lambda d: mlp(d, activation=LAAF(scale=5.0)),
    "softplus": lambda d: mlp(d, activation=jax.nn.softplus),
    "normalised": lambda d: InputNormalisation(mlp(d), [-1.0] * d, [3.0] * d),
    "periodic": lambda d: PeriodicInput(mlp(d + 1), 0, 2.5),
    "three modes of the last coordinate": lambda d: PeriodicInput(
        mlp(d + 5), d - 1, 2.5, modes=3
    ),
    "periodic equinox": lambda d: PeriodicInput(
        eqx.nn.MLP(d + 1, 2, 7, 2, jnp.tanh, key=jr.key(0)), 0, 2.5
    ),
    "hard": lambda d: OutputTransform(mlp(d), hard_constraint),
    "hard of normalised": lambda d: OutputTransform(
        InputNormalisation(mlp(d), [-1.0] * d, [3.0] * d), lambda x, n: n**2 * x[0]
    ),
    "equinox": lambda d: eqx.nn.MLP(d, 2, 7, 2, jnp.tanh, key=jr.key(0)),
    "hard of equinox": lambda d: OutputTransform(
        eqx.nn.MLP(d, 2, 7, 2, jnp.tanh, key=jr.key(0)), hard_constraint
    ),
    "apply": lambda d: Apply(
        {"a": jr.normal(jr.key(1), (2, d))}, lambda p, x: jnp.sin(p["a"] @ x)
    ),
    "scalar": lambda d: eqx.nn.MLP(d, "scalar", 7, 2, jnp.tanh, key=jr.key(0)),
}


@eqx.filter_jit
def perturbed(network):
    """Biases and slopes away from their starting values."""
    flat, back = ravel_pytree(eqx.filter(network, eqx.is_inexact_array))
    moved = back(flat + 0.1 * jr.normal(jr.key(3), flat.shape))
    return eqx.combine(moved, network)


SOME = [(), (0,), (0, 1), (1, 1), (0, 0, 1)]


def check_against_nested(network, x, axes):
    model = Model(perturbed(network))
    found = eqx.filter_jit(lambda u: derivatives(u, x, *axes))(model)
    expected = eqx.filter_jit(lambda u: [nested(u, x, index) for index in axes])(model)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", NETWORKS)
def test_derivatives_are_those_of_nested_differentiation(name, x64):
    check_against_nested(NETWORKS[name](2), jnp.array([0.3, -0.4]), SOME)


def test_a_periodic_input_repeats_with_all_derivatives(x64):
    network = PeriodicInput(mlp(3), 1, 2.5)
    here, there = (
        derivatives(Model(network), jnp.array([0.3, x]), (), (1,), (0, 1, 1))
        for x in (-0.4, 2.1)
    )
    np.testing.assert_allclose(here, there, rtol=1e-9)
    with pytest.raises(ValueError, match=r"`period` is 0.0"):
        PeriodicInput(mlp(3), 1, 0.0)
    with pytest.raises(ValueError, match="`modes` is 0"):
        PeriodicInput(mlp(3), 1, 1.0, modes=0)


@pytest.mark.parametrize(("dim", "order"), [(2, 4), (3, 3)])
def test_every_multi_index_is_right(dim, order, x64):
    x = jnp.array([0.3, -0.4, 0.7])[:dim]
    check_against_nested(MLP(dim, 2, 5, 2, key=jr.key(0)), x, indices(dim, order))


@pytest.mark.parametrize("name", ["tanh", "sin", "laaf", "hard of normalised"])
def test_parameter_gradients_are_those_of_nested_differentiation(name, x64):
    model = perturbed(Model(NETWORKS[name](2)))
    points = jr.normal(jr.key(1), (4, 2))
    axes = [(), (1,), (0, 0, 1)]

    def loss(u, compute):
        rows = jax.vmap(lambda x: jnp.stack(compute(u, x)))(points)
        return jnp.sum(jnp.sin(rows) ** 2)

    def by_hand(u, x):
        return [nested(u, x, index) for index in axes]

    gradient = eqx.filter_jit(eqx.filter_grad(loss))
    found = gradient(model, lambda u, x: derivatives(u, x, *axes))
    expected = gradient(model, by_hand)
    np.testing.assert_allclose(
        ravel_pytree(found)[0], ravel_pytree(expected)[0], rtol=1e-9, atol=1e-11
    )


def test_parameter_derivatives_in_both_modes_match_a_finite_difference(x64):
    network = OutputTransform(mlp(2, activation=LAAF()), hard_constraint)
    dynamic, static = eqx.partition(network, eqx.is_inexact_array)
    flat, back = ravel_pytree(dynamic)
    x = jnp.array([0.3, 0.2])

    @jax.jit
    def rows(p):
        u = eqx.combine(back(p), static)
        return jnp.concatenate(derivatives(u, x, (0, 0), 1))

    direction = jr.normal(jr.key(5), flat.shape)
    step = 1e-6
    expected = (rows(flat + step * direction) - rows(flat - step * direction)) / (
        2 * step
    )
    cotangent = jnp.array([1.0, -2.0, 0.5, 3.0])

    @jax.jit
    def several_ways():
        _, forward = jax.jvp(rows, (flat,), (direction,))
        _, linear_map = jax.linearize(rows, flat)
        (gradient,) = jax.vjp(rows, flat)[1](cotangent)
        jacobian = jax.vmap(jax.jacrev(rows))(flat[None])[0]
        return forward, linear_map(direction), gradient, jacobian @ direction

    forward, linearised, gradient, by_rows = several_ways()
    np.testing.assert_allclose(forward, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(linearised, forward, rtol=1e-10)
    np.testing.assert_allclose(by_rows, forward, rtol=1e-9)
    np.testing.assert_allclose(gradient @ direction, cotangent @ forward, rtol=1e-10)


def test_derivatives_of_a_polynomial_and_a_wave(both_precisions):
    def u(x):
        return jnp.stack([x[0] ** 3 * x[1] ** 2, jnp.sin(2 * x[0]) * jnp.exp(-x[1])])

    x = jnp.array([0.5, 0.25])
    a, b = 0.5, 0.25
    wave = np.exp(-b)
    expected = {
        (): (a**3 * b**2, np.sin(2 * a) * wave),
        (0,): (3 * a**2 * b**2, 2 * np.cos(2 * a) * wave),
        (1, 0): (6 * a**2 * b, -2 * np.cos(2 * a) * wave),
        (0, 0, 1): (12 * a * b, 4 * np.sin(2 * a) * wave),
        (0, 0, 1, 1): (12 * a, -4 * np.sin(2 * a) * wave),
        (1, 1, 1): (0.0, -np.sin(2 * a) * wave),
    }
    transformed = OutputTransform(
        lambda x: x[0] ** 3, lambda x, n: u(x) + 0 * n + n - x[0] ** 3
    )
    for function in (u, transformed):
        found = jax.jit(lambda f=function: derivatives(f, x, *expected))()
        for row, value in zip(found, expected.values(), strict=True):
            assert row.dtype == x.dtype
            np.testing.assert_allclose(row, value, rtol=1e-5, atol=1e-6)


def test_an_integer_is_a_one_tuple_and_order_does_not_matter():
    u = mlp(3)
    x = jnp.array([0.1, 0.2, 0.3])
    a, b, c, d, e = derivatives(u, x, 1, (1,), (0, 2), (2, 0), (0, 2))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(c, d)
    np.testing.assert_array_equal(c, e)


@pytest.mark.parametrize("u", [mlp(2), lambda x: jnp.sin(x)])
def test_an_axis_that_does_not_exist_is_refused(u, no_type_checks):
    with pytest.raises(ValueError, match="names a coordinate that does not exist"):
        derivatives(u, jnp.zeros(2), (0, 2))
    for axes in (0.5, (0, 0.5), -1, "0"):
        with pytest.raises(ValueError, match=r"`axes` is .*: differentiate by coord"):
            derivatives(u, jnp.zeros(2), axes)  # pyright: ignore


def test_closure_and_partitions():
    assert closure(((0, 0, 1),)) == ((), (0,), (1,), (0, 0), (0, 1), (0, 0, 1))
    # Bell numbers count the partitions of a set.
    for k, bell in enumerate([1, 1, 2, 5, 15]):
        assert sum(count for count, _ in partitions((0,) * k)) == bell


@pytest.mark.parametrize("activation", [Tanh(), Sin(), LAAF("sin", scale=3.0)])
def test_activation_towers(activation, x64):
    z = jnp.linspace(-2, 2, 9)
    if isinstance(activation, LAAF):
        activation = eqx.tree_at(lambda a: a.slope, activation, jnp.asarray(0.7))
    tower = activation.tower(z, 5)
    step = 1e-6
    for k in range(5):
        rise = activation.tower(z + step, k)[k] - activation.tower(z - step, k)[k]
        np.testing.assert_allclose(tower[k + 1], rise / (2 * step), atol=2e-6)


def test_laaf_starts_as_its_activation_and_each_layer_learns_its_own_slope():
    plain, adaptive = mlp(2), mlp(2, activation=LAAF())
    x = jnp.array([0.3, 0.6])
    np.testing.assert_allclose(adaptive(x), plain(x), rtol=1e-5)
    gradient = eqx.filter_grad(lambda u: jnp.sum(u(x) ** 2))(adaptive)
    slopes = [float(a.slope) for a in gradient.activations]
    assert len(set(slopes)) == 2
    assert all(slopes)


def test_initialisation(both_precisions):
    network = MLP(3, 2, 50, 4, key=jr.key(2))
    assert [w.shape for w in network.weights] == [(50, 3), *[(50, 50)] * 3, (2, 50)]
    for weight, bias in zip(network.weights, network.biases, strict=True):
        limit = (6 / sum(weight.shape)) ** 0.5
        assert 0.9 * limit < jnp.abs(weight).max() <= limit
        assert not bias.any()
        assert weight.dtype == bias.dtype == jnp.result_type(float)
    assert network(jnp.zeros(3)).dtype == jnp.result_type(float)
    np.testing.assert_array_equal(
        network.weights[1], MLP(3, 2, 50, 4, key=jr.key(2)).weights[1]
    )


def test_normalisation_maps_the_box_to_the_unit_cube():
    network = InputNormalisation(lambda x: x, [0.0, -2.0], [1.0, 6.0])
    corners = jnp.array([[0.0, -2.0], [1.0, 6.0], [0.5, 2.0]])
    np.testing.assert_allclose(jax.vmap(network)(corners), [[-1, -1], [1, 1], [0, 0]])


def test_a_hard_constraint_holds_exactly():
    network = OutputTransform(mlp(2), hard_constraint)
    for x in ([1.0, 0.7], [-1.0, 0.2], [0.4, 0.0]):
        np.testing.assert_allclose(
            network(jnp.array(x)), np.sin(4 * x[0]), rtol=1e-6, atol=1e-6
        )


def test_apply_trains_arrays_that_come_from_numpy():
    network = Apply({"a": np.ones((2, 2))}, lambda p, x: p["a"] @ x)
    assert all(map(eqx.is_inexact_array, jax.tree.leaves(network)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MLP(2, 1, 0, 3, key=jr.key(0)), "`width` must be at least 1, got 0"),
        (
            lambda: MLP(2, 1, 8, 3, activation="relu6", key=jr.key(0)),
            "`activation` must be one of .*'relu6'",
        ),
        (lambda: LAAF(scale=0.0), "`scale` must be at least 1, got 0.0"),
        (
            lambda: InputNormalisation(jnp.sin, [0.0, 1.0], [1.0, 1.0]),
            r"upper > lower .*lower=\(0.0, 1.0\)",
        ),
        (
            lambda: InputNormalisation(jnp.sin, [0.0], [1.0])(jnp.zeros(2)),
            r"a point of shape \(2,\)",
        ),
    ],
)
def test_mistakes_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def _count(jaxpr, name):
    return sum(str(equation.primitive) == name for equation in jaxpr.eqns)


def test_a_layer_is_one_matrix_product_over_streams_and_points():
    u, axes = MLP(2, 1, 16, 4, key=jr.key(0)), [(), (0,), (1,), (1, 1, 1)]
    batch = jax.vmap(lambda x: derivatives(u, x, *axes))
    jaxpr = jax.make_jaxpr(batch)(jnp.zeros((50, 2))).jaxpr
    assert _count(jaxpr, "pinnacle_linear") == 5
    assert _count(jaxpr, "dot_general") == 0
    text = jax.jit(batch).lower(jnp.zeros((50, 2))).as_text()
    assert text.count("stablehlo.dot_general") == 5


def test_new_parameters_do_not_trace_again():
    @eqx.debug.assert_max_traces(max_traces=1)
    def rows(u, x):
        return derivatives(u, x, (), (0, 0))

    call = eqx.filter_jit(rows)
    for seed in range(3):
        network = MLP(2, 1, 8, 2, activation=LAAF(), key=jr.key(seed))
        call(InputNormalisation(network, [0, 0], [1, 2]), jnp.zeros(2))


WEIGHT, BIAS = jr.normal(jr.key(0), (4, 3)), jr.normal(jr.key(1), (4,))
POINTS = jr.normal(jr.key(2), (5, 3))


def _by_primitive(w, b, x):
    return sum(jnp.sin(h).sum() for h in linear(w, b, [x, jnp.ones(3), x * x]))


def _by_hand(w, b, x):
    streams = [w @ x + b, w @ jnp.ones(3), w @ (x * x)]
    return sum(jnp.sin(h).sum() for h in streams)


ALL = (0, 1, 2)
BATCH = (None, None, 0)
TRANSFORMS = {
    "value": lambda f: f(WEIGHT, BIAS, POINTS[0]),
    "gradient": lambda f: jax.grad(f, ALL)(WEIGHT, BIAS, POINTS[0]),
    "gradient a point": lambda f: jax.vmap(jax.grad(f, ALL), BATCH)(
        WEIGHT, BIAS, POINTS
    ),
    "gradient of a batch": lambda f: jax.grad(
        lambda *a: jax.vmap(f, BATCH)(*a).sum(), ALL
    )(WEIGHT, BIAS, POINTS),
    "batch of batches": lambda f: jax.grad(
        lambda *a: jax.vmap(jax.vmap(f, BATCH), BATCH)(*a).sum(), ALL
    )(WEIGHT, BIAS, jnp.stack([POINTS, 2 * POINTS])),
    "second derivatives": lambda f: jax.vmap(jax.hessian(f, ALL), BATCH)(
        WEIGHT, BIAS, POINTS
    ),
    "several directions": lambda f: jax.vmap(
        lambda d: jax.jvp(
            lambda w: jax.vmap(f, BATCH)(w, BIAS, POINTS), (WEIGHT,), (d,)
        )
    )(jnp.stack([WEIGHT, 2 * WEIGHT])),
    "several networks": lambda f: jax.vmap(
        jax.vmap(jax.grad(f, ALL), BATCH), (0, 0, None)
    )(jnp.stack([WEIGHT, -WEIGHT]), jnp.stack([BIAS, BIAS]), POINTS),
    "networks inside points": lambda f: jax.vmap(
        jax.vmap(f, (0, None, None)), (None, None, 0)
    )(jnp.stack([WEIGHT, -WEIGHT]), BIAS, POINTS),
    "rematerialised": lambda f: jax.grad(
        lambda w: jax.vmap(jax.checkpoint(lambda x: f(w, BIAS, x)))(POINTS).sum()
    )(WEIGHT),
    "points along the last axis": lambda f: jax.vmap(f, (None, None, 1))(
        WEIGHT, BIAS, POINTS.T
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_the_linear_layer_under_every_transform(transform):
    apply = TRANSFORMS[transform]
    found, expected = jax.jit(lambda: (apply(_by_primitive), apply(_by_hand)))()
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
