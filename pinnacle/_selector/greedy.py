"""The candidates of highest score."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from .._types import Candidates, Selection
from ._budget import budget_of, eligible, log_scores, rank_under_budget
from .base import AbstractSelector


class Greedy(AbstractSelector):
    """Chooses the candidates of largest ‖φ(z)‖²; equal scores are ordered at random."""

    def __call__(
        self, candidates: Candidates, size: int, *, key: PRNGKeyArray
    ) -> Selection:
        score = log_scores(candidates.embedding)
        may = eligible(candidates)
        lottery = jax.random.bits(key, may.shape)
        tier = jnp.zeros(may.shape, jnp.int32)
        ranking = rank_under_budget(budget_of(candidates), may, tier, score, lottery)
        index, mask = ranking.choice(size)
        return Selection(index, mask, jnp.ones(size, candidates.embedding.dtype))
