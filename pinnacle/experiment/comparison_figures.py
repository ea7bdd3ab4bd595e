"""The figures of an experiment, from its finished units."""

import pathlib
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from .. import plotting
from .._checkpoint import load
from ..problems import predict
from .config import from_dict
from .run import build, precision
from .tables import Finished, Rows, counts_over_time, percentile


_WORDS = {"mse": "mean squared error", "relative_l2": "relative $L_2$ error"}
_MOST = 12  # rows shown in one figure; the best ones if there are more


def draw(folder: pathlib.Path, about: Mapping[str, Any], rows: Rows) -> list[str]:
    """Error curves, counts by kind and predicted fields, into `figures/`.

    **Returns:**

    The names of the files.
    """
    metric = about["metric"]
    shown = _best_rows(rows, metric)
    drawn = {"errors": _errors(shown, metric), "counts": _counts(shown)}
    drawn |= _fields(shown, metric)
    (folder / "figures").mkdir(exist_ok=True)
    for name, figure in drawn.items():
        figure.savefig(folder / "figures" / f"{name}.png")
    return [f"{name}.png" for name in drawn]


def _best_rows(rows: Rows, metric: str) -> Rows:
    median = {
        n: percentile([r.value(metric) for r in runs], 0.5) for n, runs in rows.items()
    }
    kept = sorted(rows, key=median.__getitem__)[:_MOST]
    return {name: runs for name, runs in rows.items() if name in kept}


def courses(runs: list[Finished], metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps, and the metric at them, a row a seed; NaN where a run has no value."""
    tables = [run.history() for run in runs]
    steps = np.unique([row["step"] for table in tables for row in table])
    values = np.full((len(runs), steps.size), np.nan)
    for line, table in zip(values, tables, strict=True):
        where = np.searchsorted(steps, [row["step"] for row in table])
        line[where] = [float(row.get(metric, np.nan)) for row in table]
    return steps, values


def _errors(rows: Rows, metric: str) -> Figure:
    every = {label: courses(runs, metric) for label, runs in rows.items()}
    return plotting.errors(every, quantity=_WORDS.get(metric, metric))


def _counts(rows: Rows) -> Figure:
    tables = {}
    for label, runs in rows.items():
        steps, kinds, counts = counts_over_time(runs)
        tables[label] = (steps, kinds, np.median(counts, axis=0))
    last = max(run.record["steps"] for runs in rows.values() for run in runs)
    return plotting.counts_by_method(tables, last)


def _fields(rows: Rows, metric: str) -> dict[str, Figure]:
    """Predictions and errors of the middle seed of each row."""
    predictions, problem, reference = {}, None, None
    for label, runs in rows.items():
        alive = [run for run in runs if not run.failed]
        if not alive:
            continue
        run = sorted(alive, key=lambda r: r.value(metric))[(len(alive) - 1) // 2]
        config = from_dict(run.record["config"])
        with precision(config):
            experiment = build(config)
            model = load(run.folder / "model.eqx", experiment.model())
            problem, reference = experiment.problem, experiment.reference
            predictions[label] = np.asarray(predict(model, jnp.asarray(reference.x)))
    if problem is None or reference is None:
        return {}
    symbols = {"coordinates": problem.coordinates, "outputs": problem.outputs}
    figures = {}
    for i, name in enumerate(problem.outputs):
        suffix = f"-{name}" if len(problem.outputs) > 1 else ""
        for kind, error in (("fields", False), ("field-errors", True)):
            figures[f"{kind}{suffix}"] = plotting.fields(
                reference, predictions, output=i, error=error, **symbols
            )
    return figures
