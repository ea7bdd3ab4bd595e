"""Reference solutions against their equations, by means that they do not use."""

import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from pinnacle.problems._initial_conditions import (
    ADVECTION_SEED,
    BURGERS_SEED,
    PDEBenchInitial,
    Sine,
    pdebench_initial,
)
from pinnacle.problems._reference import (
    Reference,
    advection_reference,
    burgers_reference,
    diffusion_reference,
    diffusion_source,
    kdv_reference,
    max_error,
    mse,
    relative_l2,
)


OPTIMISED = True  # long integrations


# Central difference of order 8 for a first derivative.
STENCIL = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0, 4 / 5, -1 / 5, 4 / 105])
STENCIL = np.append(STENCIL, -1 / 280)
NU = 0.02 / np.pi


def table(reference):
    """u without the repeated right end, shape (cells, times)."""
    return np.asarray(reference.on_grid(reference.values))[:-1, :, 0]


def d_t(u, t):
    """∂u/∂t at all but the first and last four times."""
    n = t.size - 8
    terms = [c * u[:, i : i + n] for i, c in enumerate(STENCIL)]
    return np.sum(terms, axis=0) / (t[1] - t[0])


def d_x(u, x, order):
    """Spectral derivative along the first axis, of period `x[-1] - x[0]`."""
    k = 2j * np.pi * np.fft.rfftfreq(len(u), (x[1] - x[0]))[:, None]
    return np.fft.irfft(k**order * np.fft.rfft(u, axis=0), len(u), axis=0)


def residual(reference, *terms):
    """max|u_t + Σ terms| / max|u_t|; each term is a function of (u, x)."""
    (x, t), u = reference.axes, table(reference)
    u_t = d_t(u, t)
    rest = np.sum([term(u, x) for term in terms], axis=0)[:, 4:-4]
    return np.max(np.abs(u_t + rest)) / np.max(np.abs(u_t))


def change(coarse, fine):
    return np.linalg.norm(coarse.values - fine.values) / np.linalg.norm(fine.values)


def burgers_initial():
    return pdebench_initial(key=jr.key(BURGERS_SEED), variants=False)


@pytest.fixture(scope="module")
def burgers():
    return burgers_reference(burgers_initial(), intervals=400)


@pytest.fixture(scope="module")
def kdv():
    return kdv_reference(intervals=800)


# --- Initial conditions -----------------------------------------------------------


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("windowed", [False, True])
def test_pdebench_formula(x64, absolute, windowed):
    u0 = PDEBenchInitial(
        amplitude=[0.3, 0.8],
        wavenumber=[2.0, 5.0],
        phase=[0.4, 3.0],
        offset=0.25,
        sign=-1.0,
        absolute=absolute,
        windowed=windowed,
        window=[0.2, 0.7],
        length=3.0,
    )
    x = np.linspace(0, 3, 50)
    u = 0.3 * np.sin(4 * np.pi * x / 3 + 0.4) + 0.8 * np.sin(10 * np.pi * x / 3 + 3)
    u = np.abs(u + 0.25) if absolute else u + 0.25
    if windowed:
        u *= 0.5 * (np.tanh((x / 3 - 0.2) / 0.01) - np.tanh((x / 3 - 0.7) / 0.01))
    np.testing.assert_allclose(u0(x), -u, rtol=1e-13, atol=1e-13)
    assert u0(1.0).shape == ()


