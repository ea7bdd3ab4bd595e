"""Draw the whole training set afresh."""

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from .base import AbstractRetentionPolicy, Retained, TrainingSetInfo


class KeepNone(AbstractRetentionPolicy):
    """Keeps nothing: every round selects the whole budget."""

    def init(self, budget: int) -> None:
        return None

    def retain(
        self, old: TrainingSetInfo, budget: int, state: None, *, key: PRNGKeyArray
    ) -> tuple[Retained, None]:
        total = jnp.asarray(budget, jnp.int32)
        return Retained(jnp.zeros_like(old.mask), total), state
