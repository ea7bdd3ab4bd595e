"""Readers of PDEBench's files, on small files of the same layout."""

import dataclasses
from typing import Any

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pinnacle.experiment.config import make_config
from pinnacle.experiment.run import build
from pinnacle.problems import (
    TabulatedInitial,
    advection,
    burgers,
    read_pdebench,
    shallow_water,
)


SAMPLES, TIMES, CELLS = 3, 21, 64


def wave(x, t, sample: Any = 1):
    return np.sin(2 * np.pi * (x - t) + 0.3 * sample) + 0.1 * sample


def one_dimension(path, times=TIMES + 1, **changes):
    """Advection with β = 1, centres of cells, one time too many as in the originals."""
    x = ((np.arange(CELLS) + 0.5) / CELLS).astype(np.float32)
    t = (np.arange(times) * 2 / (TIMES - 1)).astype(np.float32)
    grid = np.arange(SAMPLES)[:, None, None], t[None, :TIMES, None], x[None, None]
    tensor = wave(grid[2], grid[1], grid[0]).astype(np.float32)
    content = {"tensor": tensor, "x-coordinate": x, "t-coordinate": t} | changes
    with h5py.File(path, "w") as file:
        for name, values in content.items():
            if values is not None:
                file[name] = values
    return path


def two_dimensions(path, **changes):
    """The dam break's layout: `0000`, `0001`, the depth only."""
    x = ((np.arange(16) + 0.5) / 16 * 5 - 2.5).astype(np.float32)
    t = np.linspace(0, 1, 11, dtype=np.float32)
    with h5py.File(path, "w") as file:
        for sample in range(2):
            depth = sample + x[None, :, None] + 10 * x[None, None, :] + t[:, None, None]
            content = {
                "data": depth[..., None].astype(np.float32),
                "grid/x": x,
                "grid/y": x,
                "grid/t": t,
            } | changes
            for name, values in content.items():
                if values is not None:
                    file[f"{sample:04d}/{name}"] = values
    return path


@pytest.fixture(scope="module")
def wave_file(tmp_path_factory):
    return one_dimension(tmp_path_factory.mktemp("data") / "1D_Advection.hdf5")


@pytest.fixture(scope="module")
def dam_file(tmp_path_factory):
    return two_dimensions(tmp_path_factory.mktemp("data") / "2D_rdb.h5")


# ------------------------------------------------------------------------- contents


def test_one_dimension(wave_file):
    data = read_pdebench(wave_file, 2, every=(1, 1))
    x, t = data.reference.axes
    assert (x.size, t.size) == (CELLS, TIMES)
    np.testing.assert_allclose([x[0], x[-1]], [0.5 / 64, 63.5 / 64])
    np.testing.assert_allclose(t, np.arange(TIMES) / 10, atol=1e-6)
    table = data.reference.on_grid(data.reference.values)[..., 0]
    expected = wave(x[:, None], t[None, :], sample=2)
    np.testing.assert_allclose(table, expected, atol=2e-6)


def test_as_many_times_as_steps_are_fine_too(tmp_path):
    file = one_dimension(tmp_path / "a.h5", times=TIMES)
    assert read_pdebench(file, every=(1, 1)).reference.shape == (CELLS, TIMES)


def test_thinned(wave_file):
    whole = read_pdebench(wave_file, 1, every=(1, 1)).reference
    thin = read_pdebench(wave_file, 1).reference
    assert thin.shape == (16, 11)
    np.testing.assert_array_equal(
        thin.on_grid(thin.values), whole.on_grid(whole.values)[::4, ::2]
    )


def test_the_initial_condition_has_the_full_resolution(wave_file, x64):
    initial = read_pdebench(wave_file, 1).initial
    assert initial is not None
    x = jnp.linspace(-0.7, 1.7, 301)
    # (3/128)(2π/64)⁴ = 2e-6, and the file is in float32.
    np.testing.assert_allclose(initial(x), wave(np.asarray(x), 0.0), atol=5e-6)
    np.testing.assert_allclose(initial(x), initial(x + 1), atol=1e-12)


