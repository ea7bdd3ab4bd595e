"""The generalisation bound: Rademacher complexity, constants, stability."""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from theory_cases import N, decays, draw_linear, laws, seeds

from pinnacle import Model, derivatives, theory


@pytest.fixture(autouse=True, scope="module")
def float64(quick_compile):
    with jax.enable_x64(True):
        yield


SIGNS = np.array(list(itertools.product([-1.0, 1.0], repeat=N)))


@jax.jit
def _complexities(J, R, times):
    theta = theory.kernel(J)
    B = theory.movement_limit(theta, R)
    line = theory.gradient_flow(theta, R, times)
    key = jax.random.key(0)
    return {
        "movement": B,
        "residuals": line.residual,
        "ball": theory.rademacher_ball(J, B, 4000, key=key),
        "trajectory": theory.rademacher_trajectory(line.residual, 4000, key=key),
        "trace": theory.rademacher_trace_bound(theta, B),
        "bound": theory.rademacher_bound(theory.gradient_bound(J), N, B),
    }


TIMES = np.concatenate([[0.0], np.logspace(-2, 4, 30)])


@laws
@given(seeds, decays)
def test_rademacher_bounds(seed, decay):
    """trajectory ≤ ball ≤ B√tr Θ/N ≤ ρB/√N, the ball within √2 of the second; the
    estimates agree with the mean over all 2⁸ sign vectors."""
    J, _, R, _ = draw_linear(seed, decay)
    out = _complexities(J, R, jnp.asarray(TIMES))
    J, B = np.asarray(J), float(out["movement"])
    ball = B / N * np.mean(np.linalg.norm(SIGNS @ J, axis=1))
    moves = np.asarray(out["residuals"]) - np.asarray(R)
    trajectory = np.mean(np.max(SIGNS @ moves.T, axis=1)) / N
    np.testing.assert_allclose(out["ball"], ball, rtol=0.05)
    np.testing.assert_allclose(out["trajectory"], trajectory, rtol=0.1)
    trace = B * math.sqrt(np.trace(J @ J.T)) / N
    np.testing.assert_allclose(out["trace"], trace, rtol=1e-10)
    rho = np.max(np.linalg.norm(J, axis=1))
    np.testing.assert_allclose(out["bound"], rho * B / math.sqrt(N), rtol=1e-10)
    ordered = np.array([trajectory, ball, trace, out["bound"]])
    assert (ordered[:-1] <= ordered[1:] * (1 + 1e-12)).all()
    assert ball >= trace / math.sqrt(2)


def test_rademacher_bound_is_attained():
    """Θ = ρ²𝟙: the ball's complexity is ρB/√N exactly, for every sign vector."""
    J = 0.7 * jnp.eye(N)
    ball = theory.rademacher_ball(J, 3.0, 8, key=jax.random.key(0))
    np.testing.assert_allclose(ball, theory.rademacher_bound(0.7, N, 3.0), rtol=1e-12)


def test_printed_rademacher_bound_fails():
    """Θ = ρ²𝟙 and R_0 = (1, …, 1): the trajectory {(1 − e^{−t})R_0} has complexity
    E max(0, −Σε)/N ≈ 0.4/√N, the paper's bound is ρ·(√N/ρ)/N^{3/2} = 1/N."""
    n, rho = 64, 0.7
    residuals = jnp.exp(-jnp.asarray(TIMES))[:, None] * jnp.ones((1, n))
    key = jax.random.key(0)
    complexity = theory.rademacher_trajectory(residuals, 4000, key=key)
    movement = math.sqrt(n) / rho
    printed = theory.rademacher_bound(rho, n, movement, printed=True)
    np.testing.assert_allclose(printed, 1 / n)
    assert complexity > 3 * printed
    assert complexity <= theory.rademacher_bound(rho, n, movement)


def draw_cells(seed, n, cells, residual=None, uneven=True):
    """A linear model on 𝒵 = [0, 1] × {s, p}, 𝒩[u] = u, with one feature a cell.

    J(z) = ρ_j e_j in cell j, R_0(z) = R_j; Θ is diagonal, the trained residual is 0 in
    the cells of S and R_0 elsewhere. Points are drawn with density p_j/2 on each sheet.
    Everything in the bound is known in closed form.
    """
    rng = np.random.default_rng(seed)
    rho = rng.uniform(0.5, 1, cells) if uneven else np.ones(cells)
    R0 = rng.uniform(-1, 1, cells) if residual is None else np.full(cells, residual)
    density = np.ones(cells)
    if uneven:
        density = rng.uniform(0.5, 1.5, cells)
        density /= density.mean()
    S = rng.choice(cells, n, p=density / cells)
    values = np.where(np.bincount(S, minlength=cells)[S] > 1, 0, rho[S] ** 2)
    R_end = np.where(np.isin(np.arange(cells), S), 0, R0)
    return {
        "error": np.mean(np.abs(R_end)),
        "in domain": np.mean(np.abs(R_end) * density),
        "alpha": np.sum(rho[S] ** 2 * R0[S] ** 2),
        "rho": rho.max(),
        "range": (values.min(), values.max()),
        "size": np.linalg.norm(R0[S]),
        # p(z) on a sheet of 𝒵 is half the density over the cells.
        "s": float(theory.low_density_measure(jnp.asarray(density / 2))),
    }


