"""The laws of selectors."""

import dataclasses
import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from .._selector import AbstractSelector
from .._types import Candidates, Selection
from ._strategies import draw_candidates


SIZE = 20  # static length of the answers; at least the sum of the drawn quotas


def check_selector(
    selector: AbstractSelector,
    candidates: Candidates | None = None,
    *,
    seed: int = 0,
) -> None:
    """Put a selector through the laws that all of them keep.

    On each data set, those of `check_selection`, the same choice for the same key,
    under `jit`, and without compiling again for new quotas. On small pools, over many
    keys: where all scores are 0 every candidate is chosen equally often; the order of
    the candidates does not matter.

    **Arguments:**

    - `selector`: what is checked.
    - `candidates`: the data, with quotas of at most 20 in all; by default several sets
      are drawn and the small pools are checked too (`pinnacle.testing.candidates` is a
      hypothesis strategy for it).
    - `seed`: of the drawn data and keys.

    **Raises:** `AssertionError`, saying which law does not hold.
    """
    key = jax.random.key(seed)
    choose = eqx.filter_jit(eqx.debug.assert_max_traces(_choose, max_traces=1))
    for data in _drawn(seed) if candidates is None else [candidates]:
        selection = choose(selector, data, SIZE, key)
        check_selection(data, selection, SIZE)
        again = choose(selector, data, SIZE, key)
        assert np.array_equal(_chosen(selection), _chosen(again)), (
            "the same key gives another choice"
        )
    if candidates is None:
        _check_uniform(selector, seed)
        _check_permutation(selector, seed)


def check_selection(candidates: Candidates, selection: Selection, size: int) -> None:
    """What one selection owes its candidates.

    Arrays of the static length; distinct, available indices of finite embedding; of
    each group min(quota, what it has), of each kind at least min(minimum, what it
    has), and where a quota is smaller than its minima nothing but outstanding minima;
    weights finite and positive.

    **Arguments:**

    - `candidates`, `selection`: question and answer.
    - `size`: the length that was asked for.

    **Raises:** `AssertionError`, saying which law does not hold.
    """
    for name in ("index", "mask", "weight"):
        shape = getattr(selection, name).shape
        assert shape == (size,), f"`{name}` must have shape ({size},), got {shape}"
    assert selection.index.dtype == jnp.int32, (
        f"`index` must be int32, got {selection.index.dtype}"
    )
    assert selection.mask.dtype == bool, (
        f"`mask` must be boolean, got {selection.mask.dtype}"
    )
    chosen = _chosen(selection)
    n = candidates.kind.shape[0]
    assert np.all((chosen >= 0) & (chosen < n)), f"an index is outside 0..{n - 1}"
    assert len(set(chosen.tolist())) == chosen.size, (
        f"a candidate is chosen twice: {chosen}"
    )
    assert np.asarray(candidates.available)[chosen].all(), (
        "a candidate that is not available is chosen"
    )
    assert np.isfinite(np.asarray(candidates.embedding))[chosen].all(), (
        "a candidate whose embedding is not finite is chosen"
    )
    weight = np.asarray(selection.weight)[np.asarray(selection.mask)]
    assert np.all(np.isfinite(weight) & (weight > 0)), (
        f"weights must be finite and positive, got {weight}"
    )
    _check_budgets(candidates, chosen)


def _check_budgets(candidates: Candidates, chosen: np.ndarray) -> None:
    kind, group = np.asarray(candidates.kind), np.asarray(candidates.group)
    may = np.asarray(candidates.available)
    may = may & np.isfinite(np.asarray(candidates.embedding)).all(axis=1)
    minimum = np.asarray(candidates.minimum)
    have = np.bincount(kind[may], minlength=minimum.size)
    number = np.bincount(kind[chosen], minlength=minimum.size)
    owed = np.minimum(minimum, have)
    for g, quota in enumerate(np.asarray(candidates.quota)):
        expected = min(quota, np.sum(may & (group == g)))
        got = np.sum(group[chosen] == g)
        assert got == expected, (
            f"group {g} must get min(quota, what it has) = {expected} points, got {got}"
        )
        own = np.unique(kind[group == g])
        if owed[own].sum() <= quota:
            assert np.all(number[own] >= owed[own]), (
                f"kinds {own} must get at least {owed[own]} points, got {number[own]}"
            )
        else:
            assert np.all(number[own] <= owed[own]), (
                f"the quota {quota} of group {g} cannot pay the minima {owed[own]} of "
                f"kinds {own}, and yet {number[own]} were chosen"
            )


