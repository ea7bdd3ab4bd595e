"""What is checked at a point."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from .._geometry.base import AbstractDomain
from .._model import Model


class AbstractOperator(eqx.Module):
    """F in the residual R(z) = F[u](z) − F[u*](z) (the paper's eq. for F, `eq:Fop`)."""

    @property
    @abc.abstractmethod
    def rows(self) -> int:
        """Number of residual rows m at one point."""

    @abc.abstractmethod
    def __call__(self, u: Model, x: Float[Array, " d"]) -> Float[Array, " m"]:
        """Apply the operator at one point.

        **Arguments:**

        - `u`: the model; `u(x)` is its value (shape `(outputs,)`) at any point, and
          `u["name"]` an unknown coefficient.
        - `x`: one point.

        **Returns:**

        F[u](x), `rows` numbers.
        """

    def check(self, domain: AbstractDomain) -> None:
        """Raise `ValueError` if the operator makes no sense on `domain`."""
        del domain
