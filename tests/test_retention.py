"""Retention policies: the laws, and how many rows each keeps."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from pinnacle._retention import (
    AbstractRetentionPolicy,
    KeepAll,
    KeepBest,
    KeepNone,
    RandomRetention,
    Retained,
)
from pinnacle.testing import check_retention, draw_training_set, training_sets


# name: (policy, whether each row stays equally often)
POLICIES = {
    "random": lambda: (RandomRetention(0.4), True),
    "random-new": lambda: (RandomRetention(new=5), True),
    "none": lambda: (KeepNone(), True),
    "all": lambda: (KeepAll(initial=4, new=3), True),
    "best": lambda: (KeepBest(0.5), False),
    "best-new": lambda: (KeepBest(new=5), False),
}


@pytest.mark.parametrize("name", POLICIES)
def test_laws(name):
    policy, equal_chance = POLICIES[name]()
    check_retention(policy, equal_chance=equal_chance)


def test_laws_in_float64(x64):
    check_retention(RandomRetention(0.4))
    check_retention(KeepBest(0.5))


@settings(max_examples=10, deadline=None)
@given(training_sets())
def test_laws_on_drawn_sets(old):
    check_retention(RandomRetention(0.3), old)
    check_retention(KeepBest(0.3), old)


@eqx.filter_jit
def _retain(policy, old, budget, key):
    return policy.retain(old, budget, policy.init(budget), key=key)[0]


@pytest.mark.parametrize("live", [0, 1, 7, 20])
@pytest.mark.parametrize("kind", [RandomRetention, KeepBest])
def test_exactly_so_many_rows_stay(kind, live):
    old = draw_training_set(np.random.default_rng(0), live=live)
    for fraction in (0.0, 0.25, 2 / 3, 1.0):
        retained = _retain(kind(fraction), old, 20, jax.random.key(0))
        assert np.sum(retained.keep) == round(fraction * live)
        assert retained.total == 20
    for new in (0, 3, 30):
        retained = _retain(kind(new=new), old, 20, jax.random.key(0))
        assert np.sum(retained.keep) == max(live - new, 0)


def test_the_papers_settings():
    # Budget 300 of which 100 are new each round.
    old = draw_training_set(np.random.default_rng(0), live=20)
    old = jax.tree.map(lambda a: jnp.tile(a, 15), old)
    retained = _retain(RandomRetention(new=100), old, 300, jax.random.key(0))
    assert np.sum(retained.keep) == 200
    assert retained.total == 300


def test_another_key_keeps_other_rows():
    old = draw_training_set(np.random.default_rng(0), live=20)
    a, b = (_retain(RandomRetention(0.5), old, 20, jax.random.key(i)) for i in (0, 1))
    assert not np.array_equal(a.keep, b.keep)


def test_growth_under_the_capacity():
    policy, budget = KeepAll(initial=6, new=5), 20
    live, totals = 0, []
    for _ in range(5):
        old = draw_training_set(np.random.default_rng(0), live=live)
        retained = _retain(policy, old, budget, jax.random.key(0))
        assert np.sum(retained.keep) == live
        live = int(retained.total)
        totals.append(live)
    assert totals == [6, 11, 16, 20, 20]
    empty = draw_training_set(np.random.default_rng(0), live=0)
    assert _retain(KeepAll(30, 5), empty, 20, jax.random.key(0)).total == 20


def test_the_best_stay():
    old = draw_training_set(np.random.default_rng(1), live=14)
    score = old.score.at[jnp.argmax(jnp.where(old.mask, old.score, 0))].set(jnp.nan)
    old = dataclasses.replace(old, score=score)
    keep = np.asarray(_retain(KeepBest(0.5), old, 20, jax.random.key(0)).keep)
    rated = np.where(np.asarray(old.mask), np.nan_to_num(np.asarray(score), nan=-1), -2)
    assert set(np.flatnonzero(keep)) == set(np.argsort(rated)[-7:])


def test_equal_scores_are_ordered_at_random():
    old = draw_training_set(np.random.default_rng(1), live=14)
    flat = dataclasses.replace(old, score=jnp.ones_like(old.score))
    check_retention(KeepBest(0.5), flat, equal_chance=True)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RandomRetention(), ["exactly one", "`fraction`", "`new`"]),
        (lambda: RandomRetention(0.5, new=3), ["exactly one", "0.5", "3"]),
        (lambda: RandomRetention(1.5), ["`fraction`", "1.5"]),
        (lambda: RandomRetention(new=-1), ["`new`", "-1"]),
        (lambda: KeepBest(-0.1), ["`fraction`", "-0.1"]),
        (lambda: KeepAll(0, 3), ["`initial`", "0"]),
        (lambda: KeepAll(3, -2), ["`new`", "-2"]),
        (lambda: RandomRetention(new=1.5), ["`new` is 1.5"]),
        (lambda: KeepBest(new="1"), ["`new` is '1'"]),
        (lambda: KeepAll(1.5, 1), ["`initial` is 1.5"]),
    ],
)
def test_bad_numbers(make, words, no_type_checks):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        make()
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("kind", [RandomRetention, KeepBest])
def test_a_round_replaces_at_most_the_budget(kind):
    with pytest.raises(ValueError, match="`new` must be at most the budget of 4, got"):
        kind(new=5).init(4)


class _Broken(AbstractRetentionPolicy):
    decide: Callable = eqx.field(static=True)

    def init(self, budget):
        return jnp.zeros(2)

    def retain(self, old, budget, state, *, key):
        keep, total, state = self.decide(old, budget, state, key)
        return Retained(keep, jnp.asarray(total, jnp.int32)), state


@pytest.mark.parametrize(
    ("decide", "words"),
    [
        (lambda o, b, s, k: (~o.mask, b, s), "padded row"),
        (lambda o, b, s, k: (o.mask, b + 1, s), "exceeds the budget"),
        (lambda o, b, s, k: (o.mask, 3, s), "rows are kept but"),
        (lambda o, b, s, k: (o.mask & False, 0, s), "at least 1"),
        (lambda o, b, s, k: (o.mask, b, s[:1]), "structure"),
        (lambda o, b, s, k: (o.mask & (jnp.arange(20) < 9), b, s), "equally often"),
    ],
)
def test_the_laws_catch_what_is_wrong(decide, words):
    with pytest.raises(AssertionError, match=words):
        check_retention(_Broken(decide), equal_chance=True)
