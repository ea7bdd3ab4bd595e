"""The figures of an experiment, from its finished units."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from .. import plotting
from .._checkpoint import load
from ..problems import predict
from .config import from_dict
from .folder import RunFolder
from .run import Experiment, build, precision
from .tables import FinishedUnit, Rows, counts_over_time, percentile


_WORDS = {"mse": "mean squared error", "relative_l2": "relative $L_2$ error"}
_MOST = 12  # rows shown in one figure; the best ones if there are more
_APART = 5.0  # times as long as the shortest: seconds are drawn logarithmically
_ROUNDS = 4  # shown of each row in the figure of the dynamics


def draw(folder: pathlib.Path, about: Mapping[str, Any], rows: Rows) -> list[str]:
    """Errors over steps and time, counts by kind, unknown coefficients, predicted
    fields and their errors, and the points over the training, into `figures/`.

    **Returns:**

    The names of the files.
    """
    shown = _best_rows(rows, about["metric"])
    drawn = {
        **_curves(shown, about),
        **_counts(shown),
        **_coefficients(shown),
        **_fields(shown, about["metric"]),
        **_dynamics(shown),
    }
    return RunFolder(folder).write_figures(drawn)


def _best_rows(rows: Rows, metric: str) -> Rows:
    median = {
        name: percentile([run.value(metric) for run in runs], 0.5)
        for name, runs in rows.items()
    }
    kept = sorted(rows, key=median.__getitem__)[:_MOST]
    return {name: runs for name, runs in rows.items() if name in kept}


def _experiment(run: FinishedUnit) -> Experiment:
    """The objects of a run; to be called, and used, in the run's precision."""
    return build(from_dict(run.record["config"]))


def _precision(run: FinishedUnit):
    return precision(from_dict(run.record["config"]))


