"""Figures that compare methods over several seeds."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure

from ..problems import Reference
from ._fields import (
    _background,
    _bar,
    _explain,
    _field,
    _frame,
    _height,
    _largest,
    _limits,
    _plane,
    _scatter,
    _slice,
)
from ._style import new_figure, outer, styled, styles


# By method: steps "n" and values "seeds n"; steps "n", names of the kinds and counts
# "n kinds". The methods need not have the same steps.
Courses = Mapping[str, tuple[np.ndarray, np.ndarray]]
Counts = Mapping[str, tuple[np.ndarray, Sequence[str], np.ndarray]]


@styled
def errors(
    courses: Courses,
    *,
    quantity: str = "mean squared error",
    x: str = "step",
    truth: float | None = None,
    threshold: float | None = None,
    log: bool = True,
    log_x: bool = False,
) -> Figure:
    """A number over the steps, or over time: the median of the seeds, and a band from
    the 20th to the 80th percentile (the paper's error plots).

    **Arguments:**

    - `courses`: by method, the steps and a row of values for each seed.
    - `quantity`, `x`: labels of the axes.
    - `truth`, `threshold`: where a black and a dotted line show the true value, and one
      that is to be reached.
    - `log`, `log_x`: whether the axis of the values, and of the steps, is logarithmic;
      of the steps it begins at a thirtieth of the shortest course.
    """
    figure, axes = new_figure(1, 1, 7.4, 3.8)
    axis = axes[0, 0]
    for name, colour, _, line in styles(list(courses)):
        steps, values = courses[name]
        values = np.where(np.isfinite(values), values, np.nan)
        with np.errstate(all="ignore"):
            low, middle, high = _percentiles(values)
        axis.plot(steps, middle, line, color=colour, label=name)
        axis.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
    if truth is not None:
        axis.axhline(truth, color="black", linewidth=0.8, zorder=0)
    if threshold is not None:
        axis.axhline(threshold, color="0.3", linestyle=":", linewidth=1.0, zorder=0)
    axis.set(xlabel=x, ylabel=quantity, yscale="log" if log else "linear")
    ends = [steps[-1] for steps, _ in courses.values() if len(steps)]
    if log_x and min(ends, default=0) > 0:
        axis.set(xscale="log", xlim=(min(ends) / 30, max(ends)))
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _percentiles(values: Float[np.ndarray, "seeds n"]) -> list[np.ndarray]:
    """Of the seeds that have a value at a step; NaN where none has."""
    rows = [np.full(values.shape[1], np.nan) for _ in range(3)]
    for i in np.flatnonzero(np.isfinite(values).any(axis=0)):
        live = values[np.isfinite(values[:, i]), i]
        for row, share in zip(rows, (20, 50, 80), strict=True):
            row[i] = np.percentile(live, share)
    return rows


@styled
def counts_by_method(tables: Counts, last: int) -> Figure:
    """Training points by kind over the steps, a panel a method.

    **Arguments:**

    - `tables`: by method, the steps of the rounds, the names of the kinds, and the
      counts.
    - `last`: the step at which the runs ended.
    """
    columns = min(len(tables), 4)
    rows = -(-len(tables) // columns)
    figure, axes = new_figure(rows, columns, 2.4 * columns + 0.6, 1.9 * rows + 0.5)
    highest = max(counts.sum(axis=1).max() for _, _, counts in tables.values())
    for axis, (name, (steps, kinds, counts)) in zip(
        axes.ravel(), tables.items(), strict=False
    ):
        end = np.append(steps, max(last, steps[-1] + 1))
        axis.stackplot(
            end,
            np.append(counts, counts[-1:], axis=0).T,
            step="post",
            labels=kinds,
            colors=[colour for _, colour, _, _ in styles(kinds)],
            edgecolor="white",
            linewidth=0.2,
        )
        axis.set(title=name, xlabel="step", ylabel="points")
        axis.set(xlim=(end[0], end[-1]), ylim=(0, highest))
        axis.locator_params(nbins=4)
    outer(axes)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


@styled
def fields(
    reference: Reference,
    predictions: Mapping[str, Float[np.ndarray, "n outputs"]],
    *,
    coordinates: Sequence[str] = ("x", "t"),
    outputs: Sequence[str] = ("u",),
    output: int = 0,
    error: bool = False,
) -> Figure:
    """The true solution and what each method makes of it, or its errors.

    In more than two coordinates the figure shows the plane of the first two, at the
    last time (coordinate `t`) and in the middle of the others.

    **Arguments:**

    - `reference`: the solution on a grid.
    - `predictions`: by method, the network's outputs at `reference.x`.
    - `coordinates`, `outputs`: their symbols.
    - `output`: which output is shown.
    - `error`: whether to show û − u instead of û, all on one scale.
    """
    true = _slice(reference, reference.values[:, output], coordinates)
    symbol = outputs[output]
    shown = {
        n: _slice(reference, np.asarray(p)[:, output], coordinates)
        for n, p in predictions.items()
    }
    if error:
        shown = {name: values - true for name, values in shown.items()}
        worst = [np.percentile(np.abs(v[np.isfinite(v)]), 99) for v in shown.values()]
        limit, cmap = float(max(worst, default=1.0)) or 1.0, "PuOr_r"
    else:
        limit, cmap = _largest(true), "RdBu_r"
    words = "error of " if error else ""
    panels = {f"true ${symbol}$": true, **{words + n: v for n, v in shown.items()}}
    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    height = 1.9 * _height(reference, coordinates) + 0.5
    figure, axes = new_figure(rows, columns, 3.0 * columns, height * rows)
    meshes = []
    for axis, (name, values) in zip(axes.ravel(), panels.items(), strict=False):
        scale = (limit, cmap) if meshes else (_largest(true), "RdBu_r")
        meshes.append(_field(axis, reference, values, coordinates, *scale))
        axis.set_title(name)
    outer(axes)
    if error:
        _bar(figure, axes, meshes[:1], f"true ${symbol}$")
        _bar(figure, axes, meshes[1:], rf"error $\hat{{{symbol}}} - {symbol}$")
    else:
        _bar(figure, axes, meshes, f"${symbol}$")
    figure.suptitle(_plane(reference, coordinates), fontsize=9)
    return figure


@dataclasses.dataclass(frozen=True)
class Round:
    """The training points right after a selection, over the prediction at that step.

    **Attributes:**

    - `step`: of the selection.
    - `prediction`: the network's outputs on the reference's grid.
    - `x`, `kind`, `new`: the points, the index of the kind of each, and whether it was
      chosen in that round.
    """

    step: int
    prediction: Float[np.ndarray, "n outputs"]
    x: Float[np.ndarray, "b d"]
    kind: Int[np.ndarray, " b"]
    new: Bool[np.ndarray, " b"]


@styled
def dynamics(
    reference: Reference,
    rounds: Mapping[str, Sequence[Round]],
    *,
    names: Sequence[str],
    coordinates: Sequence[str] = ("x", "t"),
    output: str = "u",
) -> Figure:
    """How each method selects over the training: a row a method, a column a step.

    New points of a round are filled with the colour of their kind, those kept from
    earlier rounds are hollow; the first output of the network is behind them.

    **Arguments:**

    - `reference`: gives the grid.
    - `rounds`: by method, some of its rounds.
    - `names`: of the kinds.
    - `coordinates`, `output`: symbols of the coordinates and of the first output.
    """
    columns = max(len(some) for some in rounds.values())
    height = 1.6 * _height(reference, coordinates) + 0.4
    figure, axes = new_figure(
        len(rounds), columns, 2.3 * columns + 0.6, height * len(rounds) + 0.5
    )
    limit = _largest(_slice(reference, reference.values[:, 0], coordinates))
    limits = _limits(reference, [one.x for some in rounds.values() for one in some])
    meshes = []
    for line, (method, some) in zip(axes, rounds.items(), strict=True):
        for axis, one in zip(line, some, strict=False):
            values = _slice(reference, one.prediction[:, 0], coordinates)
            meshes.append(_background(axis, reference, values, limit))
            _scatter(axis, one.x, one.kind, one.new, names)
            _frame(axis, limits, coordinates)
            axis.set_title(f"step {one.step:,}", fontsize=8)
        line[0].set_ylabel(f"{method}\n{line[0].get_ylabel()}")
    outer(axes)
    _explain(figure, axes, meshes, names, output, _plane(reference, coordinates))
    return figure