def check_successive_sampling(selector: AbstractSelector, *, seed: int = 0) -> None:
    """That sets are drawn as by successive sampling without replacement ∝ ‖φ‖².

    All subsets of 3 of 6 candidates are counted over 20,000 keys and compared with
    their exact probabilities (χ² test at level 10⁻⁴ with a fixed seed).

    **Raises:** `AssertionError` with the p-value.
    """
    score = np.array([1.0, 4.0, 0.5, 2.0, 8.0, 0.1])
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=(6, 2))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    data = _small(np.sqrt(score)[:, None] * direction, quota=3)
    expected: dict[tuple, float] = defaultdict(float)
    for order in itertools.permutations(range(6), 3):
        left, probability = score.sum(), 1.0
        for z in order:
            probability *= score[z] / left
            left -= score[z]
        expected[tuple(sorted(order))] += probability
    draws = _sequences(selector, data, 3, seed)
    observed = Counter(tuple(sorted(s)) for s in draws.tolist())
    cells = [(float(observed[c]), len(draws) * p) for c, p in expected.items()]
    _check_chi_square(cells, len(expected) - 1, "successive sampling")


def check_d2_sampling(
    selector: AbstractSelector, *, retained: bool = False, seed: int = 0
) -> None:
    """That each next centre is drawn ∝ D², given the previous ones.

    The order of `Selection.index` must be the order of the draws. Three of 6
    candidates are drawn for 20,000 keys; for each beginning that occurs, the next
    centre is compared with its exact law (χ² test at level 10⁻⁴ with a fixed seed).
    Also, the potential Σ D² is 0 after as many draws as there are distinct positions.

    **Arguments:**

    - `selector`: what is checked.
    - `retained`: whether retained points act as centres; the law is then checked from
      the first draw on.
    - `seed`: of the keys.

    **Raises:** `AssertionError` with the p-value.
    """
    # A tight pair far away, a tight pair near the origin, two more.
    x = np.array([[9, 1], [9, 1.5], [0.5, 0], [0.6, 0.4], [-3, 2], [1, -4.0]])
    centres = np.array([[-3.0, 1.0], [1.0, 1.0]]) if retained else np.zeros((0, 2))
    data = _small(x, quota=3, retained=np.array([[-3.0, 1.0], [1.0, 1.0]]))
    draws = _sequences(selector, data, 3, seed)
    cells, freedom = [], 0
    for length in range(0 if retained else 1, 3):
        beginnings = Counter(tuple(s[:length]) for s in draws.tolist())
        following = Counter(tuple(s[: length + 1]) for s in draws.tolist())
        for begin, times in beginnings.items():
            nearest = _squared_distances(x, np.vstack([centres, x[list(begin)]]))
            law = nearest / nearest.sum()
            freedom += int(np.sum(law > 0)) - 1
            cells += [
                (float(following[(*begin, z)]), float(times * law[z])) for z in range(6)
            ]
    _check_chi_square(cells, freedom, "the D² law")
    _check_potential(selector, seed)


def _check_potential(selector: AbstractSelector, seed: int) -> None:
    # 8 candidates at 3 positions: each of the first 3 draws is at a new position.
    x = np.array([[3.0, 0.1], [3.0, 0.3], [0.001, 7.0]])[[0, 0, 1, 1, 2, 2, 1, 0]]
    draws = _sequences(selector, _small(x, quota=5), 5, seed, number=CHUNK)
    positions = np.unique(x, axis=0).shape[0]
    for draw in draws:
        centres = [x[draw[: k + 1]] for k in range(5)]
        potential = [_squared_distances(x, c).sum() for c in centres]
        assert np.all(np.diff(potential) <= 0), f"the potential increases: {potential}"
        assert potential[positions - 1] == 0, (
            "a position is drawn twice while another has no centre: "
            f"{draw.tolist()} of {x.tolist()}"
        )


def _choose(selector, candidates: Candidates, size: int, key) -> Selection:
    return selector(candidates, size, key=key)


def _chosen(selection: Selection) -> np.ndarray:
    return np.asarray(selection.index)[np.asarray(selection.mask)]


def _drawn(seed: int) -> list[Candidates]:
    rng = np.random.default_rng(seed)
    settings = [
        {},
        {"minimum": (0, 0, 0, 0)},
        {"quota": (0, 0)},
        {"quota": (0, 4)},
        {"quota": (16, 4), "minimum": (0, 6, 6, 0)},
        {"quota": (4, 2), "minimum": (2, 3, 3, 9)},
        {"quota": (12, 4), "unavailable": 33},
        {"unavailable": 40},
        {"spoilt": 40},
        {"decades": 18.0},
    ]
    sets = [draw_candidates(rng, **setting) for setting in settings]
    plain = sets[0].embedding
    nothing = np.zeros(plain.shape)
    two = nothing + 1 + np.arange(40)[:, None] % 2
    return [
        *sets,
        *[
            dataclasses.replace(sets[0], embedding=jnp.asarray(x, plain.dtype))
            for x in (nothing, two, 1e-18 * two)
        ],
        dataclasses.replace(sets[0], retained_mask=jnp.zeros(6, bool)),
    ]


