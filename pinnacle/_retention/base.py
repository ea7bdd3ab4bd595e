"""Which points of the old training set stay."""

import abc

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray, PyTree


class TrainingSetInfo(eqx.Module):
    """What a retention policy may look at: the collocation rows of the old set.

    **Attributes:**

    - `mask`: which rows hold a point; none before the first round. Experimental
      points are never offered: they are always kept.
    - `kind`: component index of each row.
    - `score`: ‖φ(z)‖² under the current criterion (costs nothing where unused).
    """

    mask: Bool[Array, " b"]
    kind: Int32[Array, " b"]
    score: Float[Array, " b"]


class Retained(eqx.Module):
    """What a retention policy decided.

    **Attributes:**

    - `keep`: rows that stay, a subset of the live rows.
    - `total`: how many collocation points the new training set has altogether.
    """

    keep: Bool[Array, " b"]
    total: Int32[Array, ""]


class AbstractRetentionPolicy(eqx.Module):
    """Decides between rounds what stays and how large the set becomes."""

    @abc.abstractmethod
    def init(self, budget: int) -> PyTree:
        """The policy's state before the first round."""

    @abc.abstractmethod
    def retain(
        self, old: TrainingSetInfo, budget: int, state: PyTree, *, key: PRNGKeyArray
    ) -> tuple[Retained, PyTree]:
        """Choose the rows that stay.

        **Arguments:**

        - `old`: the collocation rows of the previous training set.
        - `budget`: how many collocation points the set may have at most.
        - `state`: from `init` or the previous round; its structure never changes.
        - `key`: a JAX random key.

        **Returns:**

        What stays and the new state.
        """