def test_pdebench_distribution():
    draw = jax.jit(jax.vmap(lambda key: pdebench_initial(key=key)))
    draws = draw(jr.split(jr.key(0), 4000))
    counts = np.bincount(np.asarray(draws.wavenumber, int).ravel(), minlength=9)
    assert counts[0] == 0
    assert counts.size == 9
    # Five standard deviations of a binomial count of mean 1000.
    np.testing.assert_allclose(counts[1:], 1000, atol=5 * np.sqrt(1000 * 7 / 8))
    assert draws.amplitude.min() >= 0
    assert draws.amplitude.max() <= 1
    np.testing.assert_allclose(draws.amplitude.mean(), 0.5, atol=5 / np.sqrt(12 * 8000))
    np.testing.assert_allclose(
        draws.phase.mean(), np.pi, atol=5 * 2 * np.pi / np.sqrt(12 * 8000)
    )
    for flag, probability in [
        (draws.absolute, 0.1),
        (draws.windowed, 0.1),
        (draws.sign > 0, 0.5),
    ]:
        spread = np.sqrt(probability * (1 - probability) / 4000)
        np.testing.assert_allclose(flag.mean(), probability, atol=5 * spread)
    low, high = draws.window.T
    assert (low.min() >= 0.1) & (low.max() <= 0.45)
    assert (high.min() >= 0.55) & (high.max() <= 0.9)
    np.testing.assert_array_equal(draws.offset, 0)


def test_pdebench_offset_is_the_mean():
    x = np.arange(64) / 64
    for seed in range(4):
        options = {"key": jr.key(seed), "variants": False}
        plain, shifted = (
            pdebench_initial(**options),
            pdebench_initial(**options, offset=True),
        )
        np.testing.assert_allclose(plain(x).mean(), 0, atol=1e-6)
        np.testing.assert_allclose(
            shifted(x).mean(), shifted.sign * shifted.offset, atol=1e-6
        )
        assert shifted.offset != 0


def test_pdebench_without_variants_is_otherwise_the_same():
    seeds = [s for s in range(40) if pdebench_initial(key=jr.key(s)).absolute]
    rough = pdebench_initial(key=jr.key(seeds[0]))
    smooth = pdebench_initial(key=jr.key(seeds[0]), variants=False)
    assert not smooth.absolute
    np.testing.assert_array_equal(rough.amplitude, smooth.amplitude)
    x = np.linspace(0, 1, 30)
    if not rough.windowed:
        np.testing.assert_allclose(rough(x), rough.sign * np.abs(smooth(x)), rtol=1e-6)


@pytest.mark.parametrize("seed", [ADVECTION_SEED, BURGERS_SEED])
def test_key_names_the_same_function_in_both_precisions(seed):
    def draw(wide):
        with jax.enable_x64(wide):
            u0 = pdebench_initial(key=jr.key(seed), offset=True)
            return [np.asarray(leaf) for leaf in jax.tree.leaves(u0)]

    for narrow, wide in zip(draw(False), draw(True), strict=True):
        np.testing.assert_array_equal(narrow, wide)


@pytest.mark.parametrize("u0", [Sine(0.5, 3, 0.7, length=2.0), burgers_initial()])
def test_initial_conditions_follow_the_input(both_precisions, u0):
    dtype = jnp.float64 if both_precisions else jnp.float32
    x = jnp.linspace(0, u0.length, 12).reshape(3, 4)
    assert u0(x).dtype == dtype
    assert not u0(x).weak_type
    rounding = 50 * np.finfo(dtype).eps
    np.testing.assert_allclose(u0(x), u0(x + u0.length), atol=3 * rounding)
    each = jax.jit(jax.vmap(lambda x: u0(x)))(x.ravel())
    np.testing.assert_allclose(each, u0(x).ravel(), atol=rounding)


def test_sine():
    x = np.linspace(0, 2, 9, dtype=np.float32)
    expected = 0.5 * np.sin(3 * np.pi * x + 0.7)
    np.testing.assert_allclose(Sine(0.5, 3, 0.7, length=2.0)(x), expected, atol=2e-6)


# --- The record and the metrics ----------------------------------------------------


def test_reference_rows_and_grid():
    x, t = np.arange(3.0), np.arange(4.0)
    values = 10 * x[:, None] + t
    reference = Reference((x, t), np.stack([values, -values], -1))
    assert reference.shape == (3, 4)
    np.testing.assert_array_equal(
        reference.values[:, 0], 10 * reference.x[:, 0] + reference.x[:, 1]
    )
    np.testing.assert_array_equal(
        reference.on_grid(reference.values)[2, 1], [21.0, -21.0]
    )


