"""The NTK's eigenfunctions on the solution and on the residual (the paper's section on
training dynamics, Figures `fig:eigfn-soln` and `fig:eigspect`)."""

import dataclasses
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from .. import theory
from .._model import Model
from .._ntk import Rows
from .._operator import Dirichlet
from .._space import AugmentedSpace, Block, Component
from ..problems import Problem, Reference
from ._fields import _bar, _field, _fixed, _height, _largest
from ._style import new_figure, outer, styled, styles, thin


@dataclasses.dataclass(frozen=True)
class Subspaces:
    """Rows û(x) and rows of the PDE residual, at the points of one grid.

    **Attributes:**

    - `space`: a kind whose operator gives all outputs, then the PDE kinds.
    - `blocks`: the grid points, one block a kind.
    - `names`: of the families of rows: one an output, one an equation.
    - `family`: which of them each row belongs to.
    - `solution`: √w·F[u] of the true solution, row by row.
    - `grid`: the coordinates along the axes of the grid that are shown.
    - `coordinates`: their symbols.
    """

    space: AugmentedSpace
    blocks: tuple[Block, ...]
    names: tuple[str, ...]
    family: Int[np.ndarray, " n"]
    solution: Float[Array, " n"]
    grid: Reference
    coordinates: tuple[str, ...]

    @property
    def outputs(self) -> int:
        """Number of families that are outputs; the others are residuals."""
        return self.space.components[0].operator.rows


class Stage(eqx.Module):
    """The NTK and the prediction at one stage of the training.

    **Attributes:**

    - `system`: eigenpairs of Θ on the rows, each row counting 1/n.
    - `prediction`: √w·F[û], row by row.
    """

    system: theory.EigenSystem
    prediction: Float[Array, " n"]


def subspaces(
    problem: Problem, reference: Reference, *, resolution: int = 24
) -> Subspaces:
    """The rows to look at: a coarse grid, on the plane that `solution` shows.

    **Arguments:**

    - `problem`: its kinds that fill the domain give the residuals.
    - `reference`: the true solution on a grid.
    - `resolution`: at most so many points along each of the two axes.

    Raises `ValueError` if the problem has no such kind.
    """
    pdes = [c for c in problem.space.components if c.fills_domain]
    if not pdes:
        raise ValueError(
            f"`problem` {problem.name!r} has no kind that fills the domain, so there "
            "is no residual to look at."
        )
    axes, x, values = _coarse(reference, problem.coordinates, resolution)
    every = Dirichlet(tuple(range(values.shape[1])))
    space = AugmentedSpace([Component("solution", pdes[0].domain, every), *pdes])
    x = jnp.asarray(x, jnp.result_type(float))
    blocks = theory.blocks_at(space, [x] * len(space.components))
    names = [*problem.outputs[: values.shape[1]], *_equations(pdes)]
    counts = [c.operator.rows for c in space.components]
    first = np.cumsum([0, *counts[:-1]])
    families = [
        np.tile(np.arange(count) + start, x.shape[0])
        for start, count in zip(first, counts, strict=True)
    ]
    targets = jnp.concatenate([_targets(c, x) for c in pdes])
    solution = jnp.concatenate([jnp.asarray(values, x.dtype).ravel(), targets])
    shape = tuple(axis.size for axis in axes)
    grid = Reference(axes, np.zeros((*shape, 1)))
    shown = problem.coordinates[: len(axes)]
    family = np.concatenate(families).astype(np.int32)
    return Subspaces(space, blocks, tuple(names), family, solution, grid, shown)


def _equations(pdes: Sequence[Component]) -> list[str]:
    return [
        c.name if c.operator.rows == 1 else f"{c.name} {i + 1}"
        for c in pdes
        for i in range(c.operator.rows)
    ]


def _targets(component: Component, x: Float[Array, "n d"]) -> Float[Array, " _"]:
    """√w·F[u] of the true solution, which satisfies the equations."""
    rows, weight = component.operator.rows, component.weight.astype(x.dtype)
    if callable(component.target):
        values = jnp.stack([jnp.reshape(component.target(p), (rows,)) for p in x])
    else:
        values = jnp.broadcast_to(jnp.asarray(component.target), (x.shape[0], rows))
    return (jnp.sqrt(weight)[None] * values.astype(x.dtype)).ravel()


def _coarse(reference: Reference, coordinates: Sequence[str], resolution: int):
    """Axes, points and values of the plane of the first two coordinates, thinned."""
    kept = [thin(axis.size, resolution) for axis in reference.axes[:2]]
    kept += [np.array([i]) for i in _fixed(reference, coordinates)]
    index = np.ix_(*kept)
    axes = tuple(a[k] for a, k in zip(reference.axes[:2], kept, strict=False))
    x = reference.on_grid(reference.x)[index].reshape(-1, len(reference.axes))
    values = reference.on_grid(reference.values)[index]
    return axes, x, values.reshape(len(x), -1)


@eqx.filter_jit
def _stage(space: AugmentedSpace, model: Model, blocks: tuple[Block, ...]) -> Stage:
    J = Rows(space, model, coefficients=False, chunk=None).stacked(blocks)
    measure = jnp.full(J.shape[0], 1 / J.shape[0], J.dtype)
    system = theory.eigensystem(theory.kernel(J), measure)
    return Stage(system, theory.operate(space, model, blocks))


