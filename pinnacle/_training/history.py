"""What a run did, as columns."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from .._types import Points


@dataclasses.dataclass(frozen=True)
class History:
    """The course of a run, as columns that a data-frame library reads.

    **Attributes:**

    - `training`: one row a report: `step`, `seconds_training`, `seconds_selecting` and
      `seconds_compiling` (all cumulated, the last part of the other two), `loss` and
      `loss/<kind>`, the metrics, the unknown coefficients, and what the optimiser
      reports.
    - `rounds`: one row a selection: `round`, `step`, `reason` (`"first"`, `"period"`,
      `"drift"`, or `"refused"` by the optimiser), `drift`, `seconds`, and by kind
      `count/…`, `new/…`, `share/…` (share of the pool's score).
    - `points`: the training set after each selection.
    """

    training: Mapping[str, np.ndarray]
    rounds: Mapping[str, np.ndarray]
    points: Sequence[Points]

    def __repr__(self) -> str:
        reports, rounds = (len(t.get("step", ())) for t in (self.training, self.rounds))
        names = ", ".join(self.training)
        return f"History({reports} reports of {names}; {rounds} rounds)"

    def last(self) -> dict[str, float | int]:
        """The newest row of `training`; empty before the first report."""
        return {name: values[-1].item() for name, values in self.training.items()}

    def __add__(self, later: "History") -> "History":
        """This history followed by that of the run that went on; so do its clocks."""
        clocks = {
            name: values + self.training[name][-1]
            for name, values in later.training.items()
            if name.startswith("seconds_") and name in self.training
        }
        return History(
            _append(self.training, {**later.training, **clocks}),
            _append(self.rounds, later.rounds),
            [*self.points, *later.points],
        )


def columns(rows: Sequence[Mapping]) -> dict[str, np.ndarray]:
    """Rows as columns; what a row does not have is NaN."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}


def _append(first: Mapping, second: Mapping) -> dict[str, np.ndarray]:
    return columns([*_rows(first), *_rows(second)])


def _rows(table: Mapping[str, np.ndarray]) -> list[dict]:
    return [
        dict(zip(table, values, strict=True))
        for values in zip(*table.values(), strict=True)
    ]
