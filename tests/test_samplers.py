"""Samplers: a table of samplers crossed with the laws that hold on all."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats
from scipy.stats import qmc

from pinnacle._sampler import (
    AbstractSampler,
    Grid,
    Halton,
    Hammersley,
    LatinHypercube,
    Sobol,
    Uniform,
)
from pinnacle._sampler._unit import below_one, fraction
from pinnacle._sampler.grid import cells_per_axis
from pinnacle._sampler.halton import PRIMES, places, radical_inverse
from pinnacle._sampler.hammersley import hammersley
from pinnacle._sampler.latin_hypercube import largest_correlation
from pinnacle._sampler.sobol import MOST, direction_numbers, sobol_bits
from pinnacle.testing import check_sampler


SAMPLERS = {
    "uniform": Uniform(),
    "sobol": Sobol(),
    "halton": Halton(),
    "hammersley": Hammersley(),
    "lhs": LatinHypercube(),
    "lhs-plain": LatinHypercube(tries=1),
    "grid": Grid(),
    "grid-jitter": Grid(jitter=True),
}
LOW_DISCREPANCY = ("sobol", "halton", "hammersley", "lhs")
SIZES = [(0, 2), (1, 1), (1, 3), (2, 2), (7, 2), (64, 2), (100, 6), (33, 1), (5, 0)]


@pytest.fixture(params=SAMPLERS)
def sampler(request):
    return SAMPLERS[request.param]


def many(sampler, n, dim, count, seed=0):
    """`count` samples under as many keys, in one call; drawn once for all tests."""
    precision = jnp.result_type(float)
    return _many(sampler, n, dim, count, seed, precision)


@functools.cache
def _many(sampler, n, dim, count, seed, precision):
    keys = jax.random.split(jax.random.key(seed), count)
    draws = np.array(jax.jit(jax.vmap(lambda k: sampler.unit(n, dim, key=k)))(keys))
    assert draws.dtype == precision
    draws.flags.writeable = False
    return draws


def test_laws(sampler):
    check_sampler(sampler, sizes=SIZES)


class Broken(AbstractSampler):
    """Shifts, or adds a point."""

    shift: float
    more: int = 0

    def unit(self, n, dim, *, key):
        return Uniform().unit(n + self.more, dim, key=key) + self.shift


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (Broken(0.9), "outside of"),
        (Broken(0.0, more=1), r"0 points of 2 coordinates, it gave shape \(1, 2\)"),
    ],
)
def test_the_laws_catch_what_is_wrong(sampler, message):
    with pytest.raises(AssertionError, match=message):
        check_sampler(sampler)


def test_the_dtype_is_the_default(sampler, both_precisions):
    unit = jax.eval_shape(lambda key: sampler.unit(6, 2, key=key), jax.random.key(0))
    assert unit.dtype == (jnp.float64 if both_precisions else jnp.float32)
    assert not unit.weak_type


def test_the_key_decides(sampler):
    draw = jax.jit(lambda key: sampler.unit(64, 2, key=key))
    first, again, other = (draw(jax.random.key(k)) for k in (0, 0, 1))
    assert np.asarray(first).tobytes() == np.asarray(again).tobytes()
    assert (first != other).any()
    eager = sampler.unit(64, 2, key=jax.random.key(0))
    np.testing.assert_allclose(eager, first, rtol=0, atol=1e-6)


def test_two_keys_give_different_sets_of_points(sampler):
    """Not only another order; a full grid without jitter has one set only."""
    if sampler == SAMPLERS["grid"]:
        return
    first, other, *_ = many(sampler, 200, 2, 20)
    assert len(set(map(tuple, first)) & set(map(tuple, other))) == 0


def test_points_are_distinct(sampler):
    for points in many(sampler, 200, 2, 20):
        assert len(np.unique(points, axis=0)) == 200


def test_every_point_is_uniform_over_the_keys(sampler):
    """Kolmogorov–Smirnov on a coordinate of a point under 2000 keys."""
    if sampler == SAMPLERS["grid"]:
        return
    points = many(sampler, 5, 2, 2000)
    for row in (0, 3):
        for column in range(2):
            assert stats.kstest(points[:, row, column], "uniform").pvalue > 1e-4


@pytest.mark.parametrize("name", LOW_DISCREPANCY)
def test_low_discrepancy_under_every_key(name):
    """Issue case 3.1, under 20 keys instead of two."""
    uniform = many(Uniform(), 64, 2, 20, seed=9).astype(float)
    reference = np.mean([qmc.discrepancy(x, method="CD") for x in uniform])
    for x in many(SAMPLERS[name], 64, 2, 20).astype(float):
        assert qmc.discrepancy(x, method="CD") <= 0.5 * reference
        assert abs(np.corrcoef(x.T)[0, 1]) < 0.2


@pytest.mark.parametrize("name", ["sobol", "halton", "hammersley"])
def test_scrambling_keeps_the_order_of_convergence(name):
    """∫ x y = 1/4 with 1024 points: far below the 1/√n of independent points."""
    error = np.abs(many(SAMPLERS[name], 1024, 2, 20).prod(2).mean(1) - 0.25)
    independent = math.sqrt((1 / 9 - 1 / 16) / 1024)
    assert error.max() < 0.3 * independent


def test_halton_is_not_sobol():
    sobol, halton = (many(s, 64, 2, 20)[0] for s in (Sobol(), Halton()))
    assert not np.isclose(np.sort(sobol, 0), np.sort(halton, 0)).all()
    # 27 points fill the 27 parts of the second axis in base 3, which Sobol does not.
    assert sorted((many(Halton(), 27, 2, 1)[0, :, 1] * 27).astype(int)) == list(
        range(27)
    )


def test_sobol_without_scrambling_against_scipy():
    bits = sobol_bits(1000, jnp.asarray(direction_numbers(MOST)))
    reference = qmc.Sobol(MOST, scramble=False).random_base2(10)[:1000]
    np.testing.assert_array_equal(np.asarray(bits) / 2.0**32, reference)


def test_scrambled_sobol_is_a_net():
    """In two dimensions each of the 64 elementary boxes of each shape holds one of the
    first 64 points, under every key."""
    for x in many(Sobol(), 64, 2, 20):
        for k in range(7):
            cell = np.floor(x * [2**k, 2 ** (6 - k)]).astype(int)
            assert len(np.unique(cell, axis=0)) == 64


def test_scrambled_sobol_stays_stratified_in_every_dimension():
    for x in many(Sobol(), 64, MOST, 5):
        assert (np.sort(np.floor(x * 64), axis=0) == np.arange(64)[:, None]).all()


def test_halton_without_scrambling_against_scipy(x64):
    reference = qmc.Halton(len(PRIMES), scramble=False).random(500)
    axes = (0, 1, 2, 3, 10, 19)

    @jax.jit
    def unscrambled():
        same = lambda b: jnp.tile(jnp.arange(b, dtype=jnp.int32), (places(b), 1))  # noqa: E731
        return [radical_inverse(500, b, same(b)) for b in (PRIMES[j] for j in axes)]

    for j, mine in zip(axes, unscrambled(), strict=True):
        np.testing.assert_allclose(mine, reference[:, j], rtol=0, atol=1e-9)


def test_scrambled_halton_fills_its_boxes():
    """Each of the 8 × 9 boxes holds one of the first 72 points, under every key."""
    for x in many(Halton(), 72, 2, 20):
        assert len(np.unique(np.floor(x * [8, 9]).astype(int), axis=0)) == 72


before_the_shift = jax.jit(hammersley, static_argnums=(0, 1))


def test_hammersley_before_the_shift(x64):
    reference = [np.arange(50) / 50]
    reference += [qmc.Halton(3, scramble=False).random(50)[:, j] for j in range(3)]
    np.testing.assert_allclose(
        before_the_shift(50, 4), np.stack(reference, 1), rtol=0, atol=1e-9
    )


def test_hammersley_is_shifted_as_a_whole(x64):
    for x in many(Hammersley(), 50, 4, 5):
        angle = 2j * np.pi * (x - np.asarray(before_the_shift(50, 4)))
        np.testing.assert_allclose(np.exp(angle), np.exp(angle[:1]).repeat(50, 0))


@pytest.mark.parametrize("name", ["lhs", "lhs-plain"])
def test_each_slice_of_a_latin_hypercube_holds_one_point(name, x64):
    for n in (1, 100):
        for x in many(SAMPLERS[name], n, 3, 3):
            slices = np.sort(np.floor(x * n), axis=0)
            assert (slices == np.arange(n)[:, None]).all()


def test_correlation_of_a_design():
    slices = many(LatinHypercube(tries=1), 50, 4, 1)[0].argsort(0).argsort(0)
    expected = np.abs(np.corrcoef(slices.T) - np.eye(4)).max()
    mine = largest_correlation(jnp.asarray(slices, jnp.int32))
    assert float(mine) == pytest.approx(expected, rel=1e-5)


def test_choosing_among_designs_lowers_the_correlation():
    def largest(sampler):
        return [np.abs(np.corrcoef(x.T))[0, 1] for x in many(sampler, 64, 2, 200)]

    plain, chosen = largest(LatinHypercube(tries=1)), largest(LatinHypercube())
    assert np.max(plain) > 0.2  # why the choice is there
    assert np.max(chosen) < 0.1


def test_the_full_grid():
    x = np.asarray(Grid().unit(24, 2, key=jax.random.key(0)))
    a, b = np.meshgrid((np.arange(5) + 0.5) / 5, (np.arange(5) + 0.5) / 5)
    centres = np.stack([a.ravel(), b.ravel()], 1)
    distance = np.abs(x[:, None] - centres[None]).max(2)
    assert (distance.min(1) < 1e-6).all()
    assert len(np.unique(distance.argmin(1))) == 24


def test_jitter_stays_in_the_cell():
    x = many(Grid(jitter=True), 64, 3, 1)[0]
    assert len(np.unique(np.floor(x * 4), axis=0)) == 64


@given(st.integers(0, 10**7), st.integers(1, 8))
def test_cells_are_balanced_and_just_enough(n, dim):
    counts = cells_per_axis(n, dim)
    assert len(counts) == dim
    assert max(counts) - min(counts) <= 1
    assert math.prod(counts) >= n
    fewer = sorted(counts)
    fewer[-1] -= 1
    assert max(counts) == 1 or math.prod(fewer) < n


def test_conversion_never_gives_one(both_precisions):
    most = jnp.asarray([2**32 - 1, 2**32 - 64], jnp.uint32)
    assert (fraction(most, 2**32) < 1).all()
    one = jnp.ones(1)
    assert (below_one(one) < 1).all()
    assert (below_one(one) == np.nextafter(1, 0, dtype=one.dtype)).all()


def test_long_sequences_stay_below_one_and_keep_their_spread():
    """2^20 points, where rounding in float32 is as coarse as the slices."""
    for name in LOW_DISCREPANCY:
        x = many(SAMPLERS[name], 2**20, 1, 1)[0, :, 0]
        assert ((x >= 0) & (x < 1)).all()
        counts = np.bincount((x * 1024).astype(int), minlength=1024)
        assert np.abs(counts - 1024).max() <= 8


BAD = {
    "n": (lambda key: Sobol().unit(-1, 2, key=key), "`n` must be at least 0, got -1"),
    "dim": (lambda key: Grid().unit(1, -2, key=key), "`dim` must be at least 0"),
    "sobol": (lambda key: Sobol().unit(1, 21, key=key), "`dim`=21 is more than the 20"),
    "halton": (lambda key: Halton().unit(1, 21, key=key), "more than the 20"),
    "hammersley": (lambda key: Hammersley().unit(1, 22, key=key), "more than the 21"),
    "tries": (lambda key: LatinHypercube(tries=0), "`tries` must be at least 1, got 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_static_mistakes_are_refused(name):
    build, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        build(jax.random.key(0))
