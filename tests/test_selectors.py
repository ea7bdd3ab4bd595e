"""Selectors: the laws, the exact laws of each draw, and the degenerate cases."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import ArrayLike

from pinnacle._selector import (
    AbstractSelector,
    Greedy,
    KMeansPlusPlus,
    PerKindQuota,
    Sampling,
    choose_best,
)
from pinnacle._types import Candidates, Selection
from pinnacle.testing import (
    candidates,
    check_d2_sampling,
    check_selection,
    check_selector,
    check_successive_sampling,
    draw_candidates,
)


SELECTORS = {
    "sampling": lambda: Sampling(),
    "sampling-importance": lambda: Sampling(importance=True, clip=5.0),
    "kmeans": lambda: KMeansPlusPlus(),
    "kmeans-retained": lambda: KMeansPlusPlus("retained"),
    "kmeans-uniform": lambda: KMeansPlusPlus("uniform"),
    "greedy": lambda: Greedy(),
    "fixed-shares": lambda: PerKindQuota(Sampling(), (0.8, 0.1, 0.1, 1.0)),
    "fixed-shares-kmeans": lambda: PerKindQuota(KMeansPlusPlus()),
}


class Tournament(AbstractSelector):
    """The selector of docs/extending.md."""

    def __call__(self, candidates, size, *, key):
        noise_key, tie_key = jax.random.split(key)
        score = jnp.sum(candidates.embedding**2, axis=1)
        noise = jax.random.gumbel(noise_key, score.shape, score.dtype)
        return choose_best(candidates, jnp.log(score) + noise, size, key=tie_key)


SELECTORS["of-a-user"] = lambda: Tournament()


@pytest.mark.parametrize("name", SELECTORS)
def test_laws(name):
    check_selector(SELECTORS[name]())


@pytest.mark.parametrize("name", ["sampling-importance", "kmeans-retained"])
def test_laws_in_float64(name, x64):
    check_selector(SELECTORS[name](), draw_candidates(np.random.default_rng(0)))


@eqx.filter_jit
def _drawn(selector, data, key):
    return selector(data, 16, key=key)


@settings(max_examples=15, deadline=None)
@given(candidates())
def test_laws_on_drawn_candidates(data):
    for selector in DRAWN:
        selection = _drawn(selector, data, jax.random.key(0))
        check_selection(data, selection, 16)


DRAWN = [
    SELECTORS[name]()
    for name in ("sampling-importance", "kmeans-retained", "fixed-shares")
]


def test_sampling_is_successive_sampling():
    check_successive_sampling(Sampling())


@pytest.mark.parametrize("first", ["largest", "uniform", "retained"])
def test_kmeans_draws_by_squared_distance(first):
    check_d2_sampling(KMeansPlusPlus(first), retained=first == "retained")


# One shape for everything here, so that each selector compiles once: 90 candidates of
# 4 kinds in 2 groups, 20 retained rows, 40 places, 2000 keys.
ROWS, COLUMNS, KEPT, SIZE, CHUNK = 90, 3, 20, 40, 2000


@eqx.filter_jit
def _select(selector, data, key):
    return selector(data, SIZE, key=key)


@eqx.filter_jit
def _select_chunk(selector, data, keys):
    return jax.vmap(lambda key: selector(data, SIZE, key=key))(keys)


def _select_often(selector, data, number=CHUNK):
    """Index, mask and weight for many keys, cut to what the quotas allow."""
    chunks = []
    for chunk in range(number // CHUNK):
        keys = jax.random.split(jax.random.fold_in(KEY, chunk), CHUNK)
        chunks.append(jax.tree.map(np.asarray, _select_chunk(selector, data, keys)))
    places = int(np.sum(chunks[0].mask[0]))
    for c in chunks:
        assert np.all(c.mask == (np.arange(SIZE) < places)[None])
    index = np.concatenate([c.index[:, :places] for c in chunks])
    weight = np.concatenate([c.weight[:, :places] for c in chunks])
    return index, weight.astype(np.float64)


def _chosen(selection) -> list[int]:
    return np.asarray(selection.index)[np.asarray(selection.mask)].tolist()


def _filled(values, shape, fill):
    values = np.asarray(values)
    out = np.full(shape, fill, values.dtype)
    out[tuple(slice(k) for k in values.shape)] = values
    return out


def _pool(
    embedding: ArrayLike,
    quota: ArrayLike = (6,),
    minimum: ArrayLike = (),
    kind: ArrayLike = 0,
    group: ArrayLike = 0,
    retained: ArrayLike | None = None,
    retained_kind: ArrayLike = 0,
) -> Candidates:
    """The rows given, then rows that may not be chosen; columns are filled with 0."""
    embedding = np.asarray(embedding, np.float32)
    n, q = embedding.shape
    rows = np.full((ROWS, COLUMNS), np.nan, np.float32)
    rows[:n] = 0
    rows[:n, :q] = embedding
    kept = np.zeros((0, q)) if retained is None else np.asarray(retained)

    def label(values, number, length):
        values = np.broadcast_to(np.asarray(values, np.int32), (number,))
        return jnp.asarray(_filled(values, (length,), 0))

    return Candidates(
        embedding=jnp.asarray(rows),
        kind=label(kind, n, ROWS),
        group=label(group, n, ROWS),
        available=jnp.arange(ROWS) < n,
        quota=jnp.asarray(_filled(np.asarray(quota, int), (2,), 0), jnp.int32),
        minimum=jnp.asarray(_filled(np.asarray(minimum, int), (4,), 0), jnp.int32),
        retained_embedding=jnp.asarray(_filled(kept, (KEPT, COLUMNS), 0), jnp.float32),
        retained_mask=jnp.arange(KEPT) < len(kept),
        retained_kind=label(retained_kind, len(kept), KEPT),
    )


KEY = jax.random.key(7)


class TestDegenerate:
    @pytest.mark.parametrize("name", SELECTORS)
    def test_twelve_candidates_at_two_positions(self, name):
        data = _pool(np.repeat([[1.0, 2.0], [3.0, -1.0]], 6, axis=0))
        assert len(set(_chosen(_select(SELECTORS[name](), data, KEY)))) == 6

    @pytest.mark.parametrize("name", ["sampling", "kmeans", "greedy"])
    def test_all_zero_is_uniform(self, name):
        data = _pool(np.zeros((12, 3)), quota=(4,))
        index, _ = _select_often(SELECTORS[name](), data, 6000)
        counts = np.bincount(index.ravel(), minlength=12)
        assert np.all(np.abs(counts - 2000) < 5 * np.sqrt(6000 / 3 * 2 / 3))

    def test_the_origin_is_no_centre(self):
        # If the origin were a centre, the tight cluster beside it would be at distance
        # 0.01 and never be drawn second. With the first centre in the far cluster the
        # near one is drawn second, always up to (0.05/100)².
        rng = np.random.default_rng(0)
        near = np.array([0.1, 0.0]) + 1e-3 * rng.normal(size=(10, 2))
        far = np.array([100.0, 0.0]) + 0.05 * rng.normal(size=(10, 2))
        data = _pool(np.concatenate([near, far]), quota=(2,))
        for first in ("largest", "uniform"):
            index, _ = _select_often(KMeansPlusPlus(first), data)
            assert np.mean(np.sum(index < 10, axis=1) == 1) > 0.998
        # and the far one alone is not told apart by its distance to the origin
        assert 850 < np.sum(index[:, 0] < 10) < 1150

    def test_a_tight_cluster_far_away_keeps_its_digits(self):
        # Two positions 1e-4 apart at distance 10: the square of the gap is 1e-10 of
        # ‖x‖², below the rounding of ‖x‖² + ‖c‖² − 2x·c.
        x = np.array([[10.0, 0.0]] * 50 + [[10.0, 1e-4]])
        index, _ = _select_often(KMeansPlusPlus("uniform"), _pool(x, quota=(2,)))
        assert np.all(np.any(index == 50, axis=1))

    @pytest.mark.parametrize("name", SELECTORS)
    def test_asking_for_more_than_there_is(self, name):
        data = _pool(np.random.default_rng(0).normal(size=(5, 2)), quota=(9,))
        selection = _select(SELECTORS[name](), data, KEY)
        assert sorted(_chosen(selection)) == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize("name", SELECTORS)
    def test_nothing_finite_or_nothing_wanted(self, name):
        data = _pool(np.random.default_rng(0).normal(size=(40, 3)), (6, 0))
        nothing = [
            dataclasses.replace(data, embedding=data.embedding * jnp.nan),
            dataclasses.replace(data, available=jnp.zeros(ROWS, bool)),
            dataclasses.replace(data, quota=jnp.zeros(2, jnp.int32)),
        ]
        for empty in nothing:
            assert _chosen(_select(SELECTORS[name](), empty, KEY)) == []

    @pytest.mark.parametrize("name", ["sampling", "kmeans", "greedy"])
    @pytest.mark.parametrize("scale", [1e-30, 1e-18, 1e18, 1e30])
    def test_the_scale_does_not_matter(self, name, scale):
        x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
        plain = _chosen(_select(SELECTORS[name](), _pool(x), KEY))
        scaled = _pool(x * np.float32(scale))
        chosen = _chosen(_select(SELECTORS[name](), scaled, KEY))
        if name == "kmeans":  # the scaling itself rounds
            assert chosen[0] == plain[0]
            assert len(set(chosen)) == 6
        else:
            assert chosen == plain


def test_greedy_takes_the_best_under_budgets():
    # Kinds 0, 1 share a group; kind 2 is alone.
    score = np.array([9, 8, 7, 6, 0.1, 0.2, 0.3, 5, 4, 3.0])
    kind = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])
    pool = lambda minimum, quota: _pool(  # noqa: E731
        np.sqrt(score)[:, None], quota, minimum, kind, kind == 2
    )
    pick = lambda *a: sorted(_chosen(_select(Greedy(), pool(*a), KEY)))  # noqa: E731
    assert pick((0, 0, 0), (3, 1)) == [0, 1, 2, 7]
    assert pick((1, 0, 1), (3, 1)) == [0, 1, 2, 7]
    assert pick((0, 1, 0), (3, 1)) == [0, 1, 6, 7]
    assert pick((0, 9, 0), (4, 2)) == [0, 4, 5, 6, 7, 8]
    assert pick((2, 2, 0), (3, 0)) == [0, 1, 6]


def test_retained_points_are_centres():
    # Six positions; three of them are occupied by retained points.
    x = np.array([[1.0, 0], [0, 2.0], [3.0, 3.0], [-4.0, 1.0], [0, -5.0], [6.0, 0]])
    data = _pool(x, quota=(3,), retained=x[[5, 3, 1]])
    index, _ = _select_often(KMeansPlusPlus("retained"), data)
    assert np.all(np.sort(index, axis=1) == np.array([[0, 2, 4]]))
    # Without live rows, or with nothing finite, it begins as usual, with the largest.
    for bare in (
        dataclasses.replace(data, retained_mask=jnp.zeros(KEPT, bool)),
        dataclasses.replace(data, retained_embedding=data.retained_embedding * jnp.nan),
    ):
        index, _ = _select_often(KMeansPlusPlus("retained"), bare)
        assert np.all(index[:, 0] == 5)


def test_groups_share_their_centres():
    # Kind 1 has its own budget; its candidate at the centre of kind 0 is not wanted.
    x = np.array([[9.0, 0], [0, 1.0], [9.0, 0], [0, -3.0]])
    kind = [0, 0, 1, 1]
    data = _pool(x, (1, 1), (0, 0), kind, kind)
    index, _ = _select_often(KMeansPlusPlus(), data)
    index = np.sort(index, axis=1)
    # The first is 0 or 2 (equal norm), and the other group takes what is far from it.
    assert set(map(tuple, index.tolist())) <= {(0, 3), (1, 2)}


@pytest.mark.parametrize("case", ["plain", "minima", "few positive", "two groups"])
def test_importance_weights_are_unbiased(case):
    rng = np.random.default_rng(3)
    n = 12
    score = rng.exponential(size=n) ** 2 + 0.02
    kind = np.array([0] * 7 + [1] * 5)
    minimum, quota, group = (0, 0), (5,), 0
    if case == "minima":
        score[kind == 1] *= 0.1
        minimum = (1, 2)
    if case == "few positive":
        score[[0, 1, 2, 3, 4, 7, 8, 9]] = 0
    if case == "two groups":
        quota, group = (3, 2), kind
    data = _pool(np.sqrt(score)[:, None], quota, minimum, kind, group)
    f = rng.normal(size=n) + 2
    index, weight = _select_often(Sampling(importance=True), data, 20_000)
    for k in (0, 1):
        own = kind[index] == k
        number = np.maximum(own.sum(axis=1), 1)
        mean = np.sum(own * weight * f[index], axis=1) / number
        error = mean.mean() - f[kind == k].mean()
        assert abs(error) < 4 * mean.std() / np.sqrt(len(index))
        # The test can fail: without weights the mean is off.
        if case == "plain":
            bare = np.sum(own * f[index], axis=1) / number
            assert abs(bare.mean() - f[kind == k].mean()) > 10 * mean.std() / 141


def test_weights_are_one_unless_asked_for_and_clipped():
    data = _pool(np.random.default_rng(0).normal(size=(40, 3)), (12, 0))
    assert np.all(_select(Sampling(), data, KEY).weight == 1)
    weight = _select(Sampling(importance=True, clip=0.5), data, KEY).weight
    assert np.max(weight[:12]) == 0.5


def _per_kind(data, selection):
    kinds = np.asarray(data.kind)[_chosen(selection)]
    return np.bincount(kinds, minlength=data.minimum.shape[0]).tolist()


class TestPerKindQuota:
    kind = np.repeat([0, 1, 2, 3], [40, 20, 20, 10])

    def split(self, shares, quota, retained=(), available=None, minimum=(0, 0, 0, 0)):
        x = np.random.default_rng(0).normal(size=(90, 2))
        kept = np.zeros((len(retained), 2))
        data = _pool(x, quota, minimum, self.kind, self.kind == 3, kept, retained)
        if available is not None:
            data = dataclasses.replace(data, available=jnp.asarray(available))
        return _per_kind(data, _select(PerKindQuota(Sampling(), shares), data, KEY))

    def test_shares_are_exact(self):
        assert self.split((0.8, 0.1, 0.1, 1), (30, 5)) == [24, 3, 3, 5]
        assert self.split((8, 1, 1, 9), (30, 5)) == [24, 3, 3, 5]
        assert self.split(None, (30, 5)) == [10, 10, 10, 5]

    def test_largest_remainders(self):
        # 7 × (0.5, 0.3, 0.2) = 3.5, 2.1, 1.4
        assert self.split((0.5, 0.3, 0.2, 1), (7, 0)) == [4, 2, 1, 0]
        # 11 × (0.62, 0.23, 0.15) = 6.82, 2.53, 1.65
        assert self.split((0.62, 0.23, 0.15, 1), (11, 0)) == [7, 2, 2, 0]

    def test_retained_points_count(self):
        kept = [0] * 10 + [1] * 2 + [2] * 3
        assert self.split((0.8, 0.1, 0.1, 1), (15, 0), kept) == [14, 1, 0, 0]
        # Kind 2 has more than its share already; the total is still the quota.
        kept = [2] * 10
        assert self.split((0.8, 0.1, 0.1, 1), (10, 0), kept) == [10, 0, 0, 0]
        # 0.5, 0.25, 0.25 of 20 less (0, 0, 10): 10, 5, −5 for 10 places
        assert self.split((0.5, 0.25, 0.25, 1), (10, 0), kept) == [8, 2, 0, 0]

    def test_scarce_kinds_leave_their_places_to_others(self):
        available = ~((self.kind == 1) & (np.arange(90) > 41))
        got = self.split((0.4, 0.4, 0.2, 1), (20, 0), available=available)
        assert got[1] == 2
        assert sum(got) == 20

    def test_minima_are_kept(self):
        assert self.split((1, 0, 0, 1), (10, 1), minimum=(0, 2, 1, 0)) == [7, 2, 1, 1]

    def test_wrong_number_of_shares(self):
        with pytest.raises(ValueError, match="2 entries but there are 4 kinds"):
            self.split((0.5, 0.5), (10, 0))


def test_new_quotas_do_not_recompile():
    choose = eqx.filter_jit(
        eqx.debug.assert_max_traces(lambda s, d, k: s(d, 16, key=k), max_traces=1)
    )
    for seed, quota in enumerate([(8, 3), (2, 2), (0, 4)]):
        data = draw_candidates(np.random.default_rng(seed), quota=quota)
        selection = choose(KMeansPlusPlus(), data, jax.random.key(seed))
        assert np.sum(selection.mask) == sum(quota)


def test_shares_and_clip_can_be_swept_without_recompiling():
    data = draw_candidates(np.random.default_rng(0))
    choose = eqx.filter_jit(
        eqx.debug.assert_max_traces(lambda s, d: s(d, 16, key=KEY), max_traces=1)
    )
    for share, clip in [(0.8, 10.0), (0.5, 3), (0.95, np.float32(2))]:
        sampling = Sampling(importance=True, clip=clip)
        choose(PerKindQuota(sampling, (share, 1 - share, 0.1, 1)), data)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: KMeansPlusPlus("nearest"), ["`first`", "nearest", "'largest'"]),
        (lambda: Sampling(importance=True, clip=0.0), ["`clip`", "0.0", "None"]),
        (lambda: PerKindQuota(Greedy(), (0.5, -0.5)), ["`shares`", "-0.5"]),
        (lambda: PerKindQuota(Greedy(), (0.0, 0.0)), ["`shares`", "0."]),
    ],
)
def test_bad_numbers(make, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        make()
    for word in words:
        assert word in str(error.value)


class _Broken(AbstractSelector):
    """Greedy, with one thing wrong."""

    fault: str = eqx.field(static=True)

    def __call__(self, candidates, size, *, key):
        data = candidates
        if self.fault == "ignores availability":
            data = dataclasses.replace(data, available=data.available | True)
        if self.fault == "one too many":
            data = dataclasses.replace(data, quota=data.quota + 1)
        if self.fault == "ignores minima":
            data = dataclasses.replace(data, minimum=data.minimum * 0)
        if self.fault == "ignores what is not finite":
            clean = jnp.nan_to_num(data.embedding, nan=1.0, posinf=9.0, neginf=9.0)
            data = dataclasses.replace(data, embedding=clean)
        chosen = Greedy()(data, size, key=key)
        index = chosen.index
        if self.fault == "with replacement":
            index = jnp.where(jnp.arange(size) == 1, index[0], index)
        if self.fault == "by position":
            n = data.kind.shape[0]
            ramp = 1.0 + jnp.arange(n, dtype=data.embedding.dtype)[:, None]
            finite = jnp.isfinite(data.embedding)
            data = dataclasses.replace(
                data, embedding=jnp.where(finite, ramp, data.embedding)
            )
            index = Greedy()(data, size, key=key).index
        return Selection(index, chosen.mask, chosen.weight)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("ignores availability", "not available"),
        ("one too many", "group 0 must get"),
        ("ignores minima", "must get at least"),
        ("ignores what is not finite", "not finite is chosen"),
        ("with replacement", "chosen twice"),
        ("by position", "uniform"),
    ],
)
def test_the_laws_catch_what_is_wrong(fault, words):
    with pytest.raises(AssertionError, match=words):
        check_selector(_Broken(fault))


def test_choose_best_takes_values_not_scores():
    data = draw_candidates(np.random.default_rng(1))
    value = -jnp.arange(data.kind.shape[0], dtype=jnp.float32)
    value = value.at[0].set(jnp.nan)
    free = dataclasses.replace(data, minimum=jnp.zeros_like(data.minimum))
    chosen = choose_best(free, value, 16, key=jax.random.key(0))
    found = set(np.asarray(chosen.index)[np.asarray(chosen.mask)].tolist())
    finite = np.isfinite(np.asarray(data.embedding)).all(axis=1)
    usable = np.asarray(data.available) & finite & (np.arange(finite.size) > 0)
    wanted = set()
    for group, quota in enumerate(np.asarray(data.quota).tolist()):
        here = np.flatnonzero(usable & (np.asarray(data.group) == group))
        wanted |= set(here[:quota].tolist())
    assert found == wanted
    with pytest.raises(ValueError, match=r"`value` has shape \(2,\)"):
        choose_best(data, value[:2], 16, key=jax.random.key(0))
