"""Which candidates are chosen."""

import abc

import equinox as eqx
from jaxtyping import PRNGKeyArray

from .._types import Candidates, Selection


class AbstractSelector(eqx.Module):
    """Chooses distinct, available candidates under budgets by group and kind."""

    @abc.abstractmethod
    def __call__(
        self, candidates: Candidates, size: int, *, key: PRNGKeyArray
    ) -> Selection:
        """Choose `candidates.quota[g]` candidates of every group g.

        Every implementation keeps these laws (`pinnacle.testing.check_selector`):
        indices are distinct, available, and of finite score; group g gets
        min(quota[g], what it has) points; of each kind at least
        min(minimum[kind], what it has) are chosen as long as the quota of its group
        allows; where all scores are 0 the choice is uniform; the same key gives the
        same choice.

        **Arguments:**

        - `candidates`: the embedded pool, and what is to be chosen.
        - `size`: static length of the answer, at least the sum of the quotas.
        - `key`: a JAX random key.

        **Returns:**

        The chosen rows; `mask` counts min(quota, available) of them.
        """
