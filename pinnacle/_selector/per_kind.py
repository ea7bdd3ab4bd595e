"""Fixed shares of the budget by kind."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, PRNGKeyArray

from .._misc import as_number_or_none, require_number, require_part
from .._types import Candidates, Selection
from ._budget import Budget, count_by, eligible, group_of_kind, rank_under_budget
from .base import AbstractSelector


class PerKindQuota(AbstractSelector):
    """Gives every kind its own budget, a fixed share of the budget of its group.

    With T the size of the group after this round (quota plus retained points), kind r
    is to have share_r · T points; leftovers of rounding go to the largest remainders.
    The points it has retained count. The total is always the quota of the group: a
    kind with more retained points than its share takes places from the others, a kind
    with fewer candidates than places leaves them to the others, and minima per kind
    are kept. Inside a kind `selector` chooses as if it were alone, except that
    K-means++ still sees the centres of all kinds.

    **Arguments:**

    - `selector`: chooses inside each kind.
    - `shares`: one number ≥ 0 a kind, in component order; only the ratios inside a
      group count. `None`: all kinds of a group have equal shares.
    """

    selector: AbstractSelector
    shares: Float[Array, " kinds"] | None = eqx.field(
        converter=as_number_or_none, default=None
    )

    def __check_init__(self):
        require_part("selector", self.selector, AbstractSelector, "KMeansPlusPlus()")
        require_number(
            "shares",
            self.shares,
            lambda s: s.ndim == 1 and np.all(s >= 0) and np.any(s > 0),
            "one number ≥ 0 for each kind, not all 0",
        )

    def __call__(
        self, candidates: Candidates, size: int, *, key: PRNGKeyArray
    ) -> Selection:
        kinds = candidates.minimum.shape[0]
        if self.shares is not None and self.shares.shape != (kinds,):
            raise ValueError(
                f"`shares` has {self.shares.size} entries but there are {kinds} kinds: "
                "give one share for each component of the space, in its order."
            )
        split = dataclasses.replace(
            candidates,
            group=candidates.kind,
            quota=self._quota_by_kind(candidates, size),
            minimum=jnp.zeros_like(candidates.minimum),
        )
        return self.selector(split, size, key=key)

    def _quota_by_kind(
        self, candidates: Candidates, size: int
    ) -> Int32[Array, " kinds"]:
        """Deal out the places of each group to its kinds, one after the other.

        The j-th new place of kind r has the claim share_r·T − retained_r − j; the
        highest claims win. That is the method of largest remainders.
        """
        kinds = candidates.minimum.shape[0]
        group = group_of_kind(candidates)
        target, retained = self._targets(candidates, group)
        supply = count_by(candidates.kind, eligible(candidates), kinds)
        j = jnp.arange(size, dtype=jnp.int32)[None]
        claim = (target - retained)[:, None] - j.astype(target.dtype)
        exists = j < supply[:, None]
        kind = jnp.arange(kinds, dtype=jnp.int32)
        places = Budget(
            jnp.repeat(kind, size),
            jnp.repeat(group, size),
            candidates.quota,
            candidates.minimum,
        )
        tier = jnp.zeros(kinds * size, jnp.int32)
        ranking = rank_under_budget(places, exists.ravel(), tier, claim.ravel())
        return count_by(places.kind[ranking.order], ranking.chosen, kinds)

    def _targets(
        self, candidates: Candidates, group: Int32[Array, " kinds"]
    ) -> tuple[Float[Array, " kinds"], Float[Array, " kinds"]]:
        """share_r · T of each kind, and how many points of it are retained."""
        kinds, groups = candidates.minimum.shape[0], candidates.quota.shape[0]
        retained = count_by(candidates.retained_kind, candidates.retained_mask, kinds)
        retained = jnp.where(group >= 0, retained, 0)
        total = candidates.quota.at[group].add(retained)[group]
        shares = jnp.ones(kinds) if self.shares is None else self.shares
        shares = jnp.where(group >= 0, shares, 0)
        whole = jnp.zeros(groups, shares.dtype).at[group].add(shares)[group]
        share = shares / jnp.where(whole > 0, whole, 1)
        return share * total.astype(share.dtype), retained.astype(share.dtype)
