"""Keep the old points that are worth most now."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PRNGKeyArray

from .._misc import as_number_or_none
from ._keep import (
    as_new_or_none,
    number_kept,
    ranks,
    require_fraction_or_new,
    require_new_in_budget,
)
from .base import AbstractRetentionPolicy, Retained, TrainingSetInfo


class KeepBest(AbstractRetentionPolicy):
    """Keeps the live rows of highest score; the total is the budget.

    Equal scores are ordered at random, scores that are not finite come last.

    **Arguments:**

    - `fraction`: share of the live rows that stays, in [0, 1].
    - `new`: how many live rows make place for new points, ≥ 0.

    Exactly one of the two is given.
    """

    fraction: Float[Array, ""] | None = eqx.field(
        converter=as_number_or_none, default=None
    )
    new: Int32[Array, ""] | None = eqx.field(converter=as_new_or_none, default=None)

    def __check_init__(self):
        require_fraction_or_new(self.fraction, self.new)

    def init(self, budget: int) -> None:
        require_new_in_budget(self.new, budget)

    def retain(
        self, old: TrainingSetInfo, budget: int, state: None, *, key: PRNGKeyArray
    ) -> tuple[Retained, None]:
        score = jnp.where(jnp.isfinite(old.score), old.score, -jnp.inf)
        lottery = jax.random.uniform(key, old.mask.shape)
        kept = number_kept(old.mask, self.fraction, self.new)
        keep = old.mask & (ranks(old.mask, -score, lottery) < kept)
        return Retained(keep, jnp.asarray(budget, jnp.int32)), state