ROWS, CHUNK, MOST = 9, 2500, 5  # one shape for all small pools: one compilation


def _small(
    embedding: np.ndarray, quota: int, retained: np.ndarray | None = None
) -> Candidates:
    """Candidates of the first of four kinds; rows that may not be chosen fill up."""
    n, q = embedding.shape
    number = jnp.result_type(float)
    rows = np.full((ROWS, q), np.nan)
    rows[:n] = embedding
    return Candidates(
        embedding=jnp.asarray(rows, number),
        kind=jnp.zeros(ROWS, jnp.int32),
        group=jnp.zeros(ROWS, jnp.int32),
        available=jnp.arange(ROWS) < n,
        quota=jnp.asarray([quota, 0], jnp.int32),
        minimum=jnp.zeros(4, jnp.int32),
        retained_embedding=jnp.asarray(
            np.zeros((2, q)) if retained is None else retained, number
        ),
        retained_mask=jnp.full(2, retained is not None),
        retained_kind=jnp.zeros(2, jnp.int32),
    )


@eqx.filter_jit
def _draw(selector, candidates: Candidates, size: int, keys) -> Selection:
    return jax.vmap(lambda key: selector(candidates, size, key=key))(keys)


def _sequences(selector, candidates, quota, seed, number=8 * CHUNK) -> np.ndarray:
    """The chosen indices for many keys, one key a row."""
    index = []
    for chunk in range(number // CHUNK):
        key = jax.random.fold_in(jax.random.key(seed), chunk)
        keys = jax.random.split(key, CHUNK)
        selection = _draw(selector, candidates, MOST, keys)
        wanted = np.arange(MOST) < quota
        assert np.all(np.asarray(selection.mask) == wanted[None]), (
            f"not exactly the quota of {quota} is chosen"
        )
        index.append(np.asarray(selection.index)[:, :quota])
    return np.concatenate(index)


def _inclusion(selector, candidates, quota, seed, number) -> np.ndarray:
    draws = _sequences(selector, candidates, quota, seed, number)
    return np.bincount(draws.ravel(), minlength=candidates.kind.shape[0])


def _check_uniform(selector: AbstractSelector, seed: int) -> None:
    n, size, number = ROWS, 3, 2 * CHUNK
    counts = _inclusion(selector, _small(np.zeros((n, 2)), size), size, seed, number)
    chance = size / n
    allowed = 5 * np.sqrt(number * chance * (1 - chance))
    assert np.all(np.abs(counts - number * chance) <= allowed), (
        "where all scores are 0 the choice must be uniform; "
        f"each candidate is expected {number * chance:.0f} times, got {counts}"
    )


def _check_permutation(selector: AbstractSelector, seed: int) -> None:
    n, size, number = ROWS, 3, 2 * CHUNK
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    x[4] = x[7]  # ties must not be broken by position either
    order = rng.permutation(n)
    counts = _inclusion(selector, _small(x, size), size, seed, number)[order]
    permuted = _inclusion(selector, _small(x[order], size), size, seed + 1, number)
    chance = (counts + permuted) / (2 * number)
    allowed = 5 * np.sqrt(2 * number * chance * (1 - chance)) + 1e-9
    assert np.all(np.abs(counts - permuted) <= allowed), (
        "the order of the candidates changes how often they are chosen: "
        f"{counts} against {permuted} times"
    )


def _squared_distances(x: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return np.min(np.sum((x[:, None] - centres[None]) ** 2, axis=2), axis=1)


def _check_chi_square(
    cells: Sequence[tuple[float, float]], freedom: int, law: str
) -> None:
    """χ² of (observed, expected) pairs; cells below 5 expected counts are merged."""
    observed, expected = np.array(cells, float).T
    assert np.all(observed[expected == 0] == 0), (
        f"{law}: something of probability 0 has happened"
    )
    small = expected < 5
    freedom -= max(int(np.sum(small & (expected > 0))) - 1, 0)
    observed = np.append(observed[~small], observed[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    keep = expected > 0
    statistic = np.sum((observed - expected)[keep] ** 2 / expected[keep])
    p = stats.chi2.sf(statistic, freedom)
    assert p > 1e-4, f"{law} does not hold: χ² = {statistic:.1f}, p = {p:.1e}"
