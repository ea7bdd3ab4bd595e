"""Scores of candidates, and the bookkeeping of budgets by group and kind.

No function here loops over the candidates: all is done by sorts, running sums and
sums by segment.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32

from .._types import Candidates


def largest_entry(embedding: Float[Array, "n q"]) -> Float[Array, " n"]:
    """max_i |φ_i(z)|; not finite where any entry is not.

    Written as two plain reductions, for which XLA stores no second embedding.
    """
    return jnp.maximum(jnp.max(embedding, axis=1), -jnp.min(embedding, axis=1))


def log_scores(embedding: Float[Array, "n q"]) -> Float[Array, " n"]:
    """log ‖φ(z)‖², safe for every φ that the dtype can hold; −∞ where φ = 0."""
    largest = largest_entry(embedding)
    scale = jnp.where(largest > 0, largest, 1)
    relative = jnp.sum(jnp.square(embedding / scale[:, None]), axis=1)
    return 2 * jnp.log(largest) + jnp.log(jnp.where(largest > 0, relative, 1))


def eligible(candidates: Candidates) -> Bool[Array, " n"]:
    """Available, and every entry of the embedding finite."""
    return candidates.available & jnp.isfinite(largest_entry(candidates.embedding))


def group_of_kind(candidates: Candidates) -> Int32[Array, " kinds"]:
    """The group of each kind, −1 for a kind without candidates."""
    kinds = candidates.minimum.shape[0]
    group = jnp.full(kinds, -1, jnp.int32)
    return group.at[candidates.kind].max(candidates.group)


def count_by(
    label: Int32[Array, " n"], where: Bool[Array, " n"], labels: int
) -> Int32[Array, " labels"]:
    """How many rows with `where` carry each label; negative labels count nowhere."""
    counted = where & (label >= 0)
    return jnp.zeros(labels, jnp.int32).at[label].add(counted.astype(jnp.int32))


def rank_within(
    label: Int32[Array, " n"], where: Bool[Array, " n"], labels: int
) -> Int32[Array, " n"]:
    """How many earlier rows with `where` carry the same label."""
    own = label[:, None] == jnp.arange(labels, dtype=jnp.int32)[None]
    before = jnp.cumsum(own & where[:, None], axis=0, dtype=jnp.int32)
    return jnp.take_along_axis(before, label[:, None], axis=1)[:, 0] - where


class Ranking(eqx.Module):
    """Candidates sorted from best to worst, and which of them are chosen.

    All fields are in sorted order: `order[p]` is the candidate at place p. Eligible
    candidates come first, sorted by `tier` and, inside a tier, by falling `value`.
    """

    order: Int32[Array, " n"]
    chosen: Bool[Array, " n"]

    def choice(self, size: int) -> tuple[Int32[Array, " k"], Bool[Array, " k"]]:
        """The chosen candidates, best first, as an array of static length."""
        place = jnp.cumsum(self.chosen, dtype=jnp.int32) - 1
        place = jnp.where(self.chosen, place, size)
        index = jnp.zeros(size, jnp.int32).at[place].set(self.order, mode="drop")
        number = jnp.sum(self.chosen, dtype=jnp.int32)
        return index, jnp.arange(size, dtype=jnp.int32) < number


class Budget(eqx.Module):
    """Who belongs where, and how many are wanted."""

    kind: Int32[Array, " n"]
    group: Int32[Array, " n"]
    quota: Int32[Array, " groups"]
    minimum: Int32[Array, " kinds"]


def budget_of(candidates: Candidates) -> Budget:
    """The budget that the candidates come with."""
    return Budget(
        candidates.kind, candidates.group, candidates.quota, candidates.minimum
    )


def rank_under_budget(
    budget: Budget,
    may: Bool[Array, " n"],
    tier: Int32[Array, " n"],
    value: Float[Array, " n"],
    *ties: Array,
) -> Ranking:
    """The best candidates of each group under its quota and the minima of its kinds.

    The first `minimum[kind]` candidates of each kind are outstanding: they are taken
    before others of their group. What remains of the quota goes to the best of the
    rest. When the unconstrained best fulfil all minima they are what is chosen.

    **Arguments:**

    - `budget`: kinds, groups, quotas and minima.
    - `may`: who may be chosen.
    - `tier`: lower tiers come first, whatever the value.
    - `value`: larger is better.
    - `ties`: further sort keys, ascending.
    """
    n = may.shape[0]
    groups, kinds = budget.quota.shape[0], budget.minimum.shape[0]
    place = jnp.arange(n, dtype=jnp.int32)
    keys = (~may, tier, -jnp.where(may, value, 0), *ties)
    order = jax.lax.sort((*keys, place), num_keys=len(keys))[-1]

    may, kind, group = may[order], budget.kind[order], budget.group[order]
    wanted = budget.minimum[kind]
    outstanding = may & (rank_within(kind, may, kinds) < wanted)
    rest = may & ~outstanding
    taken = count_by(group, outstanding, groups)[group]
    rank = jnp.where(
        outstanding,
        rank_within(group, outstanding, groups),
        taken + rank_within(group, rest, groups),
    )
    return Ranking(order, may & (rank < budget.quota[group]))
