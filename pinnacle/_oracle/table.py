"""Measurements that have been made already."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import ArrayLike, Float

from .base import AbstractOracle


Table = ArrayLike | Sequence[Any]


class TableOracle(AbstractOracle):
    """Looks a point up among the rows of a table.

    A row is found by its exact coordinates, rounded to the precision of the run; for a
    point that is not in the table nothing is guessed, unless `nearest` asks for it.
    With [`pinnacle.FiniteSet`][] of the same `x` as domain only rows are asked for.

    **Arguments:**

    - `x`: coordinates, one location a row, shape `(N, d)`; no rows at all where nothing
      has been measured so far.
    - `values`: what was measured there, shape `(N, rows)`, or `(N,)` for one number.
    - `nearest`: whether a point takes the label of the nearest row, by the Euclidean
      distance in the coordinates as they are.

    **Raises:** `ValueError` for tables that do not fit together, numbers that are not
    finite, and rows of equal coordinates with different values. `measure` raises
    `LookupError` for a point that is not in the table, and `ValueError` for a point of
    another dimension, and where rows with different values can only be told apart in a
    higher precision.
    """

    x: Float[np.ndarray, "N d"]
    values: Float[np.ndarray, "N rows"]
    nearest: bool = eqx.field(static=True)

    def __init__(self, x: Table, values: Table, nearest: bool = False):
        self.x, self.values = _as_floats("x", x), _as_floats("values", values)
        if self.values.ndim == 1:
            self.values = self.values[:, None]
        self.nearest = nearest

    def __check_init__(self):
        if self.x.ndim != 2 or self.values.ndim != 2:
            raise ValueError(
                f"`x` has shape {self.x.shape} and `values` {self.values.shape}: give "
                "one location and its numbers a row, shapes (N, d) and (N, rows)."
            )
        if len(self.x) != len(self.values):
            raise ValueError(
                f"`x` has {len(self.x)} rows, `values` has {len(self.values)}: give "
                "the values of every location."
            )
        for name, table in (("x", self.x), ("values", self.values)):
            _check_finite(name, table)
        order = np.lexsort(self.x.T)
        same = (self.x[order[1:]] == self.x[order[:-1]]).all(axis=1)
        _check_agree(self, order, same)

    def measure(self, x, *, key) -> np.ndarray:
        del key
        if self.x.shape[1] != len(x):
            raise ValueError(
                f"the table's `x` has {self.x.shape[1]} column(s), but a point has "
                f"{len(x)} coordinates: give the table all of them, in their order."
            )
        if self.nearest and len(self.x):
            distance = ((self.x - x) ** 2).sum(axis=1)
            return self.values[np.argmin(distance)]
        (rows,) = np.nonzero((self.x.astype(x.dtype) == x).all(axis=1))
        if not rows.size:
            raise LookupError(
                f"no row of the table lies at ({', '.join(map(str, x))}): use "
                "`FiniteSet` of the table's `x` as domain, or ask for the nearest row "
                "by `nearest=True`."
            )
        _check_agree(self, rows, np.ones(rows.size - 1, bool))
        return self.values[rows[0]]


def _as_floats(name: str, table: Table) -> np.ndarray:
    array = np.asarray(table)
    if np.issubdtype(array.dtype, np.integer):
        return array.astype(np.float64)
    if not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"`{name}` holds {array.dtype}: give real numbers.")
    return array


def _check_finite(name: str, table: np.ndarray) -> None:
    (bad,) = np.nonzero(~np.isfinite(table).all(axis=1))
    if bad.size:
        raise ValueError(
            f"row {bad[0]} of `{name}` is {table[bad[0]].tolist()}: all numbers must "
            "be finite. Leave rows without a measurement out."
        )


def _check_agree(table: TableOracle, rows: np.ndarray, same: np.ndarray) -> None:
    """Neighbours in `rows` with the same coordinates must have the same values."""
    first, second = rows[:-1], rows[1:]
    differ = same & (table.values[first] != table.values[second]).any(axis=1)
    if differ.any():
        i = np.argmax(differ)
        a, b = sorted((int(first[i]), int(second[i])))
        raise ValueError(
            f"rows {a} and {b} of the table both lie at {table.x[a].tolist()}, but "
            f"their values differ, {table.values[a].tolist()} and "
            f"{table.values[b].tolist()}: give each location once, for instance with "
            "the mean of its measurements."
        )