def bound_of(case, n, delta=0.05, **changes):
    arguments: dict[str, Any] = dict(
        points=n,
        rho=case["rho"],
        largest=case["range"][1],
        smallest=case["range"][0],
        residual_norm=case["size"],
        stability=1.0,
        delta=delta,
        low_density=case["s"],
        slope=0.0,
    )
    constants = theory.generalisation_constants(**(arguments | changes))
    alpha = case["alpha"]
    whole = theory.generalisation_bound(constants, jnp.zeros(n), alpha)
    part = theory.in_domain_bound(constants, jnp.zeros(n), alpha, case["s"])
    return float(whole), float(part)


@laws
@given(seeds, st.integers(1, 30))
def test_generalisation_bound(seed, n):
    """The theorem and its lemma on linear models with everything known."""
    case = draw_cells(seed, n, 4096)
    whole, part = bound_of(case, n)
    assert case["error"] <= whole
    assert case["in domain"] <= part
    # The general constants only add to those of a linear model.
    assert bound_of(case, n, slope=None, remainder=0.1)[0] >= whole


def test_generalisation_bound_is_within_a_factor_of_ten():
    """R_0 = 1 everywhere, 400 of a million cells seen: the error stays near 1."""
    seeds = (seed for seed in range(20))
    cases = (draw_cells(s, 400, 2**20, residual=1.0, uneven=False) for s in seeds)
    case = next(c for c in cases if c["range"][0] > 0)
    whole, part = bound_of(case, 400)
    assert case["error"] <= whole < 5 * case["error"]
    assert case["in domain"] <= part < 3 * case["in domain"]


def test_constants():
    """Against the formulas, printed and corrected."""
    given_: dict[str, Any] = dict(
        points=16,
        rho=2.0,
        largest=9.0,
        smallest=1.0,
        residual_norm=3.0,
        stability=1.5,
        delta=0.1,
        low_density=0.25,
        remainder=0.2,
    )
    c = theory.generalisation_constants(**given_)
    np.testing.assert_allclose(c.c1, 2 / 16)
    np.testing.assert_allclose(c.c2, 4 * 3 * (2 / 4 + 2.5 * 2) * 9)
    chance = 6 * math.sqrt(math.log(20) / 32)
    np.testing.assert_allclose(c.c3, 4 * 1.5 * 0.2 + chance + 0.5)
    printed = theory.generalisation_constants(**given_, printed=True)
    np.testing.assert_allclose(printed.c2, 4 * 2 * 3 * (1 / 64 + 2.5 * 3))
    bound = theory.generalisation_bound(c, jnp.asarray([0.5, -0.5]), 4.0)
    np.testing.assert_allclose(bound, 2 / 16 + c.c2 / 2 + c.c3)
    low = theory.generalisation_constants(**dict(given_, stability=0.3))
    at_one = theory.generalisation_constants(**dict(given_, stability=1.0))
    np.testing.assert_array_equal(low.c3, at_one.c3)


def test_violated_assumptions():
    case = draw_cells(0, 8, 4096)
    assert bound_of(case, 8, smallest=0.0)[0] == math.inf
    assert math.isnan(bound_of(case, 8, delta=0.0)[0])
    assert math.isnan(bound_of(case, 8, delta=1.0)[0])
    assert bound_of(case | {"alpha": 0.0}, 8)[0] == math.inf


@laws
@given(st.floats(-1, 1), st.floats(0.3, 1.0), st.floats(1.0, 4.0))
def test_linearisation_bound(target, rho, stability):
    """û_θ = sin(ρθ) and 𝒩[u] = C u, which is stable point by point."""
    trained = math.asin(target) / rho
    # The linearised network moves to ρθ = target, hence B = |target|/ρ.
    gap = stability * abs(math.sin(rho * trained) - rho * trained)
    remainder = abs(rho * trained - math.sin(rho * trained))
    bound = theory.linearisation_bound(
        rho * stability, abs(target) / rho, stability, remainder
    )
    assert gap <= bound + 1e-12


