"""The inverse problems: settings, operators on known solutions, and measurements."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from pinnacle import Model, Observation
from pinnacle.nn import LAAF, MLP, OutputTransform
from pinnacle.problems import (
    eikonal_inverse,
    kdv_inverse,
    navier_stokes_inverse,
)
from pinnacle.problems._reference import (
    cylinder_wake,
    kdv_reference,
    linear_travel_time,
)


PROBLEMS = {
    "navier-stokes-inverse": navier_stokes_inverse,
    "eikonal-inverse": eikonal_inverse,
    "kdv-inverse": kdv_inverse,
}
# lr, steps, budget, new, every, pool, measurements: a round, in all, candidates;
# hidden layers × width, whether the activation adapts.
SETTINGS = {
    "navier-stokes-inverse": (
        *(1e-3, 100_000, 1000, 200, 1000, (800, 0), 30, 3000, 200),
        *((6, 64), True),
    ),
    "eikonal-inverse": (
        *(1e-3, 100_000, 500, 100, 1000, (800, 0), 5, 500, 200),
        *((8, 32), True),
    ),
    "kdv-inverse": (  # not the paper's
        *(1e-3, 100_000, 300, 100, 1000, (800, 200), 5, 500, 200),
        *((4, 32), False),
    ),
}
# How many outputs of how many are measured, and at how many points.
MEASURED = {
    "navier-stokes-inverse": (2, 3, 71 * 41 * 36),
    "eikonal-inverse": (1, 2, 21**3 - 1),
    "kdv-inverse": (1, 1, 257 * 101),
}


@pytest.fixture(scope="module", params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]()


@pytest.fixture(scope="module")
def solved(problem):
    return problem, problem.solve()


def test_settings(problem):
    *numbers, (depth, width), adaptive = SETTINGS[problem.name]
    assert list(dataclasses.astuple(problem.settings)) == numbers
    network = eqx.filter_eval_shape(problem.network, jr.key(0))
    if isinstance(network, OutputTransform):
        network = network.network
    assert isinstance(network, MLP)
    shapes = [weight.shape for weight in network.weights]
    ends = (width, problem.space.dim), (len(problem.outputs), width)
    assert shapes == [ends[0], *[(width, width)] * (depth - 1), ends[1]]
    assert isinstance(network.activations[0], LAAF) == adaptive


def test_the_experimental_kind(problem):
    kind = problem.space.components[-1]
    measured, outputs, points = MEASURED[problem.name]
    assert (kind.name, kind.group, kind.target) == ("data", "experimental", None)
    assert isinstance(kind.operator, Observation)
    assert kind.operator.outputs == tuple(range(measured))
    assert len(problem.outputs) == outputs
    domain = problem.space.components[0].domain
    assert kind.domain.bounds == domain.bounds
    assert kind.domain.dof == 1
    unit = (jnp.arange(points, dtype=float)[:, None] + 0.5) / points
    x = np.unique(np.asarray(kind.domain.from_unit(unit)), axis=0)
    # Numbers of 32 bits do not tell all of 200 000 rows apart.
    assert 0.8 * points < len(x) <= points


def test_measurements_are_the_solution(solved):
    problem, reference = solved
    (name, oracle), *rest = problem.oracles(reference).items()
    assert (name, rest) == ("data", [])
    measured = MEASURED[problem.name][0]
    kind = problem.space.components[-1]
    row = kind.domain.from_unit(jnp.asarray([[0.4], [0.99]]))
    for x in np.asarray(row):
        label = np.asarray(oracle.measure(x, key=jr.key(0)))
        assert label.shape == (measured,)
        gap = np.linalg.norm(reference.x - x, axis=1)
        if gap.min() < 1e-6:
            here = reference.values[np.argmin(gap), :measured]
            np.testing.assert_allclose(label, here, rtol=1e-6)


def test_the_wakes_table_is_the_data(x64):
    problem = navier_stokes_inverse()
    oracle = problem.oracles(problem.solve())["data"]
    label = oracle.measure(np.array([3.0, -1.0, 2.4]), key=jr.key(0))
    expected = cylinder_wake().at(np.array([2.4]))[40, 20, 0, :2]
    np.testing.assert_allclose(label, expected, atol=1e-12)


def test_a_reference_of_another_grid_is_refused():
    problem = kdv_inverse()
    with pytest.raises(ValueError, match=r"grid of \(33, 11\) points, which is not"):
        problem.oracles(kdv_reference(cells=32, intervals=10))


def test_start_and_metrics(solved):
    problem, reference = solved
    model = problem.model(key=jr.key(0))
    errors = problem.metrics(reference)(model)
    for name, value in problem.true_coefficients.items():
        found = float(errors[f"coefficient_error/{name}"])
        np.testing.assert_allclose(found, abs(model[name] / value - 1), rtol=1e-5)
    assert all(np.isfinite(float(error)) for error in errors.values())
    if len(problem.outputs) > 1:
        assert {f"relative_l2/{name}" for name in problem.outputs} <= set(errors)


def test_starting_values():
    wave, wake = (
        p().model(key=jr.key(0)) for p in (kdv_inverse, navier_stokes_inverse)
    )
    np.testing.assert_allclose(wave["lambda1"], 0.5)
    np.testing.assert_allclose(wave["lambda2"], 0.0025 * np.exp(-1.0), rtol=1e-6)
    assert float(wave.coefficients["lambda2"].raw) == -1
    assert (float(wake["lambda1"]), float(wake["lambda2"])) == (0, 0)
    assert not eikonal_inverse().coefficients


# ------------------------------------------------------------------ known solutions


def largest(problem, model):
    """max |residual| of the equation on random points."""
    pde = problem.space.components[0]
    x = pde.domain.from_unit(jr.uniform(jr.key(1), (30, problem.space.dim)))
    label = jnp.zeros(problem.space.rows)
    rows = jax.jit(jax.vmap(lambda p: pde.residual(model, p, label)))(x)
    return float(jnp.max(jnp.abs(rows)))


@pytest.mark.parametrize(("advection", "viscosity"), [(1.0, 0.01), (2.5, 0.03)])
def test_the_vortices_of_taylor_and_green(x64, advection, viscosity):
    # With λ1 = 1 they are classical; (u, p)/λ1 solves the equations for any λ1.
    def vortices(x):
        decay = jnp.exp(-2 * viscosity * x[2])
        u = jnp.cos(x[0]) * jnp.sin(x[1]) * decay
        v = -jnp.sin(x[0]) * jnp.cos(x[1]) * decay
        p = -(jnp.cos(2 * x[0]) + jnp.cos(2 * x[1])) / 4 * decay**2
        return jnp.stack([u, v, p]) / advection

    problem = navier_stokes_inverse()
    right = {"lambda1": advection, "lambda2": viscosity}
    assert largest(problem, Model(vortices, right)) < 1e-12
    for name in right:
        wrong = right | {name: 2 * right[name]}
        assert largest(problem, Model(vortices, wrong)) > 1e-3


def test_the_travel_time_of_a_linear_speed(x64):
    start, slope = 0.8, jnp.asarray([0.1, 0.2, -0.15])
    norm = jnp.sqrt(jnp.sum(slope**2))

    def solution(x):
        speed = start + slope @ x
        away = jnp.sum(x**2) * norm**2 / (2 * start * speed)
        return jnp.stack([jnp.arccosh(1 + away) / norm, speed])

    x = np.array([[1.0, 0.5, 1.5]])
    np.testing.assert_allclose(
        solution(jnp.asarray(x[0]))[0], linear_travel_time(x)[0], rtol=1e-12
    )
    assert largest(eikonal_inverse(), Model(solution)) < 1e-10
    slower = Model(lambda x: solution(x) * jnp.asarray([1.0, 0.9]))
    np.testing.assert_allclose(largest(eikonal_inverse(), slower), 0.1, rtol=1e-9)


def test_the_soliton_with_its_coefficients(x64):
    c, a, b = 0.3, 1.5, 0.01
    k = np.sqrt(c / b) / 2

    def soliton(x):
        return 3 * c / a / jnp.cosh(k * (x[0] - c * x[1])) ** 2

    problem = kdv_inverse()
    transform = problem.model(key=jr.key(0)).coefficients["lambda2"].transform
    assert transform is not None
    raw = jnp.log(b / 0.0025)
    np.testing.assert_allclose(transform(raw), b)
    assert largest(problem, Model(soliton, {"lambda1": a, "lambda2": b})) < 1e-9
    assert largest(problem, Model(soliton, {"lambda1": 1.0, "lambda2": b})) > 0.1


# ----------------------------------------------------------------- the factored time


def test_the_network_of_the_eikonal_problem():
    u = eikonal_inverse().model(key=jr.key(0))
    at = jax.jit(jax.vmap(u))
    distance = jnp.asarray([0.0, 1e-3, 2e-3, 1.0])
    time, speed = at(jnp.outer(distance, jnp.asarray([1.0, 2.0, 2.0]) / 3)).T
    assert float(time[0]) < 1e-5
    np.testing.assert_allclose(time[2] / time[1], 2, rtol=1e-2)
    assert np.all(time > 0)
    assert np.all(speed > 0)


def test_the_eikonal_residual_is_finite_at_the_source():
    problem = eikonal_inverse()
    pde = problem.space.components[0]
    zero = jnp.zeros(3)

    def loss(model):
        return jnp.sum(pde.residual(model, zero, zero) ** 2)

    value, gradient = eqx.filter_jit(eqx.filter_value_and_grad(loss))(
        problem.model(key=jr.key(0))
    )
    leaves = jax.tree.leaves(eqx.filter(gradient, eqx.is_array))
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves)
