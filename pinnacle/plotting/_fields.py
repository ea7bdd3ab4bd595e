"""Figures over the problem's domain: the solution, and the selected points on it."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from ..problems import Reference
from ._style import new_figure, outer, styled, styles


_ROOM = 0.03  # of the width of a panel of points, beyond the outermost on each side
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
        titles = (
            f"reference ${symbol}$",
            rf"prediction $\hat{{{symbol}}}$",
            rf"error $\hat{{{symbol}}} - {symbol}$",
        )
        error = ours - true
        scale, own = (limit, "RdBu_r"), (_largest(error), "PuOr_r")
        for axis, title, values, of in zip(
            panels, titles, (true, ours, error), (scale, scale, own), strict=True
        ):
            _bar(figure, axis, [_field(axis, reference, values, coordinates, *of)])
            axis.set_title(title)
    figure.suptitle(_plane(reference, coordinates), fontsize=9)
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
    limits, meshes = _limits(reference, positions), []
    for i, axis in enumerate(axes.ravel()[: len(titles)]):
        values = _slice(reference, np.asarray(predictions[i])[:, 0], coordinates)
        meshes.append(_background(axis, reference, values, limit))
        _scatter(axis, positions[i], kinds[i], new[i], names)
        _frame(axis, limits, coordinates)
        axis.set_title(titles[i])
    outer(axes)
    _explain(figure, axes, meshes, names, output, _plane(reference, coordinates))
    return figure


def _explain(figure: Figure, axes, meshes, names, output: str, plane: str) -> None:
    """What colours, markers and grey mean in a figure of points."""
    _bar(figure, axes, meshes, rf"$\hat{{{output}}}$")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(names))
    title = "Training points (hollow: kept from earlier rounds)"
    behind = rf"; $\hat{{{output}}}$ {plane}" if plane else ""
    figure.suptitle(title + behind, fontsize=9)


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
                label=name if fill == colour else None,
            )


def _background(axis: Axes, reference: Reference, values, limit):
    if len(reference.axes) == 1:
        axis.plot(reference.axes[0], values, color="0.5")
        return None
    return _mesh(axis, reference, values, limit, _PALE)


def _field(axis: Axes, reference, values, coordinates, limit, cmap):
    """A line, or colours from −limit to limit; returns these for a bar."""
    mesh = None
    if len(reference.axes) == 1:
        axis.plot(reference.axes[0], values)
    else:
        mesh = _mesh(axis, reference, values, limit, cmap)
    _frame(axis, _limits(reference), coordinates)
    return mesh


def _mesh(axis: Axes, reference: Reference, values, limit, cmap):
    x, y = reference.axes[:2]
    mesh = axis.pcolormesh(
        x, y, values.T, cmap=cmap, vmin=-limit, vmax=limit, shading="gouraud"
    )
    mesh.set_rasterized(True)
    return mesh


def _bar(figure: Figure, axes, meshes, label: str = "") -> None:
    """One bar for panels of one scale, with arrows where values lie beyond it."""
    meshes = [mesh for mesh in meshes if mesh is not None]
    if not meshes:
        return
    low, high = meshes[0].get_clim()
    below = any(np.any(mesh.get_array() < low) for mesh in meshes)
    above = any(np.any(mesh.get_array() > high) for mesh in meshes)
    extend = ("neither", "max", "min", "both")[2 * below + above]
    rows, columns = np.atleast_2d(axes).shape
    figure.colorbar(
        meshes[0], ax=axes, label=label, extend=extend,
        aspect=25 * rows, fraction=0.15 / columns,
    )  # fmt: skip


def _limits(reference: Reference, positions=()) -> list[tuple[float, float]]:
    """Of the axes that are shown: they hold the grid and, with room for their markers,
    the points."""
    limits, room = [], _ROOM if len(positions) else 0.0
    for i, axis in enumerate(reference.axes[:2]):
        every = np.concatenate([axis, *(np.asarray(p)[:, i] for p in positions)])
        low, high = float(every.min()), float(every.max())
        limits.append((low - room * (high - low), high + room * (high - low)))
    return limits


def _frame(axis: Axes, limits, coordinates) -> None:
    axis.set(xlabel=f"${coordinates[0]}$", xlim=limits[0])
    if len(limits) == 1:
        return
    axis.set(ylabel=f"${coordinates[1]}$", ylim=limits[1])
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


def _plane(reference: Reference, coordinates: Sequence[str]) -> str:
    """In words, where on the other axes it lies; nothing if there are none."""
    at = zip(
        coordinates[2:], reference.axes[2:], _fixed(reference, coordinates), strict=True
    )
    words = ", ".join(f"${name} = {axis[i]:.3g}$" for name, axis, i in at)
    return f"at {words}" if words else ""


def _largest(values) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max(initial=0)) or 1.0
