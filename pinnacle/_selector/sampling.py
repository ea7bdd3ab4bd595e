"""Sampling ∝ score without replacement: PINNACLE-S."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray

from .._misc import as_number_or_none, require_number
from .._types import Candidates, Selection
from ._budget import (
    Ranking,
    budget_of,
    count_by,
    eligible,
    log_scores,
    rank_under_budget,
)
from .base import AbstractSelector


class Sampling(AbstractSelector):
    """Draws one candidate after the other, each ∝ ‖φ(z)‖² among those left.

    Done at once by the largest log ‖φ(z)‖² + Gumbel noise. Candidates of score 0 come
    after all others, in uniformly random order. Under a minimum per kind the first
    `minimum` of each kind in that order are taken first.

    With `importance`, the chosen rows carry weights that undo the preference for high
    scores: for any f,

        Σ_{chosen z of kind r} weight(z) f(z) / #chosen_r

    has the expectation Σf(z)/#pool_r over the candidates z of kind r that can come up
    (those of score 0 do only after all others), the sum counting as 0 when none is
    chosen. weight = (#chosen_r / #pool_r) / π(z), with π(z)
    the probability that z is chosen given the noise of all other candidates:
    π = 1 − exp(−score · e^{−κ}), κ being the key below which z would have dropped out.
    It is exact as long as the minima of a group do not exceed its quota. Source: Kool
    et al. 2019, "Stochastic beams and where to find them", section 4.2, after
    Duffield et al. 2007, "Priority sampling".

    **Arguments:**

    - `importance`: whether to give importance weights (default: all are 1).
    - `clip`: largest weight, `None` for no limit. Clipping bounds the variance and
      makes the mean a little too small.
    """

    importance: bool = eqx.field(static=True, default=False)
    clip: Float[Array, ""] | None = eqx.field(converter=as_number_or_none, default=None)

    def __check_init__(self):
        require_number(
            "clip", self.clip, lambda c: c > 0, "a weight > 0, or None for no limit"
        )

    def __call__(
        self, candidates: Candidates, size: int, *, key: PRNGKeyArray
    ) -> Selection:
        score = log_scores(candidates.embedding)
        may = eligible(candidates)
        zero = score == -jnp.inf
        score = jnp.where(zero, 0, score)
        noise = jax.random.gumbel(key, score.shape, score.dtype, mode="high")
        perturbed = score + noise
        tier = zero.astype(jnp.int32)
        ranking = rank_under_budget(budget_of(candidates), may, tier, perturbed)
        index, mask = ranking.choice(size)
        weight = jnp.ones(size, score.dtype)
        if self.importance:
            weights = _importance(candidates, may, tier, score, perturbed, ranking)
            weights = weights if self.clip is None else _clip(weights, self.clip)
            weight = jnp.where(mask, weights[index], 1)
        return Selection(index, mask, weight)


def _clip(weight: Float[Array, " n"], clip: Float[Array, ""]) -> Float[Array, " n"]:
    return jnp.minimum(weight, clip.astype(weight.dtype))


def _importance(
    candidates: Candidates,
    may: Bool[Array, " n"],
    tier: Int32[Array, " n"],
    score: Float[Array, " n"],
    perturbed: Float[Array, " n"],
    ranking: Ranking,
) -> Float[Array, " n"]:
    """(#chosen_kind / #pool_kind) / π(z), in pool order; meaningless if not chosen."""
    kinds, groups = candidates.minimum.shape[0], candidates.quota.shape[0]
    kind, group, order = candidates.kind, candidates.group, ranking.order
    chosen = jnp.zeros_like(may).at[order].set(ranking.chosen)
    number = count_by(kind, chosen, kinds)
    pool = count_by(kind, may, kinds)

    # With a lower key, z leaves the choice to the best candidate that is not chosen:
    # of its own kind where the kind has no more than its minimum, else of its group.
    n = may.shape[0]
    left = jnp.where(may[order] & ~ranking.chosen, jnp.arange(n, dtype=jnp.int32), n)
    by_kind = jnp.full(kinds, n, jnp.int32).at[kind[order]].min(left)
    by_group = jnp.full(groups, n, jnp.int32).at[group[order]].min(left)
    tight = number[kind] <= candidates.minimum[kind]
    next_place = jnp.where(tight, by_kind[kind], by_group[group])
    rival = order[jnp.minimum(next_place, n - 1)]

    # Without a rival of the same tier z is chosen whatever its noise.
    contested = (next_place < n) & (tier[rival] == tier)
    exponent = jnp.minimum(score - perturbed[rival], 80)
    probability = jnp.where(contested, -jnp.expm1(-jnp.exp(exponent)), 1)
    tiny = jnp.finfo(probability.dtype).tiny
    share = number[kind] / jnp.maximum(pool[kind], 1).astype(probability.dtype)
    return share / jnp.maximum(probability, tiny)
