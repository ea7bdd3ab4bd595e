"""How much a point, or a set of points, is worth."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from .._misc import require_part
from .._types import PoolInfo


class AbstractConvergenceCriterion(eqx.Module):
    """Embeds every candidate so that a set is worth ‖Σφ(z)‖² and a point ‖φ(z)‖²."""

    @abc.abstractmethod
    def __call__(self, info: PoolInfo) -> Float[Array, "n q"]:
        """Embed the candidates.

        A criterion sees arrays only, never a PDE or a network. Fields of `info` that
        it does not touch are not computed.

        **Arguments:**

        - `info`: residuals and NTK spectrum on the pool.

        **Returns:**

        φ(z), one row a candidate: shape `(n, q)` with any q ≥ 1, so a plain score s is
        `jnp.sqrt(s)[:, None]`. Rows that are not finite are never chosen.
        """


def require_criterion(name: str, value: Any) -> None:
    """Raise `ValueError` for an argument that is no criterion."""
    require_part(name, value, AbstractConvergenceCriterion, "ConvergenceDegree()")