def test_linearisation_bound_is_within_a_factor_of_ten():
    """û_θ = sin θ trained to 1, 𝒩[u] = u; û^lin and û agree in the end."""
    bound = theory.linearisation_bound(1.0, 1.0, 1.0, 0.0)
    gap = math.pi / 2 - 1
    assert gap <= bound < 4 * gap
    np.testing.assert_allclose(theory.linearisation_bound(2.0, 3.0, 1.5, 0.2), 15.3)


def test_estimates_from_samples():
    rng = np.random.default_rng(0)
    J = rng.normal(size=(5, 6, 9))
    kernels = jnp.asarray(J @ J.transpose(0, 2, 1))
    low, high = theory.eigenvalue_range(kernels)
    values = np.linalg.svd(J, compute_uv=False) ** 2
    np.testing.assert_allclose([low, high], [values.min(), values.max()], rtol=1e-9)
    density = jnp.asarray([0.2, 0.49, 0.5, 0.9])
    assert theory.low_density_measure(density) == 0.5


MODES = np.array(list(itertools.product(range(-4, 5), repeat=2)))  # (k_x, k_t)


def symbol(operator, speed):
    k_x, k_t = MODES[:, 0], MODES[:, 1]
    if operator == "advection":
        return jnp.asarray(1j * (k_t + speed * k_x))
    return jnp.asarray(1j * k_t + k_x**2 + 0.0)


@pytest.mark.parametrize("operator", ["advection", "diffusion"])
def test_stability_constant(operator):
    """Against norms by quadrature of u and 𝒩[u], the latter by differentiation."""
    speed, s = 2.0, 1 if operator == "advection" else 2
    waves = jnp.asarray(MODES, jnp.float64)
    sigma = symbol(operator, speed)
    constant = float(theory.stability_constant(sigma, waves, s))
    sup = math.sqrt(1 + speed**2) if operator == "advection" else 1.0
    assert constant <= sup + 1e-12
    grid = 2 * jnp.pi * jnp.arange(18) / 18
    points = jnp.stack(jnp.meshgrid(grid, grid), -1).reshape(-1, 2)

    @jax.jit
    def ratio(a, b):
        def u(x):
            phase = waves @ x
            return jnp.atleast_1d(jnp.cos(phase) @ a + jnp.sin(phase) @ b)

        def N(x):
            u_t, u_x, u_xx = derivatives(Model(u), x, (1,), (0,), (0, 0))
            return u_t + speed * u_x if operator == "advection" else u_t - u_xx

        # û_k of the real function, both signs of k.
        c = (a - 1j * b) / 2 + (a + 1j * b)[::-1] / 2
        size = jnp.sqrt(jnp.sum((1 + jnp.sum(waves**2, 1)) ** s * jnp.abs(c) ** 2))
        return jnp.sqrt(jnp.mean(jax.vmap(N)(points) ** 2)) / size

    rng = np.random.default_rng(0)
    drawn = [float(ratio(*jnp.asarray(rng.normal(size=(2, 81))))) for _ in range(10)]
    assert max(drawn) <= constant
    best = int(jnp.argmax(jnp.abs(sigma) / (1 + jnp.sum(waves**2, 1)) ** (s / 2)))
    a = jnp.zeros(81).at[best].set(1.0)
    attained = float(ratio(a, 0 * a))
    np.testing.assert_allclose(max(attained, 1.0), constant, rtol=1e-9)
    assert attained > 0.9 * constant


def test_stability_constant_in_the_plain_norm_grows_with_the_modes():
    sigma, waves = symbol("advection", 1.0), jnp.asarray(MODES, jnp.float64)
    assert theory.stability_constant(sigma, waves, 0) == 8
    assert theory.stability_constant(0 * sigma, waves, 0) == 1


@laws
@given(seeds, st.floats(0.0, 2.0))
def test_rademacher_of_the_real_network(seed, size):
    """R̂_S(𝒰) ≤ R̂_S(𝒰^lin) + sup|F[û_t] − F^lin[û_t]| (lemma `lemma:rademacher`)."""
    rng = np.random.default_rng(seed)
    linear = np.cumsum(rng.normal(size=(31, N)), axis=0)
    gap = size * rng.uniform(-1, 1, size=(31, N))
    gap[0] = 0  # both start at F[û_0]
    key = jax.random.key(seed % 1000)
    real, line = (
        _trajectory(jnp.asarray(values), key) for values in (linear + gap, linear)
    )
    assert real <= line + np.max(np.abs(gap)) + 1e-12


@jax.jit
def _trajectory(values, key):
    return theory.rademacher_trajectory(values, 500, key=key)


def test_the_bound_for_the_real_network_is_attained():
    """gap = ±1 with all sign patterns at some time: the complexity is the gap."""
    gap = np.concatenate([np.zeros((1, N)), SIGNS])
    out = theory.rademacher_trajectory(jnp.asarray(gap), 50, key=jax.random.key(0))
    np.testing.assert_allclose(out, 1.0)