def test_two_dimensions(dam_file):
    data = read_pdebench(dam_file, 1, every=(1, 2, 5))
    assert data.initial is None
    assert data.reference.shape == (16, 8, 3)
    x = data.reference.x
    expected = 1 + x[:, 0] + 10 * x[:, 1] + x[:, 2]
    np.testing.assert_allclose(data.reference.values[:, 0], expected, atol=1e-5)


# -------------------------------------------------------------------- the interpolant


def test_tabulated_initial_follows_the_input(both_precisions):
    dtype = jnp.float64 if both_precisions else jnp.float32
    u0 = TabulatedInitial(0.25, 2.0, np.arange(8.0))
    x = 0.25 + jnp.arange(8, dtype=dtype) / 4
    assert u0(x).dtype == dtype
    np.testing.assert_allclose(u0(x), np.arange(8), atol=1e-5)
    # Cubic between nodes away from the jump at the period's end.
    np.testing.assert_allclose(u0(x[3] + 0.1), 3.4, rtol=1e-5)
    assert jax.vmap(u0)(x).shape == (8,)


def test_tabulated_initial_refuses():
    with pytest.raises(ValueError, match="at least 4 numbers"):
        TabulatedInitial(0.0, 1.0, np.zeros(3))
    with pytest.raises(ValueError, match="`length` must be positive"):
        TabulatedInitial(0.0, 0.0, np.zeros(9))


# ----------------------------------------------------------------------- in problems


@pytest.mark.parametrize("make", [advection, burgers])
def test_problems_of_one_dimension_take_it(make, wave_file):
    data = read_pdebench(wave_file, 1)
    problem = make(data=data)
    assert problem.solve() is data.reference
    target = problem.space.components[1].target
    value = target(jnp.asarray([0.3, 0.0]))
    np.testing.assert_allclose(value, wave(0.3, 0.0), atol=1e-5)
    assert value.dtype == jnp.float32


def test_a_file_of_another_speed_is_refused(wave_file):
    data = read_pdebench(wave_file, 1)
    for speed in (0.5, 2.0):  # the second shifts by whole periods at the end
        with pytest.raises(ValueError, match=f"for a `speed` of {speed:g}"):
            advection(speed, data=data)


def test_the_dam_break_takes_it(dam_file):
    data = read_pdebench(dam_file)
    problem = shallow_water(data=data)
    assert problem.solve() is data.reference
    assert problem.metrics(data.reference)


def test_a_run_cannot_end_by_an_output_that_the_file_lacks(dam_file):
    sizes = {"data": str(dam_file), "width": 4, "depth": 1, "stop_metric": "mse/u"}
    config = make_config("shallow-water", **sizes)
    with pytest.raises(ValueError, match="`stop_metric` 'mse/u' is unknown"):
        build(config).warm_up()


def test_problems_refuse_what_is_not_theirs(wave_file, dam_file):
    line, square = read_pdebench(wave_file), read_pdebench(dam_file)
    with pytest.raises(ValueError, match="3 coordinates, but the problem has 2"):
        advection(data=square)
    with pytest.raises(ValueError, match="2 coordinates, but the problem has 3"):
        shallow_water(data=line)
    with pytest.raises(ValueError, match="`initial` or `data`, not both"):
        burgers(initial=line.initial, data=line)
    reference = line.reference
    (x, t), values = reference.axes, reference.on_grid(reference.values)
    longer = dataclasses.replace(line, reference=type(reference)((x, 2 * t), values))
    with pytest.raises(ValueError, match="reach from 0 to 4, but the problem from 0"):
        advection(data=longer)
    both = np.concatenate([values, values], -1)
    double = dataclasses.replace(line, reference=type(reference)((x, t), both))
    with pytest.raises(ValueError, match="2 outputs, but the problem only 1"):
        advection(data=double)


