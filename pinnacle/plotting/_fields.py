"""Figures over the problem's domain: the solution, and the selected points on it."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from ..problems import Reference
from ._style import new_figure, styled, styles


# Greys that coloured points stand out from.
_PALE = ListedColormap(colormaps["Greys"](np.linspace(0.03, 0.55, 256)))


@styled
def solution(
    reference: Reference,
    prediction: Float[np.ndarray, "n outputs"],
    *,
    coordinates: Sequence[str] = ("x", "t"),
    outputs: Sequence[str] = ("u",),
) -> Figure:
    """Reference, prediction and their difference, one row an output.

    In more than two coordinates the figure shows the plane of the first two, at the
    last time (coordinate `t`) and in the middle of the others.

    **Arguments:**

    - `reference`: the solution on a grid.
    - `prediction`: the network's outputs at `reference.x`.
    - `coordinates`, `outputs`: their symbols.
    """
    figure, axes = new_figure(
        len(outputs), 3, 9.6, 2.9 * len(outputs) if len(reference.axes) > 1 else 2.6
    )
    for row, (panels, symbol) in enumerate(zip(axes, outputs, strict=True)):
        true = _slice(reference, reference.values[:, row], coordinates)
        ours = _slice(reference, np.asarray(prediction)[:, row], coordinates)
        limit = _largest(true)
        titles = (f"reference ${symbol}$", rf"prediction $\hat{{{symbol}}}$")
        for axis, title, values in zip(panels[:2], titles, (true, ours), strict=True):
            _field(figure, axis, reference, values, coordinates, limit, "RdBu_r")
            axis.set_title(title)
        error = ours - true
        _field(figure, panels[2], reference, error, coordinates, None, "PuOr_r")
        panels[2].set_title(rf"error $\hat{{{symbol}}} - {symbol}$")
    _name_slice(figure, reference, coordinates)
    return figure


@styled
def points(
    reference: Reference,
    predictions: Sequence[Float[np.ndarray, "n outputs"]],
    positions: Sequence[Float[np.ndarray, "b d"]],
    kinds: Sequence[Int[np.ndarray, " b"]],
    new: Sequence[Bool[np.ndarray, " b"]],
    titles: Sequence[str],
    *,
    names: Sequence[str],
    coordinates: Sequence[str] = ("x", "t"),
    output: str = "u",
) -> Figure:
    """The training points by kind over the prediction, a panel a round.

    The paper's Figure 4. New points of a round are filled with the colour of their
    kind, those kept from earlier rounds are hollow.

    **Arguments:**

    - `reference`: gives the grid.
    - `predictions`: the network's outputs on the grid at each round.
    - `positions`, `kinds`, `new`: the points of each round, the index of the kind of
      each, and whether it was chosen in that round.
    - `titles`: of the panels, for instance the step.
    - `names`: of the kinds.
    - `coordinates`, `output`: symbols of the coordinates and of the first output.
    """
    columns = min(len(titles), 4)
    rows = -(-len(titles) // columns)
    figure, axes = new_figure(rows, columns, 2.5 * columns + 0.8, 2.9 * rows + 0.4)
    limit = _largest(_slice(reference, reference.values[:, 0], coordinates))
    panels = axes.ravel()
    image = None
    for i, axis in enumerate(panels[: len(titles)]):
        values = _slice(reference, np.asarray(predictions[i])[:, 0], coordinates)
        image = _background(axis, reference, values, limit)
        _scatter(axis, positions[i], kinds[i], new[i], names)
        _frame(axis, reference, coordinates)
        axis.set_title(titles[i])
        axis.label_outer()
    for axis in panels[len(titles) :]:
        axis.set_axis_off()
    if image is not None:
        figure.colorbar(image, ax=axes, label=rf"$\hat{{{output}}}$", aspect=30)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(names))
    figure.suptitle("Training points (hollow: kept from earlier rounds)", fontsize=9)
    return figure


def _scatter(axis: Axes, positions, kinds, new, names) -> None:
    for kind, (name, colour, marker, _) in enumerate(styles(names)):
        for rows, fill, edge in ((~new, "white", colour), (new, colour, "white")):
            shown = np.asarray(positions)[(kinds == kind) & rows]
            y = shown[:, 1] if shown.shape[1] > 1 else np.zeros(len(shown))
            axis.scatter(
                shown[:, 0],
                y,
                s=13,
                c=fill,
                marker=marker,
                edgecolors=edge,
                linewidths=0.4 if fill == colour else 0.8,
                zorder=3,
                clip_on=False,
                label=name if fill == colour else None,
            )


def _background(axis: Axes, reference: Reference, values, limit):
    if len(reference.axes) == 1:
        axis.plot(reference.axes[0], values, color="0.5")
        return None
    x, y = reference.axes[:2]
    mesh = axis.pcolormesh(
        x, y, values.T, cmap=_PALE, vmin=-limit, vmax=limit, shading="gouraud"
    )
    mesh.set_rasterized(True)
    return mesh


def _field(
    figure, axis: Axes, reference, values, coordinates, limit, cmap, bar=True
) -> None:
    if len(reference.axes) == 1:
        axis.plot(reference.axes[0], values)
        axis.set_xlabel(f"${coordinates[0]}$")
        return
    limit = _largest(values) if limit is None else limit
    x, y = reference.axes[:2]
    mesh = axis.pcolormesh(
        x, y, values.T, cmap=cmap, vmin=-limit, vmax=limit, shading="gouraud"
    )
    mesh.set_rasterized(True)
    if bar:
        figure.colorbar(mesh, ax=axis, aspect=25)
    _frame(axis, reference, coordinates)


def _frame(axis: Axes, reference: Reference, coordinates) -> None:
    axis.set_xlabel(f"${coordinates[0]}$")
    if len(reference.axes) == 1:
        return
    x, y = reference.axes[:2]
    axis.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), ylabel=f"${coordinates[1]}$")
    axis.locator_params(nbins=4)
    if coordinates[1] != "t":
        axis.set_aspect("equal")
    for side in ("top", "right"):
        axis.spines[side].set_visible(True)


def _height(reference: Reference, coordinates: Sequence[str]) -> float:
    """Height of a panel over its width, where both axes are of space; else 1."""
    if len(reference.axes) == 1 or coordinates[1] == "t":
        return 1.0
    width, height = (axis[-1] - axis[0] for axis in reference.axes[:2])
    return float(np.clip(height / width, 0.4, 1.5))


def _slice(
    reference: Reference, values: Float[np.ndarray, " n"], coordinates: Sequence[str]
) -> np.ndarray:
    """One output on the plane of the first two coordinates."""
    grid = values.reshape(reference.shape)
    fixed = _fixed(reference, coordinates)
    return grid[(slice(None),) * min(grid.ndim, 2) + fixed]


def _fixed(reference: Reference, coordinates: Sequence[str]) -> tuple[int, ...]:
    """Where the plane lies on the other axes: the last time, the middle of space."""
    others = zip(coordinates[2:], reference.shape[2:], strict=True)
    return tuple(n - 1 if name == "t" else n // 2 for name, n in others)


def _name_slice(
    figure: Figure, reference: Reference, coordinates, what: str = "at"
) -> None:
    at = zip(
        coordinates[2:], reference.axes[2:], _fixed(reference, coordinates), strict=True
    )
    words = ", ".join(f"${name} = {axis[i]:.3g}$" for name, axis, i in at)
    if words:
        figure.suptitle(f"{what} {words}", fontsize=9)


def _largest(values) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max(initial=0)) or 1.0
