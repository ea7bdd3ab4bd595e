"""Figures are drawn from arrays alone, with named axes, and touch no global state."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import matplotlib
import numpy as np
import pytest
from helpers import MEASURED, model, pipeline

from pinnacle import (
    AbstractConvergenceCriterion,
    CandidatePool,
    ConvergenceDegree,
    Exact,
    GradientNorm,
    Model,
    Uniform,
    plotting,
    problems,
    theory,
)
from pinnacle.nn import MLP
from pinnacle.problems import Reference


NAMES = ("pde", "ic", "bc")


def _reference(dim, outputs=1):
    axes = [np.linspace(0, 1, 4 + i) for i in range(dim)]
    shape = tuple(axis.size for axis in axes)
    values = np.random.default_rng(0).normal(size=(*shape, outputs))
    return Reference(axes, values)


def _points(dim, panels=5, rows=12):
    rng = np.random.default_rng(1)
    return {
        "positions": [rng.uniform(size=(rows, dim)) for _ in range(panels)],
        "kinds": [rng.integers(3, size=rows) for _ in range(panels)],
        "new": [rng.uniform(size=rows) < 0.5 for _ in range(panels)],
        "titles": [f"step {i}" for i in range(panels)],
    }


def _tables():
    training = {
        "step": np.array([10, 20]),
        "loss": np.array([1.0, 0.5]),
        "loss/pde": np.array([0.9, 0.4]),
        "loss/ic": np.array([0.1, 0.0]),
        "relative_l2": np.array([0.9, np.nan]),
    }
    rounds = {
        "step": np.array([0, 10]),
        "count/pde": np.array([7, 5]),
        "count/ic": np.array([3, 5]),
        "share/pde": np.array([0.5, 0.9]),
        "share/ic": np.array([0.5, 0.1]),
    }
    return training, rounds


def _labels(figure):
    return [(a.get_xlabel(), a.get_ylabel()) for a in figure.axes]


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
@pytest.mark.parametrize("outputs", [1, 2])
def test_solution(dim, outputs):
    reference = _reference(dim, outputs)
    coordinates, names = ("x", "y", "z", "t")[:dim], ("u", "v")[:outputs]
    figure = plotting.solution(
        reference, reference.values, coordinates=coordinates, outputs=names
    )
    panels = [a for a in figure.axes if a.get_title()]
    assert len(panels) == 3 * outputs
    assert all(a.get_xlabel() == "$x$" for a in panels)
    figure.canvas.draw()


def test_solution_shows_the_last_time():
    reference = _reference(3)
    figure = plotting.solution(
        reference, reference.values, coordinates=("x", "y", "t"), outputs=("u",)
    )
    grid = reference.on_grid(reference.values)[..., 0]
    shown = figure.axes[0].collections[0].get_array()
    assert np.array_equal(np.asarray(shown).ravel(), grid[:, :, -1].T.ravel())
    assert "$t = 1$" in figure.get_suptitle()


def test_solution_shows_the_middle_of_space():
    reference = _reference(3)
    figure = plotting.solution(
        reference, reference.values, coordinates=("x", "y", "z"), outputs=("u",)
    )
    grid = reference.on_grid(reference.values)[..., 0]
    shown = figure.axes[0].collections[0].get_array()
    assert np.array_equal(np.asarray(shown).ravel(), grid[:, :, 3].T.ravel())


def _bars(figure):
    return [a._colorbar for a in figure.axes if hasattr(a, "_colorbar")]


@pytest.mark.parametrize(
    ("factor", "extend"), [(1.0, "neither"), (-3.0, "both"), (0.0, "neither")]
)
def test_a_bar_has_arrows_where_the_prediction_lies_beyond_the_solution(factor, extend):
    reference = Reference(_reference(2).axes, np.linspace(-1, 1, 20).reshape(4, 5, 1))
    ours = factor * reference.values
    bars = _bars(plotting.solution(reference, ours))
    assert [bar.extend for bar in bars] == ["neither", extend, "neither"]
    (bar,) = _bars(plotting.fields(reference, {"half": ours / 2, "whole": ours}))
    assert bar.extend == extend


def test_a_bar_ignores_what_is_not_finite():
    reference = _reference(2)
    ours = np.full_like(reference.values, np.nan)
    _, bar, _ = _bars(plotting.solution(reference, ours))
    assert bar.extend == "neither"


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_points(dim):
    reference = _reference(dim)
    points = _points(dim)
    figure = plotting.points(
        reference,
        [reference.values] * 5,
        **points,
        names=NAMES,
        coordinates="xyt"[:dim],
    )
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(NAMES)
    drawn = sum(np.shape(c.get_offsets())[0] for c in _scatters(figure.axes[0]))
    assert drawn == 12
    figure.canvas.draw()


def test_axes_hold_grid_and_points():
    """The grid of a data file may be cell-centred and thinned."""
    axes = (np.array([0.3, 0.8]), np.array([-1.0, 0.5]))
    reference = Reference(axes, np.ones((2, 2, 1)))
    points = _points(2, 2)
    figure = plotting.points(reference, [reference.values] * 2, **points, names=NAMES)
    x, y = np.concatenate(points["positions"]).T
    for axis in figure.axes[:2]:
        (left, right), (bottom, top) = axis.get_xlim(), axis.get_ylim()
        assert left < min(x.min(), 0.3) < max(x.max(), 0.8) < right
        assert bottom < -1.0 < y.max() < top
        assert all(c.get_clip_on() for c in axis.collections)


def _scatters(axis):
    return [c for c in axis.collections if type(c).__name__ == "PathCollection"]


def test_each_kind_has_its_own_marker_and_colour():
    figure = plotting.points(
        _reference(2), [np.zeros((20, 1))], **_points(2, 1), names=NAMES
    )
    first = _scatters(figure.axes[0])[::2]
    assert len({tuple(np.asarray(c.get_edgecolor())[0, :3]) for c in first}) == 3
    assert len({np.asarray(c.get_paths()[0].vertices).tobytes() for c in first}) == 3


def test_curves():
    figure = plotting.curves(*_tables())
    assert _labels(figure) == [("step", "loss"), ("step", "error")]
    lines = [line.get_label() for line in figure.axes[0].get_lines()]
    assert lines == ["total", "pde", "ic"]
    figure.canvas.draw()


def test_counts():
    _, rounds = _tables()
    figure = plotting.counts(rounds, 20)
    assert _labels(figure)[0] == ("step", "number of points")
    assert figure.axes[0].get_xlim() == (0, 20)
    figure.canvas.draw()


def test_spectrum_leaves_out_what_is_not_positive():
    values = np.array([4.0, 1.0, 0.0, -1e-9])
    figure = plotting.spectrum([values, values], ["step 0", "step 10"])
    (axis,) = figure.axes
    assert np.asarray(axis.get_lines()[0].get_xdata()).tolist() == [1, 2]
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")


@pytest.mark.parametrize(("count", "most"), [(1, 4), (4, 4), (5, 4), (100, 7)])
def test_thin(count, most):
    index = plotting.thin(count, most)
    assert index[0] == 0
    assert index[-1] == count - 1
    assert len(index) == min(count, most)
    assert np.all(np.diff(index) > 0)


def test_leaves_settings_and_pyplot_alone():
    before = dict(matplotlib.rcParams)
    plotting.curves(*_tables())
    assert dict(matplotlib.rcParams) == before


# Comparisons


def _courses():
    values = np.array([[4.0, 1.0, np.nan], [2.0, np.inf, 0.5], [3.0, 2.0, 0.1]])
    return {
        "uniform": (np.array([10, 20, 30]), values),
        "rad": (np.array([5]), values[:, :1]),
    }


def test_errors_show_the_median_of_the_seeds_that_have_a_value():
    figure = plotting.errors(_courses(), threshold=0.3, truth=1.0)
    (axis,) = figure.axes
    line = axis.get_lines()[0]
    assert line.get_label() == "uniform"
    assert np.asarray(line.get_ydata()).tolist() == [3.0, 1.5, 0.3]
    low, high = np.percentile([1.0, 2.0], [20, 80])
    corners = np.asarray(axis.collections[0].get_paths()[0].vertices)[:, 1]
    assert {low, high} <= set(corners.tolist())
    assert (axis.get_xlabel(), axis.get_yscale()) == ("step", "log")
    assert {1.0, 0.3} <= {np.asarray(li.get_ydata())[0] for li in axis.get_lines()[2:]}
    figure.canvas.draw()


@pytest.mark.parametrize("empty", [False, True])
def test_errors_over_a_logarithmic_axis(empty):
    none = {"failed": (np.zeros(0), np.zeros((3, 0)))} if empty else {}
    figure = plotting.errors({**_courses(), **none}, log_x=True)
    (axis,) = figure.axes
    assert axis.get_xscale() == "log"
    assert axis.get_xlim() == (5 / 30, 30)
    figure.canvas.draw()


def test_counts_by_method():
    steps, counts = np.array([0, 10]), np.array([[7, 3], [5, 5]])
    tables = {name: (steps, ["pde", "ic"], counts) for name in "abcde"}
    figure = plotting.counts_by_method(tables, 20)
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["a", "b", "c", "d", "e", "", "", ""]
    assert figure.axes[0].get_xlim() == (0, 20)
    lowest = [axis.get_xlabel() == "step" for axis in figure.axes[:5]]
    assert lowest == [False, True, True, True, True]
    figure.canvas.draw()


def test_counts_by_method_have_one_scale():
    steps = np.array([0, 10])
    tables = {
        name: (steps, ["pde", "ic"], n * np.ones((2, 2), int))
        for name, n in (("few", 3), ("many", 50))
    }
    figure = plotting.counts_by_method(tables, 20)
    assert [axis.get_ylim() for axis in figure.axes] == [(0, 100)] * 2


@pytest.mark.parametrize("error", [False, True])
def test_fields(error):
    reference = _reference(3, 2)
    half = {"half": reference.values / 2, "none": 0 * reference.values}
    figure = plotting.fields(
        reference, half, coordinates="xyt", outputs="uv", output=1, error=error
    )
    true, first = figure.axes[:2]
    of = "error of " if error else ""
    titles = ["true $v$", f"{of}half", f"{of}none"]
    assert [a.get_title() for a in figure.axes[:3]] == titles
    wanted = ["true $v$", r"error $\hat{v} - v$"] if error else ["$v$"]
    assert [bar.ax.get_ylabel() for bar in _bars(figure)] == wanted
    shown = np.asarray(first.collections[0].get_array())
    solution = np.asarray(true.collections[0].get_array())
    np.testing.assert_allclose(shown, -solution / 2 if error else solution / 2)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_dynamics(dim):
    reference, made = _reference(dim), _points(dim, 2)
    rounds = [
        plotting.Round(step, reference.values, x, kind, new)
        for step, x, kind, new in zip(
            (0, 10), made["positions"], made["kinds"], made["new"], strict=True
        )
    ]
    both = {"uniform": rounds, "rad": rounds[:1]}
    symbols = "xyt"[:dim]
    figure = plotting.dynamics(reference, both, names=NAMES, coordinates=symbols)
    titles = [axis.get_title() for axis in figure.axes[:4]]
    assert titles == ["step 0", "step 10", "step 0", ""]
    lowest = [axis.get_xlabel() for axis in figure.axes[:3]]
    assert lowest == ["", "$x$", "$x$"]
    assert "hollow: kept" in figure.get_suptitle()
    assert ("at $t = 1$" in figure.get_suptitle()) == (dim == 3)
    assert len(_bars(figure)) == (dim > 1)
    drawn = sum(np.shape(c.get_offsets())[0] for c in _scatters(figure.axes[1]))
    assert drawn == 12
    figure.canvas.draw()


# The NTK


@pytest.fixture(scope="module")
def advection():
    """u = sin 2π(x − t) and an untrained network of 41 parameters, on 5 × 4 points."""
    problem = problems.advection(1.0, problems.Sine())
    x, t = np.linspace(0, 1, 5), np.linspace(0, 2, 4)
    values = np.sin(2 * np.pi * (x[:, None] - t[None]))[..., None]
    where = plotting.subspaces(problem, Reference((x, t), values), resolution=9)
    network = Model(MLP(2, 1, 10, 1, key=jr.key(0)))
    return where, network, plotting.stage(where, network)


def test_subspaces_hold_the_true_solution(advection):
    where, _, _ = advection
    assert where.names == ("u", "pde")
    assert where.family.tolist() == [0] * 20 + [1] * 20
    x = np.asarray(where.blocks[0].x)
    np.testing.assert_allclose(
        where.solution[:20], np.sin(2 * np.pi * (x[:, 0] - x[:, 1])), atol=1e-5
    )
    assert not where.solution[20:].any()


def test_a_stage_is_that_of_the_dense_kernel(advection):
    where, network, at = advection
    rows, parameters = theory.residual_function(where.space, network, where.blocks)
    kernel = theory.kernel(theory.jacobian(rows, parameters))
    values = np.linalg.eigvalsh(np.asarray(kernel, float))[::-1] / 40
    np.testing.assert_allclose(at.system.eigenvalues[:5], values[:5], rtol=1e-4)
    np.testing.assert_allclose(at.prediction[:20], rows(parameters)[:20], rtol=1e-6)


def test_coarse_subspaces(advection):
    problem = problems.advection(1.0, problems.Sine())
    reference = Reference(
        (np.linspace(0, 1, 9), np.linspace(0, 2, 9)), np.ones((9, 9, 1))
    )
    where = plotting.subspaces(problem, reference, resolution=3)
    assert where.grid.axes[0].tolist() == [0, 0.5, 1]
    assert where.grid.axes[1].tolist() == [0, 1, 2]


def test_problems_without_a_pde_have_no_residual():
    problem = problems.advection(1.0, problems.Sine())
    space = dataclasses.replace(problem.space, components=problem.space.components[1:])
    with pytest.raises(ValueError, match="no kind that fills the domain"):
        plotting.subspaces(dataclasses.replace(problem, space=space), _reference(2))


def test_eigenfunctions_and_reconstructions(advection):
    where, _, at = advection
    figure = plotting.eigenfunctions(where, at, count=3)
    assert len(figure.axes) == 6 + len(_bars(figure)) == 8
    assert figure.axes[0].get_title().startswith(r"$\psi_{1}$")
    mesh = np.asarray(figure.axes[1].collections[0].get_array())
    psi = np.asarray(at.system.eigenfunctions)[:20, 1].reshape(5, 4).T
    np.testing.assert_allclose(mesh.reshape(psi.shape), psi, rtol=1e-6)
    scales = [axis.collections[0].get_clim() for axis in figure.axes[:3]]
    assert len(set(scales)) == 1
    assert [bar.extend for bar in _bars(figure)] == ["neither"] * 2
    rank = int((at.system.eigenvalues > 0).sum())
    assert rank < 40
    for true in (False, True):
        figure = plotting.reconstruction(where, at, counts=(2, 5, 999, 1000), true=true)
        titles = [a.get_title() for a in figure.axes if a.get_title()]
        assert titles[:3] == ["top 2", "top 5", f"top {rank}"]
        assert len(titles) == 4, "there are no 1000 eigenfunctions"
        figure.canvas.draw()


def test_reconstruction_errors(advection):
    where, _, at = advection
    figure = plotting.reconstruction_errors(where, {"step 0": at, "again": at})
    solution, residual, _, of_true = figure.axes
    k = 7
    part = theory.reconstruction(at.system, at.prediction, k)
    for axis, rows in ((solution, slice(0, 20)), (residual, slice(20, 40))):
        wanted = np.linalg.norm((at.prediction - part)[rows]) / np.sqrt(20)
        if axis is solution:
            wanted /= np.sqrt(np.mean(at.prediction[rows] ** 2))
        drawn = np.asarray(axis.get_lines()[0].get_ydata())[k - 1]
        assert drawn == pytest.approx(wanted, rel=1e-3)
    assert of_true.get_ylabel() == "error", "the true residual is 0: no relative error"
    assert all(low <= high / 10 for low, high in (a.get_ylim() for a in figure.axes))
    figure.canvas.draw()


def test_embedding():
    """With the exact kernel α̂ of one point is the squared norm of its gradient."""
    exact = pipeline(
        estimator=Exact(),
        criterion=ConvergenceDegree(),
        pool=CandidatePool((12, 6, 6), Uniform()),
    )
    of = plotting.embed(exact, model(), 5, key=jr.key(0))
    by_gradient = eqx.tree_at(lambda p: p.criterion, exact, GradientNorm())
    alpha = plotting.embed(by_gradient, model(), 5, key=jr.key(0)).score
    np.testing.assert_allclose(of.score, alpha, rtol=1e-3, atol=1e-6 * alpha.max())
    assert of.embedding.shape[0] == of.kind.size == 24 + 12 == of.score.size
    assert len(set(of.chosen.tolist())) == 5
    assert of.chosen[0] == np.argmax(of.score)
    figure = plotting.embedding(of, components=((0, 1), (0, 10**6)))
    assert len(figure.axes) == 2, "there are no 10⁶ components"
    assert figure.get_suptitle() == "K-means++ chooses 5 of 36 candidates"
    titled = plotting.embedding(of, title="step 7")
    assert titled.get_suptitle().startswith("step 7: K-means++")
    drawn = sum(np.shape(c.get_offsets())[0] for c in _scatters(figure.axes[0])[1:])
    assert drawn == 5
    figure.canvas.draw()


class OfTheMeasured(AbstractConvergenceCriterion):
    """Every candidate is worth what the residuals of the last kind amount to."""

    def __call__(self, info):
        last = info.kind == jnp.max(info.kind)
        size = jnp.sum(jnp.where(last[:, None], info.residual, 0) ** 2)
        return jnp.broadcast_to(size, (info.kind.shape[0], 1))


def test_measured_candidates_are_compared_with_pseudo_labels():
    """The model's own values, not 0."""
    method = pipeline(MEASURED, criterion=OfTheMeasured(), experimental_capacity=1)
    of = plotting.embed(method, model(), 3, key=jr.key(0))
    assert (of.score == 0).all()
