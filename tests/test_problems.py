"""The forward problems: shapes, settings, and their operators on known solutions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from pinnacle import CandidatePool, Dirichlet, Model, Periodic, Uniform
from pinnacle.nn import LAAF, MLP, OutputTransform
from pinnacle.problems import (
    Sine,
    advection,
    advection_timing,
    burgers,
    diffusion,
    kdv,
    predict,
)


PROBLEMS = {
    "advection": advection,
    "advection-timing": advection_timing,
    "burgers": burgers,
    "diffusion": diffusion,
    "kdv": kdv,
}
# name: lr, steps, budget, new, every, pool; hidden layers × width.
PAPER = {
    "advection": (1e-4, 200_000, 1000, 200, 5000, (2000, 500), (8, 128)),
    "advection-timing": (1e-4, 200_000, 1000, 200, 5000, (2000, 500), (6, 64)),
    "burgers": (1e-4, 200_000, 300, 100, 5000, (800, 200), (4, 128)),
    "diffusion": (1e-3, 30_000, 100, 50, 1000, (800, 0), (2, 32)),
    "kdv": (1e-3, 100_000, 300, 100, 5000, (800, 200), (4, 32)),
}
# lower and upper corners in (x, t)
DOMAINS = {
    "advection": ((0, 0), (1, 2)),
    "advection-timing": ((0, 0), (1, 2)),
    "burgers": ((0, 0), (1, 2)),
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
    assert problem.name == name
    network = eqx.filter_eval_shape(problem.network, jr.key(0))
    if name == "diffusion":
        assert isinstance(network, OutputTransform)
        network = network.network
    assert isinstance(network, MLP)
    shapes = [weight.shape for weight in network.weights]
    assert shapes == [(width, 2)] + [(width, width)] * (depth - 1) + [(1, width)]
    assert isinstance(network.activations[0], LAAF) == (name == "advection-timing")


@pytest.mark.parametrize("name", PROBLEMS)
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
    assert eqx.filter_eval_shape(u, jnp.zeros(2)).shape == (len(problem.outputs),)
    for component in problem.space.components:
        rows = eqx.filter_eval_shape(component.residual, u, jnp.zeros(2), jnp.zeros(1))
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