def course(runs: list[FinishedUnit], metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps, and the metric at them, a row a seed; NaN where a run has no value."""
    tables = [run.history() for run in runs]
    steps = np.unique([row["step"] for table in tables for row in table])
    values = np.full((len(runs), steps.size), np.nan)
    for line, table in zip(values, tables, strict=True):
        where = np.searchsorted(steps, [row["step"] for row in table])
        line[where] = [float(row.get(metric, np.nan)) for row in table]
    return steps, values


def _seconds(runs: list[FinishedUnit]) -> np.ndarray:
    """The median of the seeds' time at each step, without compiling."""
    names = ("seconds_training", "seconds_selecting", "seconds_compiling")
    training, selecting, compiling = (course(runs, name)[1] for name in names)
    middle = np.nanmedian(training + selecting - compiling, axis=0)
    return np.maximum.accumulate(np.maximum(middle, 0))


def _curves(rows: Rows, about: Mapping[str, Any]) -> dict[str, Figure]:
    metric, threshold = about["metric"], about["threshold"]
    words = _WORDS.get(metric, metric)
    by_step = {label: course(runs, metric) for label, runs in rows.items()}
    by_time = {
        label: (_seconds(rows[label]), values) for label, (_, values) in by_step.items()
    }
    line = {"quantity": words, "threshold": threshold}
    ends = [float(seconds[-1]) for seconds, _ in by_time.values() if len(seconds)]
    apart = max(ends, default=0) > _APART * min(ends, default=0) > 0
    return {
        "errors": plotting.errors(by_step, **line),
        "errors-time": plotting.errors(by_time, x="seconds", log_x=apart, **line),
    }


def _counts(rows: Rows) -> dict[str, Figure]:
    """Nothing where there is only one kind of points."""
    tables = {}
    for label, runs in rows.items():
        steps, kinds, counts = counts_over_time(runs)
        tables[label] = (steps, kinds, np.mean(counts, axis=0))
    last = max(run.record["steps"] for runs in rows.values() for run in runs)
    several = max(len(kinds) for _, kinds, _ in tables.values()) > 1
    return {"counts": plotting.counts_by_method(tables, last)} if several else {}


def _coefficients(rows: Rows) -> dict[str, Figure]:
    first = next(iter(rows.values()))[0]
    with _precision(first):
        true = _experiment(first).problem.true_coefficients
    return coefficient_figures(
        true,
        lambda column: {label: course(runs, column) for label, runs in rows.items()},
    )


def coefficient_figures(
    true: Mapping[str, float], courses: Callable[[str], plotting.Courses]
) -> dict[str, Figure]:
    """The unknown coefficients over the steps, with their true values.

    `courses` gives a column of the history by label: steps, and a row a seed.
    """
    return {
        f"coefficient-{name}": plotting.errors(
            courses(f"coefficient/{name}"), quantity=name, truth=float(value), log=False
        )
        for name, value in true.items()
    }


def _fields(rows: Rows, metric: str) -> dict[str, Figure]:
    """Predictions and errors of the middle seed of each row."""
    predictions, experiment = {}, None
    for label, runs in rows.items():
        alive = [run for run in runs if not run.failed]
        if not alive:
            continue
        run = sorted(alive, key=lambda r: r.value(metric))[(len(alive) - 1) // 2]
        with _precision(run):
            experiment = _experiment(run)
            model = load(run.folder / "model.eqx", experiment.model())
            x = jnp.asarray(experiment.reference.x)
            prediction = np.asarray(predict(model, x))
            predictions[label] = _gauged(experiment, prediction)
    if experiment is None:
        return {}
    problem, reference = experiment.problem, experiment.reference
    symbols = {"coordinates": problem.coordinates, "outputs": problem.outputs}
    figures, known = {}, reference.values.shape[1]
    for i, name in enumerate(problem.outputs[:known]):
        suffix = f"-{name}" if known > 1 else ""
        for kind, error in (("fields", False), ("field-errors", True)):
            figures[f"{kind}{suffix}"] = plotting.fields(
                reference, predictions, output=i, error=error, **symbols
            )
    return figures


def _gauged(experiment: Experiment, prediction: np.ndarray) -> np.ndarray:
    """The prediction with the true values of what no equation fixes."""
    true, times = experiment.reference.values, experiment.reference.shape[-1]
    ours = jnp.asarray(prediction)[:, : true.shape[1]]

    def bare(values):
        return experiment.problem.without_gauge(jnp.asarray(values), times)

    return np.asarray(bare(ours) + (true - bare(true)))


def _dynamics(rows: Rows) -> dict[str, Figure]:
    """The points of the first seed, from the predictions that it kept."""
    first = {
        label: runs[0]
        for label, runs in rows.items()
        if (runs[0].folder / "snapshots.npz").is_file()
    }
    if not first:
        return {}
    run = next(iter(first.values()))
    with _precision(run):
        experiment = _experiment(run)
        reference, problem = experiment.reference, experiment.problem
    rounds = {label: _rounds(run) for label, run in first.items()}
    figure = plotting.dynamics(
        reference,
        rounds,
        names=problem.space.names,
        coordinates=problem.coordinates,
        output=problem.outputs[0],
    )
    return {"dynamics": figure}


def _rounds(run: FinishedUnit) -> list[plotting.Round]:
    points = run.folder.read_arrays("points.npz")
    snapshots = run.folder.read_arrays("snapshots.npz")
    place = {number: i for i, number in enumerate(points["round"].tolist())}
    both = [i for i, r in enumerate(snapshots["round"].tolist()) if r in place]
    rounds = []
    for i in (both[j] for j in plotting.thin(len(both), _ROUNDS)):
        j = place[int(snapshots["round"][i])]
        live = points["mask"][j]
        x, kind, new = (points[name][j][live] for name in ("x", "kind", "new"))
        step = int(snapshots["step"][i])
        rounds.append(plotting.Round(step, snapshots["values"][i], x, kind, new))
    return rounds
