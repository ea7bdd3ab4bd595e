"""The candidates of highest score."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Candidates, Selection
from ._budget import budget_of, eligible, log_scores, rank_under_budget
from .base import AbstractSelector


class Greedy(AbstractSelector):
    """Chooses the candidates of largest ‖φ(z)‖²; equal scores are ordered at random."""

    def __call__(
        self, candidates: Candidates, size: int, *, key: PRNGKeyArray
    ) -> Selection:
        score = log_scores(candidates.embedding)
        return choose_best(candidates, score, size, key=key)


def choose_best(
    candidates: Candidates, value: Float[Array, " n"], size: int, *, key: PRNGKeyArray
) -> Selection:
    """The candidates of largest value under the quotas and minima: the end of a
    selector that gives each candidate a number.

    Of each group the best are chosen, up to its quota, of each kind at least its
    minimum. Equal values are ordered at random. Nothing is chosen that is unavailable,
    whose embedding is not finite, or whose value is NaN.

    **Arguments:**

    - `candidates`, `size`, `key`: what the selector was called with.
    - `value`: larger is better; −∞ is allowed.

    **Returns:**

    The chosen rows, best first, all of weight 1.

    **Raises:** `ValueError` unless there is one value a candidate.
    """
    if value.shape != candidates.kind.shape:
        raise ValueError(
            f"`value` has shape {value.shape} for {candidates.kind.shape[0]} "
            "candidates: give one number each."
        )
    may = eligible(candidates) & ~jnp.isnan(value)
    lottery = jax.random.bits(key, may.shape)
    tier = jnp.zeros(may.shape, jnp.int32)
    ranking = rank_under_budget(budget_of(candidates), may, tier, value, lottery)
    index, mask = ranking.choice(size)
    return Selection(index, mask, jnp.ones(size, candidates.embedding.dtype))
