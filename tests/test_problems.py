"""The forward problems: shapes, settings, and their operators on known solutions."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from pinnacle import CandidatePool, Dirichlet, Model, Neumann, Periodic, Uniform
from pinnacle.nn import LAAF, MLP, OutputTransform
from pinnacle.problems import (
    PERIODICITY,
    Reference,
    Sine,
    advection,
    advection_timing,
    advection_transfer,
    burgers,
    burgers_transfer,
    darcy,
    diffusion,
    kdv,
    predict,
    shallow_water,
)


PROBLEMS = {
    "advection": advection,
    "advection-timing": advection_timing,
    "advection-transfer": advection_transfer,
    "burgers": burgers,
    "burgers-transfer": burgers_transfer,
    "darcy": darcy,
    "diffusion": diffusion,
    "kdv": kdv,
    "shallow-water": shallow_water,
}
# name: lr, steps, budget, new, every, pool; hidden layers × width.
PAPER = {
    "advection": (1e-4, 200_000, 1000, 200, 5000, (2000, 500), (8, 128)),
    "advection-timing": (1e-4, 200_000, 1000, 200, 5000, (2000, 500), (6, 64)),
    "advection-transfer": (1e-4, 200_000, 200, 50, 5000, (2000, 500), (8, 128)),
    "burgers": (1e-4, 200_000, 300, 100, 5000, (800, 200), (4, 128)),
    "burgers-transfer": (1e-4, 200_000, 200, 50, 5000, (800, 200), (4, 128)),
    "darcy": (1e-3, 30_000, 300, 100, 1000, (800, 100), (4, 32)),  # not the paper's
    "diffusion": (1e-3, 30_000, 100, 50, 1000, (800, 0), (2, 32)),
    "kdv": (1e-3, 100_000, 300, 100, 5000, (800, 200), (4, 32)),
    "shallow-water": (1e-3, 100_000, 1000, 200, 5000, (800, 200), (4, 32)),
}
# lower and upper corners in (x, t), of the periodic problems and of diffusion
DOMAINS = {
    "advection": ((0, 0), (1, 2)),
    "advection-timing": ((0, 0), (1, 2)),
    "advection-transfer": ((0, 0), (1, 2)),
    "burgers": ((0, 0), (1, 2)),
    "burgers-transfer": ((0, 0), (1, 2)),
    "diffusion": ((-1, 0), (1, 3)),
    "kdv": ((-1, 0), (1, 1)),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_settings_are_the_papers(name):
    problem, settings = PROBLEMS[name](), PROBLEMS[name]().settings
    *numbers, (depth, width) = PAPER[name]
    assert [
        settings.learning_rate,
        settings.steps,
        settings.budget,
        settings.new,
        settings.select_every,
        settings.pool,
    ] == numbers
    assert (settings.experimental_per_round, problem.coefficients) == (0, {})
    assert problem.name == name
    network = eqx.filter_eval_shape(problem.network, jr.key(0))
    if name == "diffusion":
        assert isinstance(network, OutputTransform)
        network = network.network
    assert isinstance(network, MLP)
    shapes = [weight.shape for weight in network.weights]
    ends = (width, problem.space.dim), (len(problem.outputs), width)
    assert shapes == [ends[0], *[(width, width)] * (depth - 1), ends[1]]
    assert isinstance(network.activations[0], LAAF) == (name == "advection-timing")


@pytest.mark.parametrize("name", DOMAINS)
def test_the_space(name):
    problem = PROBLEMS[name]()
    names = ("pde",) if name == "diffusion" else ("pde", "ic", "bc")
    assert problem.space.names == names
    lower, upper = DOMAINS[name]
    pde, *conditions = problem.space.components
    assert pde.domain.bounds == (lower, upper)
    assert pde.fills_domain
    if conditions:
        ic, bc = conditions
        assert isinstance(ic.operator, Dirichlet)
        assert ic.domain.bounds == (lower, (upper[0], 0))
        assert isinstance(bc.operator, Periodic)
        assert bc.operator.period == upper[0] - lower[0]
        assert bc.domain.bounds == (lower, (lower[0], upper[1]))


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_network_fits_the_space(name):
    problem = PROBLEMS[name]()
    u = Model(eqx.filter_eval_shape(problem.network, jr.key(0)))
    x = jnp.zeros(len(problem.coordinates))
    assert eqx.filter_eval_shape(u, x).shape == (len(problem.outputs),)
    for component in problem.space.components:
        rows = eqx.filter_eval_shape(component.residual, u, x, jnp.zeros(1))
        assert rows.shape == (component.operator.rows,)


# ---------------------------------------------------------------- known solutions


def residuals(space, u):
    """The largest residual of each kind on random points, by name."""
    pool = CandidatePool((20,) * len(space.components), Uniform())
    blocks = pool.draw(space, jnp.float64, key=jr.key(0))
    rows = eqx.filter_jit(space.residual)(u, blocks)
    return {
        name: float(jnp.max(jnp.abs(r)))
        for name, r in zip(space.names, rows, strict=True)
    }


def check_exact(problem, u):
    assert max(residuals(problem.space, u).values()) < 1e-9
    errors = problem.metrics(problem.solve())(u)
    assert set(errors) == {"mse", "relative_l2", "max_error"}
    assert float(errors["max_error"]) < 1e-10
    assert float(errors["relative_l2"]) < 1e-10
    assert float(errors["mse"]) < 1e-20


@pytest.mark.parametrize("speed", [1.0, -2.5])
def test_advection_is_solved_by_the_shifted_initial_value(speed, x64):
    u0 = Sine(0.7, 2, 0.3)
    check_exact(advection(speed, u0), Model(lambda x: u0(x[0] - speed * x[1])))


def test_the_wrong_sign_does_not_solve_advection(x64):
    u0 = Sine()
    wrong = residuals(advection(1.0, u0).space, Model(lambda x: u0(x[0] + x[1])))
    assert wrong["pde"] > 1
    assert wrong["ic"] < 1e-12


def test_advection_timing_is_advection_of_speed_5(x64):
    solution = Model(lambda x: jnp.sin(2 * jnp.pi * (x[0] - 5 * x[1])))
    assert max(residuals(advection_timing().space, solution).values()) < 1e-9


def test_diffusion_is_solved_by_the_decaying_wave(x64):
    solution = Model(lambda x: jnp.exp(-2 * x[1]) * jnp.sin(4 * jnp.pi * x[0]))
    check_exact(diffusion(), solution)


def test_the_network_of_diffusion_holds_its_conditions(x64):
    u = diffusion().model(key=jr.key(3))
    at = jax.jit(jax.vmap(u))
    s = jnp.linspace(0, 1, 5)
    start = at(jnp.stack([2 * s - 1, 0 * s], axis=1))[:, 0]
    np.testing.assert_allclose(start, np.sin(4 * np.pi * (2 * s - 1)), atol=1e-12)
    for side in (-1, 1):
        np.testing.assert_allclose(
            at(jnp.stack([side + 0 * s, 3 * s], 1)), 0, atol=1e-12
        )


def test_burgers_is_solved_by_a_travelling_shock(x64):
    # u = c − a tanh(a (x − ct) / 2D) solves u_t + u u_x = D u_xx; here D = ν/π.
    c, a, D = 0.4, 0.1, 0.05 / np.pi
    shock = Model(lambda x: c - a * jnp.tanh(a * (x[0] - c * x[1]) / (2 * D)))
    assert residuals(burgers(0.05).space, shock)["pde"] < 1e-12


def test_kdv_is_solved_by_a_soliton(x64):
    # u = (3c/λ1) sech²(√(c/λ2)/2 · (x − ct)) solves u_t + λ1 u u_x + λ2 u_xxx = 0.
    c, a, b = 0.3, 1.5, 0.01
    k = np.sqrt(c / b) / 2
    soliton = Model(lambda x: 3 * c / a / jnp.cosh(k * (x[0] - c * x[1])) ** 2)
    assert residuals(kdv(a, b).space, soliton)["pde"] < 1e-9


def test_shallow_water_is_solved_by_a_simple_wave(x64):
    # A simple wave along s = (x + y)/√2: the velocity along s is 2(√h − 1), and √h is
    # constant where s − (3√h − 2) t is. Here √h = 1 + 0.1 (s − (3√h − 2) t).
    def wave(x):
        s, t = (x[0] + x[1]) / jnp.sqrt(2.0), x[2]
        root = (1 + 0.1 * (s + 2 * t)) / (1 + 0.3 * t)
        speed = 2 * (root - 1) / jnp.sqrt(2.0)
        return jnp.stack([root**2, speed, speed])

    found = residuals(shallow_water().space, Model(wave))
    assert found["pde"] < 1e-12
    assert min(found["ic"], found["bc"]) > 0.1


def test_the_dam_and_the_still_water(x64):
    _, ic, bc = shallow_water().space.components
    still = Model(lambda x: jnp.asarray([1.0, 0.0, 0.0]))
    label = jnp.zeros(3)
    for x, expected in (([0.3, 0.4, 0], [-1, 0, 0]), ([0.4, 0.4, 0], [0, 0, 0])):
        rows = ic.residual(still, jnp.asarray(x, float), label)
        np.testing.assert_allclose(rows, expected)
    assert bc.domain.bounds == ((-2.5, -2.5, 0), (2.5, 2.5, 1))
    assert isinstance(bc.operator, Neumann)
    corner = jnp.asarray([2.5, 1.0, 0.5])
    sloping = Model(lambda x: jnp.stack([x[0], 2 * x[0], x[1]]))
    np.testing.assert_allclose(bc.residual(sloping, corner, label), [1, 2, 0])


def test_the_pieces_of_darcys_boundary(x64):
    space = darcy().space
    assert space.names == ("pde", "inflow", "outflow", "floor", "roof")
    found = residuals(space, Model(lambda x: 1 - x[0]))
    for name in space.names[1:]:
        assert found[name] < 1e-14
    # Of 1 − x, the equation leaves −a_x.
    assert found["pde"] > 0.1
    tilted = residuals(space, Model(lambda x: 1 - x[0] + 0.3 * x[1] * x[1] / 2))
    np.testing.assert_allclose([tilted["floor"], tilted["roof"]], [0, 0.3], atol=1e-14)


# ------------------------------------------------------------------------ transfer


@pytest.mark.parametrize("make", [advection_transfer, burgers_transfer])
def test_transfer_starts_from_the_first_problem(make):
    problem = make()
    assert problem.source is not None
    source = problem.source()
    assert source.name == problem.name.removesuffix("-transfer")
    assert problem.space.names == source.space.names
    at = jnp.stack([jnp.linspace(0, 1, 9), jnp.zeros(9)], 1)
    first, second = (
        jax.vmap(p.space.components[1].target)(at) for p in (source, problem)
    )
    assert 0.1 < np.max(np.abs(first - second)) < 2
    np.testing.assert_allclose(second[0], second[-1], atol=1e-5)


# ------------------------------------------------------------------------- metrics


def several(outputs=("h", "u"), **changes):
    """A problem whose only purpose is its metrics, and a reference on 3 × 2 points."""
    axes = (np.arange(3.0), np.arange(2.0))
    values = np.random.default_rng(0).normal(size=(3, 2, len(outputs)))
    problem = dataclasses.replace(kdv(), outputs=outputs, **changes)
    return problem, Reference(axes, values)


def test_metrics_by_output_and_the_reported_ones(x64):
    problem, reference = several(reported=("h",))
    shift = jnp.asarray([0.5, -2.0])
    table = jnp.asarray(reference.on_grid(reference.values))

    def u(x):
        i, j = x.astype(int)
        return table[i, j] + shift

    errors = problem.metrics(reference)(Model(u))
    names = {"mse", "relative_l2", "max_error"}
    assert set(errors) == {n + s for n in names for s in ("", "/h", "/u")}
    assert set(problem.metric_names) == set(errors)
    np.testing.assert_allclose(errors["mse"], 0.25)
    np.testing.assert_allclose(errors["mse/u"], 4.0)
    np.testing.assert_allclose(errors["max_error/u"], 2.0)
    norm = np.linalg.norm(reference.values[:, 1])
    np.testing.assert_allclose(errors["relative_l2/u"], 2 * np.sqrt(6) / norm)
    everything = dataclasses.replace(problem, reported=None).metrics(reference)
    np.testing.assert_allclose(everything(Model(u))["mse"], (0.25 + 4) / 2)


def test_a_gauge_is_not_an_error(x64):
    problem, reference = several(gauge=("u",))
    table = jnp.asarray(reference.on_grid(reference.values))

    def u(x):
        i, j = x.astype(int)
        return table[i, j] + jnp.stack([x[1], 7 + 3 * x[1] ** 2])

    errors = problem.metrics(reference)(Model(u))
    np.testing.assert_allclose(errors["max_error/u"], 0, atol=1e-12)
    np.testing.assert_allclose(errors["max_error/h"], 1)


def test_a_reference_with_fewer_outputs():
    problem, _ = several()
    axes = (np.arange(3.0), np.arange(2.0))
    depth = problem.metrics(Reference(axes, np.ones((3, 2, 1))))
    errors = depth(Model(lambda x: jnp.asarray([1.0, 5.0])))
    assert set(errors) == {
        n + s for n in ("mse", "relative_l2", "max_error") for s in ("", "/h")
    }
    assert float(errors["mse"]) == 0
    with pytest.raises(ValueError, match="the reference has 3 outputs, more than"):
        problem.metrics(Reference(axes, np.ones((3, 2, 3))))


def test_errors_of_coefficients():
    problem, reference = several(true_coefficients={"lambda": 2.0})
    model = Model(lambda x: jnp.zeros(2), {"lambda": 1.5})
    errors = problem.metrics(reference)(model)
    np.testing.assert_allclose(errors["coefficient_error/lambda"], 0.25, rtol=1e-6)
    assert set(problem.metric_names) == set(errors)


# ------------------------------------------------------------------- initial values


def test_initial_values(x64):
    flat = Model(lambda x: 0 * x[0])
    ic = kdv().space.components[1]
    x = jnp.asarray([0.25, 0.0])
    np.testing.assert_allclose(
        ic.residual(flat, x, x), -np.cos(np.pi * 0.25), rtol=1e-12
    )


def test_predict_works_in_chunks():
    x = jr.uniform(jr.key(0), (5000, 2))
    values = predict(Model(lambda x: x[0] + 2 * x[1]), x)
    assert values.shape == (5000, 1)
    np.testing.assert_allclose(values[:, 0], x[:, 0] + 2 * x[:, 1], rtol=1e-6)


@pytest.mark.parametrize(("make", "order"), [(advection, 0), (burgers, 1), (kdv, 2)])
def test_periodic_by_value_derivatives_or_network(make, order, x64):
    by_value, by_derivatives, by_network = (make(periodic=p) for p in PERIODICITY)
    for problem, rows in ((by_value, 1), (by_derivatives, order + 1)):
        condition = problem.space.components[2]
        assert condition.operator.rows == rows
        x = condition.domain.from_unit(jnp.asarray([[0.3]]))[0]
        assert np.any(condition.operator(problem.model(key=jr.key(0)), x) != 0)
    assert by_network.space.names == ("pde", "ic")
    x = by_value.space.components[2].domain.from_unit(jnp.asarray([[0.3]]))[0]
    condition = Periodic(0, by_value.space.components[2].domain.period, order)
    gap = condition(by_network.model(key=jr.key(0)), x)
    np.testing.assert_allclose(gap, 0, atol=1e-10)
    with pytest.raises(ValueError, match="`periodic` is 'twice': choose one of value"):
        make(periodic="twice")