def test_reference_refuses_values_off_the_grid():
    with pytest.raises(ValueError, match=r"`values` must have shape \(3, 4, 'outputs'"):
        Reference((np.arange(3.0), np.arange(4.0)), np.zeros((4, 3, 1)))


def test_metrics(both_precisions):
    rng = np.random.default_rng(0)
    p, r = rng.normal(size=(2, 20, 2))
    rtol = 1e-12 if both_precisions else 1e-5
    np.testing.assert_allclose(mse(p, r), np.mean((p - r) ** 2), rtol=rtol)
    expected = np.linalg.norm(p - r) / np.linalg.norm(r)
    np.testing.assert_allclose(relative_l2(p, r), expected, rtol=rtol)
    np.testing.assert_allclose(max_error(p, r), np.max(np.abs(p - r)), rtol=rtol)


# --- Advection ---------------------------------------------------------------------


@pytest.mark.parametrize("speed", [1.0, 5.0, -2.0])
def test_advection_solves_its_equation_and_not_the_printed_one(speed):
    u0 = pdebench_initial(key=jr.key(ADVECTION_SEED), variants=False)
    reference = advection_reference(u0, speed=speed, duration=0.4, intervals=400)
    transport = lambda sign: lambda u, x: sign * speed * d_x(u, x, 1)  # noqa: E731
    assert residual(reference, transport(1)) < 1e-7
    assert residual(reference, transport(-1)) > 1


def test_advection_against_the_upwind_scheme():
    # At Courant number 1 the upwind scheme moves the values by one cell a step.
    u0 = Sine()
    reference = advection_reference(u0, speed=5.0, cells=100, intervals=1000)
    u = table(reference)
    np.testing.assert_allclose(u[:, 1:], np.roll(u, 1, axis=0)[:, :-1], atol=1e-12)


def test_advection_with_a_windowed_initial_condition_and_length():
    u0 = pdebench_initial(key=jr.key(0), length=2.0)
    u0 = PDEBenchInitial(
        **{**vars(u0), "windowed": jnp.asarray(True), "absolute": jnp.asarray(True)}
    )
    reference = advection_reference(u0, speed=0.5, length=2.0, duration=4.0)
    u = reference.on_grid(reference.values)[..., 0]
    with jax.enable_x64(True):
        np.testing.assert_allclose(u[:, 0], u0(reference.axes[0]), atol=1e-9)
    np.testing.assert_array_equal(u[0], u[-1])
    # After one period everything is back, after half of it it has moved by 1.
    np.testing.assert_allclose(u[:, -1], u[:, 0], atol=1e-12)
    np.testing.assert_allclose(np.roll(u[:-1, 50], -128), u[:-1, 0], atol=1e-12)


# --- Diffusion ---------------------------------------------------------------------


def test_diffusion_solves_its_equation_and_not_the_printed_one():
    reference = diffusion_reference(intervals=600)
    x, t = reference.axes
    with jax.enable_x64(True):
        grid = jnp.meshgrid(jnp.asarray(x[:-1]), jnp.asarray(t), indexing="ij")
        right = np.asarray(diffusion_source(*grid))
    printed = right * (2 - 4 * np.pi**2) / (2 - 16 * np.pi**2)
    minus_u_xx = lambda u, x: -d_x(u, x, 2)  # noqa: E731
    scale = np.max(np.abs(right))
    assert residual(reference, minus_u_xx, lambda u, x: -right) < 1e-10 * scale
    assert residual(reference, minus_u_xx, lambda u, x: -printed) > 0.3 * scale


def test_diffusion_initial_and_boundary_values():
    reference = diffusion_reference()
    x, t = reference.axes
    u = reference.on_grid(reference.values)[..., 0]
    assert (x[0], x[-1], t[0], t[-1]) == (-1, 1, 0, 3)
    np.testing.assert_allclose(u[:, 0], np.sin(4 * np.pi * x), rtol=1e-14)
    np.testing.assert_allclose(u[[0, -1]], 0, atol=1e-14)