# ---------------------------------------------------------------------- broken files


def refuse(path, message, **options):
    with pytest.raises(ValueError, match=message) as error:
        read_pdebench(path, **options)
    assert str(path) in str(error.value)


def test_truncated_files(tmp_path, wave_file):
    content = wave_file.read_bytes()
    for share in (0.1, 0.5, 0.999):
        path = tmp_path / "cut.h5"
        path.write_bytes(content[: int(share * len(content))])
        refuse(path, "truncated")


def test_foreign_files(tmp_path):
    text = tmp_path / "text.h5"
    text.write_text("x,t,u\n")
    refuse(text, "not HDF5")
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["density"] = np.zeros(3)
    refuse(other, "neither `tensor` nor groups like `0000`, but it has 'density'")
    with pytest.raises(FileNotFoundError):
        read_pdebench(tmp_path / "missing.h5")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tensor": np.zeros((3, 21))}, "`tensor` has shape"),
        ({"tensor": np.zeros((3, 20, 64))}, "`t-coordinate` has 22 entries"),
        ({"tensor": np.zeros((3, 21, 60))}, "`x-coordinate` 64"),
        ({"x-coordinate": None}, "`x-coordinate` is missing"),
        ({"t-coordinate": np.zeros((22, 1))}, "`t-coordinate` has shape"),
        ({"t-coordinate": np.zeros(22)}, "`t` does not increase"),
        ({"x-coordinate": np.linspace(0, 1, 64) ** 2}, "`x` is not evenly spaced"),
        ({"tensor": np.full((3, 21, 64), np.nan)}, "NaN or infinite"),
        ({"tensor": np.zeros((0, 21, 64))}, r"`tensor` is empty: .* \(0, 21, 64\)"),
        ({"tensor": h5py.Empty("f4")}, "`tensor` is empty"),
        ({"tensor": np.ones((3, 21, 64), complex)}, "entries of type complex128"),
        ({"tensor": None, "tensor/u": np.zeros(3)}, "`tensor` is a group"),
    ],
)
def test_mis_shaped_files_of_one_dimension(tmp_path, changes, message):
    refuse(one_dimension(tmp_path / "bad.h5", **changes), message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": np.zeros((11, 16, 16))}, "`data` has shape"),
        ({"data": np.zeros((10, 16, 16, 1))}, "the grid has 11 times"),
        ({"data": None}, "`data` is missing from '/0000'"),
        ({"grid/t": None}, "`grid/t` is missing"),
        ({"grid/x": np.zeros(16)}, "does not increase"),
        ({"data": None, "data/u": np.zeros(3)}, "`data` is a group"),
        (
            {**dict.fromkeys(("grid/x", "grid/y", "grid/t")), "grid": np.zeros(3)},
            "`grid/x` is missing",
        ),
    ],
)
def test_mis_shaped_files_of_two_dimensions(tmp_path, changes, message):
    refuse(two_dimensions(tmp_path / "bad.h5", **changes), message)


def test_a_sample_that_is_no_group(tmp_path):
    with h5py.File(tmp_path / "bad.h5", "w") as file:
        file["0000"] = np.zeros(3)
    refuse(tmp_path / "bad.h5", "`0000` is a data set, not a group")


def test_samples_that_are_not_there(wave_file, dam_file):
    refuse(wave_file, "no sample 3: it has 3, from 0 on", sample=3)
    refuse(wave_file, "no sample -1", sample=-1)
    refuse(dam_file, "no sample `0007`, but it has '0000', '0001'", sample=7)


def test_steps_that_do_not_fit(wave_file):
    refuse(wave_file, "`every` must be 2 positive numbers", every=(4, 4, 5))
    refuse(wave_file, "`every` must be 2 positive numbers", every=(0, 1))
