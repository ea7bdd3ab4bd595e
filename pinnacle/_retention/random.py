"""Keep a random part of the old set, as the paper does."""

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


class RandomRetention(AbstractRetentionPolicy):
    """Keeps a part of the live rows, each equally often; the total is the budget.

    Say it either way: `RandomRetention(fraction=0.5)` keeps exactly
    round(fraction × live) rows, `RandomRetention(new=100)` keeps all but 100 of them
    (the paper's "new points a round").

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
        lottery = jax.random.uniform(key, old.mask.shape)
        kept = number_kept(old.mask, self.fraction, self.new)
        keep = old.mask & (ranks(old.mask, lottery) < kept)
        return Retained(keep, jnp.asarray(budget, jnp.int32)), state
