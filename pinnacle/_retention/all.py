"""Keep everything and grow, in the manner of RAR."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int32, PRNGKeyArray

from ._keep import as_count
from .base import AbstractRetentionPolicy, Retained, TrainingSetInfo


class KeepAll(AbstractRetentionPolicy):
    """Keeps everything and adds points until the budget is full.

    The first round has min(initial, budget) points, each later one
    min(live + new, budget). Source: residual-based adaptive refinement, Lu et al. 2021.

    **Arguments:**

    - `initial`: points of the first round, ≥ 1.
    - `new`: points added a round, ≥ 0.
    """

    initial: Int32[Array, ""] = eqx.field(converter=as_count("initial", 1))
    new: Int32[Array, ""] = eqx.field(converter=as_count("new", 0))

    def init(self, budget: int) -> None:
        return None

    def retain(
        self, old: TrainingSetInfo, budget: int, state: None, *, key: PRNGKeyArray
    ) -> tuple[Retained, None]:
        live = jnp.sum(old.mask, dtype=jnp.int32)
        wanted = jnp.where(live > 0, live + self.new, self.initial)
        return Retained(old.mask, jnp.minimum(wanted, budget)), state
