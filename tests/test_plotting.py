"""Figures are drawn from arrays alone, with named axes, and touch no global state."""

import matplotlib
import numpy as np
import pytest

from pinnacle import plotting
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


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_points(dim):
    reference = _reference(dim)
    points = _points(dim)
    figure = plotting.points(
        reference, [reference.values] * 5, **points, names=NAMES, coordinates="xyt"
    )
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(NAMES)
    drawn = sum(np.shape(c.get_offsets())[0] for c in _scatters(figure.axes[0]))
    assert drawn == 12
    figure.canvas.draw()


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
