"""Finitely many points, such as the places where an experiment has been done."""

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from .base import AbstractDomain


class AbstractFiniteSet(AbstractDomain):
    """Finitely many locations. A candidate pool offers each of them at most once."""

    @property
    @abc.abstractmethod
    def locations(self) -> Float[Array, "N dim"]:
        """All points of the set, none of them twice."""


class FiniteSet(AbstractFiniteSet):
    """The rows of a table of coordinates, each equally likely.

    The unit coordinate v picks row ⌊v·N⌋.

    **Arguments:**

    - `x`: one location a row, shape `(N, d)`, time included.

    **Raises:**

    `ValueError` unless `x` is a table of at least one row, all numbers are real and
    finite and no two rows agree in JAX's default floating dtype. The rows are kept as
    they are given, and rounded where they are used in a lower precision.
    """

    x: Float[np.ndarray, "N d"]
    lower: tuple[float, ...] = eqx.field(static=True)
    upper: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, x: ArrayLike | Sequence[Any]):
        table = np.asarray(x)
        if table.ndim != 2 or 0 in table.shape:
            raise ValueError(
                f"`x` has shape {table.shape}: give a table with one location a row, "
                "shape (N, d); `x[:, None]` makes one of a list of numbers."
            )
        if not np.can_cast(table.dtype, np.float64, "same_kind"):
            raise ValueError(f"`x` holds {table.dtype}: give real numbers.")
        table = table.astype(np.float64)
        _check_locations(table.astype(jnp.result_type(float)))
        self.x = table
        self.lower = tuple(table.min(axis=0).tolist())
        self.upper = tuple(table.max(axis=0).tolist())

    @property
    def locations(self) -> Float[Array, "N dim"]:
        return jnp.asarray(self.x)

    @property
    def dim(self) -> int:
        return self.x.shape[1]

    @property
    def dof(self) -> int:
        return 1

    @property
    def measure(self) -> float:
        return float(self.x.shape[0])

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return self.lower, self.upper

    @property
    def time_axis(self) -> int | None:
        return None

    def from_unit(self, unit: Float[Array, "n dof"]) -> Float[Array, "n dim"]:
        count = self.x.shape[0]
        row = jnp.floor(unit[:, 0] * count).astype(jnp.int32)
        return self.locations[jnp.minimum(row, count - 1)].astype(unit.dtype)

    def contains(self, x: Float[Array, "n dim"]) -> Bool[Array, " n"]:
        table, here = self.locations.astype(x.dtype), jnp.ones((), bool)
        for axis in range(self.dim):
            largest = max(abs(self.lower[axis]), abs(self.upper[axis]))
            slack = 8 * float(jnp.finfo(x.dtype).eps) * largest
            here &= jnp.abs(x[:, axis, None] - table[None, :, axis]) <= slack
        return jnp.any(here, axis=1)


def _check_locations(table: np.ndarray) -> None:
    (bad,) = np.nonzero(~np.isfinite(table).all(axis=1))
    if bad.size:
        raise ValueError(
            f"row {bad[0]} of `x` is {table[bad[0]].tolist()}: all coordinates must be "
            "finite. Leave rows without a place out."
        )
    _, first, counts = np.unique(table, axis=0, return_index=True, return_counts=True)
    if first.size < len(table):
        row = first[counts > 1].min()
        raise ValueError(
            f"{len(table) - first.size} row(s) of `x` repeat others, first "
            f"{table[row].tolist()} of row {row}: give each location once, as "
            "`numpy.unique(x, axis=0)` does."
        )