def stage(where: Subspaces, model: Model) -> Stage:
    """Eigenfunctions and prediction of a model; in float64 if the model is."""
    return _stage(where.space, model, where.blocks)


@styled
def eigenfunctions(where: Subspaces, at: Stage, *, count: int = 6) -> Figure:
    """The leading eigenfunctions ψ_i, a column each, on every family of rows.

    Over all rows the mean of ψ_i² is 1, so that panels of one row of the figure, which
    have one scale, tell how much of each eigenfunction lies there.
    """
    psi, values = np.asarray(at.system.eigenfunctions), at.system.eigenvalues
    columns = {
        rf"$\psi_{{{i + 1}}}$, $\lambda = {_power(values[i])}$": psi[:, i]
        for i in range(min(count, psi.shape[1]))
    }
    return _panels(where, columns)


@styled
def reconstruction(
    where: Subspaces,
    at: Stage,
    *,
    counts: Sequence[int] = (10, 50, 200),
    true: bool = False,
) -> Figure:
    """What the top k eigenfunctions make of a function, for several k, and itself.

    **Arguments:**

    - `where`, `at`: the rows and the stage.
    - `counts`: the numbers k; all eigenfunctions if there are fewer.
    - `true`: reconstruct the true solution instead of the prediction.
    """
    symbol = "u" if true else r"\hat u"
    target = where.solution if true else at.prediction
    rank = _rank(at.system)
    columns = {
        f"top {k}": np.asarray(theory.reconstruction(at.system, target, k))
        for k in (min(k, rank) for k in counts)
    }
    return _panels(where, {**columns, f"$F[{symbol}]$": np.asarray(target)})


@styled
def reconstruction_errors(where: Subspaces, stages: Mapping[str, Stage]) -> Figure:
    """How well the top k eigenfunctions describe û and u, over k, a line a stage.

    The size (root mean square) of what is missing: on the solution subspace in units of
    the size of û or u, on the residual subspace in those of the residual, since it
    falls to 0 in training, as that of the true solution is.
    """
    figure, axes = new_figure(2, 2, 8.6, 5.4)
    for row, (true, symbol) in enumerate(((False, r"\hat u"), (True, "u"))):
        for column, name in enumerate(("solution", "residual")):
            axis, relative = axes[row, column], column == 0
            here = (where.family < where.outputs) == (column == 0)
            for label, colour, _, line in styles(list(stages)):
                at = stages[label]
                target = where.solution if true else at.prediction
                error, size = _missing(at.system, target, here)
                unit = size if relative else 1.0
                k = np.arange(1, error.size + 1)
                axis.plot(k, error / unit, line, color=colour, label=label)
            axis.set(
                xscale="log",
                yscale="log",
                xlabel="number of eigenfunctions $k$",
                ylabel="relative error" if relative else "error",
                title=f"$F[{symbol}]$ on the {name} subspace",
            )
            low, high = axis.get_ylim()
            axis.set_ylim(min(low, high / 10), 1.1 * high)  # a decade at least
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _missing(system: theory.EigenSystem, target, here) -> tuple[np.ndarray, float]:
    """RMS of y − y_k over some rows for k = 1, …, rank, and that of y."""
    kept = _rank(system)
    psi = np.asarray(system.eigenfunctions)[:, :kept]
    parts = psi[here] * np.asarray(theory.coefficients(system, target))[None, :kept]
    target = np.asarray(target)
    gap = target[here, None] - np.cumsum(parts, axis=1)
    size = float(np.sqrt(np.mean(target[here] ** 2)))
    return np.sqrt(np.mean(gap**2, axis=0)), size


def _rank(system: theory.EigenSystem) -> int:
    return int(np.sum(np.asarray(system.eigenvalues) > 0))


def _panels(where: Subspaces, columns: Mapping[str, np.ndarray]) -> Figure:
    """A row of panels, of one scale, for each family."""
    names, height = where.names, 1.6 * _height(where.grid, where.coordinates) + 0.3
    figure, axes = new_figure(
        len(names), len(columns), 1.9 * len(columns) + 0.8, height * len(names) + 0.3
    )
    for family, name in enumerate(names):
        here = where.family == family
        shown = [_on_grid(where, values[here]) for values in columns.values()]
        limit, meshes = _largest(np.stack(shown)), []
        for axis, values in zip(axes[family], shown, strict=True):
            meshes.append(
                _field(axis, where.grid, values, where.coordinates, limit, "RdBu_r")
            )
        _bar(figure, axes[family], meshes)
        kind = "solution" if family < where.outputs else "residual"
        axes[family, 0].set_ylabel(f"{kind}: {name}\n{axes[family, 0].get_ylabel()}")
    for axis, title in zip(axes[0], columns, strict=True):
        axis.set_title(title, fontsize=8)
    outer(axes)
    return figure


def _on_grid(where: Subspaces, values: np.ndarray) -> np.ndarray:
    return values.reshape(where.grid.shape)


def _power(value) -> str:
    mantissa, exponent = f"{float(value):.1e}".split("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
