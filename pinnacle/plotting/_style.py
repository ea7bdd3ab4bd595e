"""Colours, markers and the bare figure that all plots start from."""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ParamSpec

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure


# Okabe & Ito's palette, which colour-blind readers can tell apart; yellow is left out,
# since it vanishes on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")

_SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.dpi": "figure",
}


P = ParamSpec("P")


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw with this module's settings; those of the caller come back afterwards."""

    @functools.wraps(draw)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with rc_context(_SETTINGS):
            return draw(*args, **kwargs)

    return wrapped


def new_figure(rows: int, columns: int, width: float, height: float):
    """An empty figure of `rows` × `columns` axes, its size in inches."""
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def outer(axes: np.ndarray) -> None:
    """Labels at the left and below the lowest panel of each column only; panels without
    anything are left out."""
    for column in axes.T:
        drawn = [axis for axis in column if axis.has_data()]
        for axis in set(column) - set(drawn):
            axis.set_axis_off()
        for axis in drawn[:-1]:
            axis.set_xlabel("")
            axis.tick_params(labelbottom=False)
    for axis in axes[:, 1:].ravel():
        axis.set_ylabel("")
        axis.tick_params(labelleft=False)


def styles(names: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    """Name, colour, marker and line style, kept together by position."""
    return zip(
        names,
        itertools.cycle(PALETTE),
        itertools.cycle(MARKERS),
        itertools.cycle(LINES),
    )


def thin(count: int, most: int) -> np.ndarray:
    """At most `most` indices of 0 … count − 1, first and last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