# --- Burgers -----------------------------------------------------------------------


def burgers_terms(nu):
    return (
        lambda u, x: d_x(u**2 / 2, x, 1),
        lambda u, x: -nu * d_x(u, x, 2),
    )


def test_burgers_solves_its_equation_and_not_the_printed_one(burgers):
    assert residual(burgers, *burgers_terms(NU)) < 1e-5
    assert residual(burgers, *burgers_terms(0.02)) > 0.1


def test_burgers_initial_and_boundary_values(burgers):
    x, t = burgers.axes
    u = burgers.on_grid(burgers.values)[..., 0]
    assert (x[0], x[-1], t[0], t[-1]) == (0, 1, 0, 2)
    with jax.enable_x64(True):
        np.testing.assert_allclose(u[:, 0], burgers_initial()(x), atol=1e-13)
    np.testing.assert_array_equal(u[0], u[-1])
    # Mass is conserved; the maximum principle holds.
    np.testing.assert_allclose(u[:-1].mean(0), u[:-1, 0].mean(), atol=1e-14)
    assert np.all(np.diff(u.max(0)) < 1e-12)


def cole_hopf(initial, x, t):
    """∫ (x−y)/t e^{−S} dy / ∫ e^{−S} dy, S(y) = (x−y)²/(4νt) + ∫₀^y u0 / (2ν)."""
    amplitude, n, phase = (
        np.asarray(v, np.float64)[:, None]
        for v in (initial.amplitude, initial.wavenumber, initial.phase)
    )
    y = x + np.linspace(-4, 4, 100_001)
    primitive = -amplitude * np.cos(2 * np.pi * n * y + phase) / (2 * np.pi * n)
    primitive = float(initial.sign) * primitive.sum(0)
    exponent = -((x - y) ** 2) / (4 * NU * t) - primitive / (2 * NU)
    weight = np.exp(exponent - exponent.max())
    return np.sum((x - y) / t * weight) / np.sum(weight)


@pytest.mark.parametrize("index", [2, 40, 160, 400])
def test_burgers_against_cole_hopf(burgers, index):
    x, t = burgers.axes
    u = burgers.on_grid(burgers.values)[..., 0]
    rows = range(0, 257, 16)
    exact = [cole_hopf(burgers_initial(), x[i], t[index]) for i in rows]
    np.testing.assert_allclose(u[rows, index], exact, atol=1e-10)


def test_burgers_is_resolved():
    # Modes 4 and 3 with amplitudes 0.7 and 0.8: slopes reach 100.
    steep = pdebench_initial(key=jr.key(7), variants=False)
    options = {"duration": 0.3, "intervals": 15}
    # The default is 20 steps.
    coarse = burgers_reference(steep, **options)
    fine = burgers_reference(steep, **options, steps=40, resolution=1024)
    assert change(coarse, fine) < 1e-7


# --- KdV ---------------------------------------------------------------------------


def kdv_terms(convection, dispersion):
    return (
        lambda u, x: convection * u * d_x(u, x, 1),
        lambda u, x: dispersion * d_x(u, x, 3),
    )


def test_kdv_solves_its_equation(kdv):
    assert residual(kdv, *kdv_terms(1.0, 0.0025)) < 1e-5
    assert residual(kdv, *kdv_terms(1.0, -0.0025)) > 0.1
    assert residual(kdv, *kdv_terms(6.0, 0.0025)) > 0.1


def test_kdv_initial_and_boundary_values(kdv):
    x, t = kdv.axes
    u = kdv.on_grid(kdv.values)[..., 0]
    assert (x[0], x[-1], t[0], t[-1]) == (-1, 1, 0, 1)
    np.testing.assert_allclose(u[:, 0], np.cos(np.pi * x), atol=1e-13)
    np.testing.assert_array_equal(u[0], u[-1])


