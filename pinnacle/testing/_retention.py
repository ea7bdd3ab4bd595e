"""The laws of retention policies."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._retention import AbstractRetentionPolicy, Retained, TrainingSetInfo
from ._strategies import draw_training_set


def check_retention(
    policy: AbstractRetentionPolicy,
    old: TrainingSetInfo | None = None,
    *,
    equal_chance: bool = False,
    seed: int = 0,
) -> None:
    """Put a retention policy through the laws that all of them keep.

    What stays is a subset of the live rows; #kept ≤ total ≤ budget, and total ≥ 1;
    nothing stays where nothing is live; scores that are not finite break nothing; the
    same key gives the same answer; the state keeps its structure, shapes and dtypes.

    **Arguments:**

    - `policy`: what is checked.
    - `old`: the training set; by default several are drawn
      (`pinnacle.testing.training_sets` is a hypothesis strategy for it).
    - `equal_chance`: also check that every live row stays equally often over many
      keys, whatever its score.
    - `seed`: of the drawn data and keys.

    **Raises:** `AssertionError`, saying which law does not hold.
    """
    rng = np.random.default_rng(seed)
    sets = [old] if old is not None else _drawn(rng)
    budget = sets[0].mask.shape[0]
    state = policy.init(budget)
    key = jax.random.key(seed)
    for number, data in enumerate(sets):
        state = _check_round(
            policy, data, budget, state, jax.random.fold_in(key, number)
        )
        if equal_chance:
            _check_equal_chance(policy, data, budget, state, key)


def _drawn(rng: np.random.Generator) -> list[TrainingSetInfo]:
    sets = [draw_training_set(rng, live=live) for live in (0, 1, 7, 14, 20)]
    spoilt = dataclasses.replace(sets[3], score=sets[3].score.at[::2].set(jnp.nan))
    return [*sets, spoilt]


@eqx.filter_jit
def _retain(policy, old: TrainingSetInfo, budget: int, state, key):
    return policy.retain(old, budget, state, key=key)


def _check_round(policy, old: TrainingSetInfo, budget: int, state, key):
    retained, after = _retain(policy, old, budget, state, key)
    _check_retained(old, retained, budget)
    again, _ = _retain(policy, old, budget, state, key)
    assert np.array_equal(retained.keep, again.keep), "the same key keeps other rows"
    assert _structure(after) == _structure(state), (
        "the state must keep its structure, shapes and dtypes: "
        f"{_structure(state)} became {_structure(after)}"
    )
    return after


def _check_retained(old: TrainingSetInfo, retained: Retained, budget: int) -> None:
    keep, live = np.asarray(retained.keep), np.asarray(old.mask)
    assert keep.shape == live.shape, (
        f"`keep` must have shape {live.shape}, got {keep.shape}"
    )
    assert keep.dtype == bool, f"`keep` must be boolean, got {keep.dtype}"
    assert not (keep & ~live).any(), "a padded row is kept: keep only live rows"
    total = int(retained.total)
    assert total <= budget, f"total {total} exceeds the budget {budget}"
    assert total >= 1, f"total must be at least 1, got {total}"
    assert keep.sum() <= total, f"{keep.sum()} rows are kept but the total is {total}"


def _structure(state) -> tuple:
    leaves, tree = jax.tree.flatten(state)
    return tree, [(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves]


def _check_equal_chance(policy, old: TrainingSetInfo, budget: int, state, key) -> None:
    draws = 2000
    keep = _keep_often(policy, old, budget, state, jax.random.split(key, draws))
    counts = np.asarray(keep.sum(axis=0))[np.asarray(old.mask)]
    if counts.size == 0:
        return
    chance = counts.mean() / draws
    # Five standard deviations of a binomial count.
    allowed = 5 * np.sqrt(draws * chance * (1 - chance)) + 1e-9
    assert np.all(np.abs(counts - counts.mean()) <= allowed), (
        f"rows are not kept equally often in {draws} draws: counts {counts}"
    )


@eqx.filter_jit
def _keep_often(policy, old: TrainingSetInfo, budget: int, state, keys) -> jax.Array:
    return jax.vmap(lambda key: policy.retain(old, budget, state, key=key)[0].keep)(
        keys
    )
