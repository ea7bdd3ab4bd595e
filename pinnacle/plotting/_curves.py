"""Figures over the course of a run: losses, errors, counts of points, NTK spectra."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ._style import LINES, PALETTE, new_figure, styled, styles


Table = Mapping[str, np.ndarray]

_ERRORS = {
    "relative_l2": r"relative $L_2$ error",
    "max_error": "largest error",
    "mse": "mean squared error",
}


@styled
def curves(training: Table, rounds: Table) -> Figure:
    """The loss, in all and by kind, and the errors over the steps.

    Ticks along the top edge mark the selection rounds.

    **Arguments:**

    - `training`, `rounds`: the tables of a [`pinnacle.History`][].
    """
    figure, axes = new_figure(1, 2, 9.6, 3.2)
    left, right = axes[0]
    steps = training["step"]
    left.plot(steps, training["loss"], color="0.75", linewidth=3.5, label="total")
    names = [name[5:] for name in training if name.startswith("loss/")]
    for name, colour, _, line in styles(names):
        left.plot(steps, training[f"loss/{name}"], line, color=colour, label=name)
    left.set(xlabel="step", ylabel="loss", yscale="log", title="Loss by kind")
    errors = [name for name in _ERRORS if name in training]
    for name, colour, line in zip(errors, PALETTE, LINES, strict=False):
        right.plot(steps, training[name], line, color=colour, label=_ERRORS[name])
    right.set(xlabel="step", ylabel="error", yscale="log", title="Error")
    for axis in (left, right):
        _mark_rounds(axis, rounds)
        _legend_beside(axis)
    return figure


@styled
def counts(rounds: Table, last: int) -> Figure:
    """Points by kind, and what share of the candidates' score each kind has.

    **Arguments:**

    - `rounds`: the table `rounds` of a [`pinnacle.History`][].
    - `last`: the step at which the run ended.
    """
    figure, axes = new_figure(1, 2, 9.6, 3.0)
    steps = np.append(rounds["step"], max(last, rounds["step"][-1] + 1))
    names = [name[6:] for name in rounds if name.startswith("count/")]
    for axis, prefix, title in zip(
        axes[0],
        ("count", "share"),
        ("Training points by kind", "Share of the candidates' score by kind"),
        strict=True,
    ):
        values = [rounds[f"{prefix}/{name}"] for name in names]
        axis.stackplot(
            steps,
            [np.append(v, v[-1]) for v in values],
            step="post",
            labels=names,
            colors=[colour for _, colour, _, _ in styles(names)],
            edgecolor="white",
            linewidth=0.4,
        )
        axis.set(xlabel="step", title=title, xlim=(steps[0], steps[-1]))
        axis.margins(y=0)
        _legend_beside(axis, reverse=True)
    axes[0, 0].set_ylabel("number of points")
    axes[0, 1].set_ylabel("share")
    return figure


@styled
def spectrum(
    eigenvalues: Sequence[Float[np.ndarray, " r"]], labels: Sequence[str]
) -> Figure:
    """Eigenvalues of the NTK on the candidate pool, largest first, on two log axes.

    **Arguments:**

    - `eigenvalues`: at several rounds.
    - `labels`: what to call each round.
    """
    figure, axes = new_figure(1, 1, 5.6, 3.4)
    axis = axes[0, 0]
    shades = np.linspace(0.15, 0.85, max(len(labels), 2))
    for values, label, shade in zip(eigenvalues, labels, shades, strict=False):
        live = np.asarray(values)[np.asarray(values) > 0]
        index = np.arange(1, live.size + 1)
        axis.plot(index, live, color=colormaps["viridis"](shade), label=label)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="index $i$",
        ylabel=r"eigenvalue $\lambda_i$",
        title="NTK spectrum",
    )
    _legend_beside(axis)
    return figure


def _mark_rounds(axis: Axes, rounds: Table) -> None:
    """Short ticks at the top: lines through the data would hide it."""
    where = axis.get_xaxis_transform()
    axis.vlines(
        rounds["step"],
        0.97,
        1.0,
        transform=where,
        color="0.5",
        linewidth=0.8,
        label="selection",
    )


def _legend_beside(axis: Axes, reverse: bool = False) -> None:
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), reverse=reverse)