def test_kdv_conserves_mass_momentum_and_energy(kdv):
    u = table(kdv)
    energy = 0.0025 / 2 * d_x(u, kdv.axes[0], 1) ** 2 - u**3 / 6
    np.testing.assert_allclose(u.mean(0), 0, atol=1e-14)
    np.testing.assert_allclose((u**2).mean(0), 0.5, rtol=1e-8)
    np.testing.assert_allclose(energy.mean(0), energy[:, 0].mean(), rtol=1e-8)


def soliton(x, t, kappa=12.0, dispersion=0.0025):
    """12 λ2 κ² sech²(κ(x − 4 λ2 κ² t)), its tails summed over the neighbours."""
    x = x - 4 * dispersion * kappa**2 * t
    images = [1 / jnp.cosh(kappa * (x + shift)) ** 2 for shift in (-2, 0, 2, 4)]
    return 12 * dispersion * kappa**2 * jnp.sum(jnp.stack(images), axis=0)


def test_kdv_moves_a_soliton_through_the_boundary():
    reference = kdv_reference(lambda x: soliton(x, 0.0), intervals=10)
    x, t = reference.axes
    with jax.enable_x64(True):
        exact = np.stack([soliton(x, time) for time in t], 1)
    # The images interact by about e^{-24}.
    np.testing.assert_allclose(
        reference.on_grid(reference.values)[..., 0], exact, atol=1e-7
    )


def test_kdv_is_resolved():
    # The default is 120 steps.
    coarse = kdv_reference(intervals=10)
    fine = kdv_reference(intervals=10, resolution=512, steps=240)
    assert change(coarse, fine) < 1e-7


# --- Behaviour ---------------------------------------------------------------------


SMALL = {"cells": 32, "intervals": 2, "resolution": 64, "duration": 0.1}


@pytest.mark.parametrize(
    "compute",
    [
        lambda: burgers_reference(Sine(), **SMALL),
        lambda: kdv_reference(**SMALL),
        lambda: advection_reference(burgers_initial(), speed=1.0),
    ],
    ids=["burgers", "kdv", "advection"],
)
def test_same_numbers_in_either_precision(compute):
    results = []
    for wide in (False, True):
        with jax.enable_x64(wide):
            results.append(compute())
            assert jnp.ones(3).dtype == (jnp.float64 if wide else jnp.float32)
    narrow, wide = results
    assert narrow.values.dtype == narrow.x.dtype == np.float64
    assert isinstance(narrow.values, np.ndarray)
    np.testing.assert_array_equal(narrow.values, wide.values)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: advection_reference(Sine(), speed=1.0, length=0.0), "length"),
        (lambda: advection_reference(Sine(), speed=1.0, cells=0), "cells"),
        (lambda: diffusion_reference(duration=-1.0), "duration"),
        (lambda: burgers_reference(Sine(), viscosity=0.0), "viscosity"),
        (lambda: burgers_reference(Sine(), steps=0), "steps"),
        (lambda: kdv_reference(intervals=0), "intervals"),
        (lambda: kdv_reference(resolution=0), "resolution"),
        (lambda: Sine(length=-1.0), "length"),
        (lambda: pdebench_initial(key=jr.key(0), length=0.0), "length"),
    ],
)
def test_sizes_must_be_positive(call, name):
    with pytest.raises(ValueError, match=f"`{name}` must be positive"):
        call()


def test_initial_must_be_elementwise():
    with pytest.raises(ValueError, match="`initial` must act elementwise"):
        burgers_reference(lambda x: jnp.sum(x))


def test_unstable_result_is_refused():
    with pytest.raises(ValueError, match="give more `steps`"):
        kdv_reference(lambda x: 1e6 * jnp.sin(jnp.pi * x), **SMALL, steps=2)


def test_missing_solver_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "diffrax", None)
    with pytest.raises(ImportError, match=r"pip install 'pinnacle-pinn\[cli\]'"):
        kdv_reference(**SMALL)
