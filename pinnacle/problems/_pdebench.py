"""Readers for the data files of PDEBench (HDF5)."""

import contextlib
import dataclasses
import math
import os
from collections.abc import Iterator, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .._geometry import AbstractDomain
from ._reference import Reference


class TabulatedInitial(eqx.Module):
    """u0 from its values on an even grid of one period, elementwise.

    Between the grid points it is the cubic polynomial of the four nearest ones; for a
    sine of n waves on N points the error is at most (3/128)(2πn/N)⁴ of its amplitude.

    **Arguments:**

    - `first`: position of the first grid point.
    - `length`: L, the period.
    - `values`: u0 at `first + i·L/N`, i = 0 … N − 1, N at least 4.

    **Raises:** `ValueError` for fewer than four values or a length that is not
    positive.
    """

    first: float = eqx.field(static=True)
    length: float = eqx.field(static=True)
    values: Float[Array, " n"] = eqx.field(converter=jnp.asarray)

    def __check_init__(self):
        if self.values.ndim != 1 or self.values.shape[0] < 4:
            raise ValueError(
                "`values` must be a sequence of at least 4 numbers, got shape "
                f"{self.values.shape}."
            )
        if not 0 < self.length < math.inf:
            raise ValueError(f"`length` must be positive, got {self.length}.")

    def __call__(self, x: Float[ArrayLike, "*shape"]) -> Float[Array, "*shape"]:
        """The value at each entry of `x`, in the dtype of `x`."""
        x = jnp.asarray(x)
        x = x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(float)
        n = self.values.shape[0]
        cell = jnp.mod((x - self.first) * (n / self.length), n)
        left = jnp.floor(cell)
        s = cell - left
        i = left.astype(jnp.int32)
        # Lagrange's polynomials of the nodes −1, 0, 1, 2.
        weights = (
            -s * (s - 1) * (s - 2) / 6,
            (s + 1) * (s - 1) * (s - 2) / 2,
            -(s + 1) * s * (s - 2) / 2,
            (s + 1) * s * (s - 1) / 6,
        )
        values = self.values.astype(x.dtype)
        terms = [w * values[jnp.mod(i + k, n)] for k, w in enumerate(weights, -1)]
        return sum(terms[1:], terms[0])


@dataclasses.dataclass(frozen=True)
class PDEBenchData:
    """One sample of a PDEBench file.

    **Attributes:**

    - `reference`: the solution, axes (x, t) or (x, y, t), with the file's outputs.
    - `initial`: u0 as a function of x, of the whole resolution of the file, for
      one-dimensional files; `None` for two-dimensional ones.
    """

    reference: Reference
    initial: TabulatedInitial | None = None

    def check(self, domain: AbstractDomain, outputs: Sequence[str]) -> None:
        """Raise `ValueError` unless this can be a solution on `domain`."""
        axes = self.reference.axes
        if len(axes) != domain.dim:
            raise ValueError(
                f"the data have {len(axes)} coordinates, but the problem has "
                f"{domain.dim}: this file belongs to another problem."
            )
        for axis, lower, upper in zip(axes, *domain.bounds, strict=True):
            slack = 1e-4 * (upper - lower)
            if axis[0] < lower - slack or axis[-1] > upper + slack:
                raise ValueError(
                    f"the data reach from {axis[0]:g} to {axis[-1]:g}, but the "
                    f"problem from {lower:g} to {upper:g}: this file belongs to "
                    "another problem."
                )
        found = self.reference.values.shape[1]
        if found > len(outputs):
            raise ValueError(
                f"the data have {found} outputs, but the problem only "
                f"{len(outputs)}: this file belongs to another problem."
            )


def read_pdebench(
    path: str | os.PathLike, sample: int = 0, every: tuple[int, ...] | None = None
) -> PDEBenchData:
    """Read one sample of a PDEBench file; only that sample is loaded.

    Two layouts are known. One space dimension: data sets `tensor` (samples, t, x),
    `x-coordinate` and `t-coordinate`, the last with as many entries as there are time
    steps or, as in the published files, one more. Two space dimensions: a group `NNNN`
    a sample, with `data` (t, x, y, outputs) and `grid/x`, `grid/y`, `grid/t`.

    **Arguments:**

    - `path`: the file.
    - `sample`: which one, counted from 0.
    - `every`: every how many entries of (x, t) or (x, y, t) go into the reference; by
      default (4, 2) and (4, 4, 5).

    **Returns:**

    The sample, in float64. Raises `FileNotFoundError` if there is no file, `ValueError`
    for a file that is not HDF5, is truncated or has another layout or shape, for a
    sample that it does not have and for numbers that are not finite, `ImportError` if
    h5py is missing.
    """
    with _open(path) as file:
        if "tensor" in file:
            return _one_dimension(file, sample, every or (4, 2))
        if f"{sample:04d}" in file or "0000" in file:
            return _two_dimensions(file, sample, every or (4, 4, 5))
        raise ValueError(
            f"it has neither `tensor` nor groups like `0000`, but {_names(file)}"
        )


@contextlib.contextmanager
def _open(path) -> Iterator:
    """The open file; what goes wrong with it becomes a `ValueError` that names it."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            "PDEBench files are read with h5py, which is not installed: "
            "pip install 'pinnacle-pinn[cli]'"
        ) from error
    failed = f"cannot read {os.fspath(path)!r} as a PDEBench file: "
    try:
        with h5py.File(path, "r") as file:
            yield file
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(
            f"{failed}it is truncated or not HDF5; download it again ({error})."
        ) from error
    except ValueError as error:
        raise ValueError(f"{failed}{error}.") from error


def _one_dimension(file, sample, every) -> PDEBenchData:
    tensor = _dataset(file, "tensor", 3)
    x, t = (_dataset(file, f"{name}-coordinate", 1)[:] for name in "xt")
    samples, times, cells = tensor.shape
    if x.size != cells or t.size not in (times, times + 1):
        raise ValueError(
            f"`tensor` has shape {tensor.shape} (samples, t, x), but `t-coordinate` "
            f"has {t.size} entries and `x-coordinate` {x.size}"
        )
    if not 0 <= sample < samples:
        raise ValueError(f"there is no sample {sample}: it has {samples}, from 0 on")
    x, t = _axis("x", x, even=True), _axis("t", t[:times])
    values = _finite(tensor[sample].T)
    step = (x[-1] - x[0]) / (cells - 1)
    initial = TabulatedInitial(float(x[0]), float(step * cells), values[:, 0])
    return PDEBenchData(_thinned((x, t), values[..., None], every), initial)


def _two_dimensions(file, sample, every) -> PDEBenchData:
    name = f"{sample:04d}"
    if name not in file:
        raise ValueError(f"there is no sample `{name}`, but {_names(file)}")
    group = file[name]
    if not hasattr(group, "keys"):
        raise ValueError(f"`{name}` is a data set, not a group of `data` and `grid`")
    data = _dataset(group, "data", 4)
    found = [_dataset(group, f"grid/{axis}", 1)[:] for axis in "xyt"]
    x, y, t = (_axis(f"{name}/grid/{n}", v) for n, v in zip("xyt", found, strict=True))
    if data.shape[:3] != (t.size, x.size, y.size):
        raise ValueError(
            f"`{name}/data` has shape {data.shape} (t, x, y, outputs), but the grid "
            f"has {t.size} times, {x.size} x and {y.size} y"
        )
    values = _finite(np.moveaxis(data[:], 0, 2))
    return PDEBenchData(_thinned((x, y, t), values, every))


def _dataset(group, name: str, dims: int):
    """A data set of real numbers and so many dimensions; else `ValueError`."""
    found = group.get(name)
    if found is None:
        raise ValueError(f"`{name}` is missing from {group.name!r}: {_names(group)}")
    if not hasattr(found, "shape"):
        raise ValueError(f"`{name}` is a group, not a data set")
    if found.shape is None or 0 in found.shape:
        raise ValueError(f"`{name}` is empty: its shape is {found.shape}")
    if len(found.shape) != dims:
        raise ValueError(f"`{name}` has shape {found.shape}, not {dims} dimensions")
    if not np.can_cast(found.dtype, np.float64, "same_kind"):
        raise ValueError(f"`{name}` has entries of type {found.dtype}, not real ones")
    return found


def _axis(name: str, values, even: bool = False) -> Float[np.ndarray, " n"]:
    axis = _finite(values)
    steps = np.diff(axis)
    if axis.size < 2 or not np.all(steps > 0):
        raise ValueError(f"the coordinate `{name}` does not increase")
    if even and np.ptp(steps) > 0.01 * steps.mean():
        raise ValueError(f"the coordinate `{name}` is not evenly spaced")
    return axis


def _finite(values) -> np.ndarray:
    values = np.asarray(values, np.float64)
    if not np.all(np.isfinite(values)):
        raise ValueError("it has entries that are NaN or infinite")
    return values


def _thinned(axes, values, every) -> Reference:
    if len(every) != len(axes) or min(every) < 1:
        raise ValueError(
            f"`every` must be {len(axes)} positive numbers for this file, got {every}"
        )
    cut = tuple(slice(None, None, step) for step in every)
    thin = [axis[step] for axis, step in zip(axes, cut, strict=True)]
    return Reference(thin, values[cut])


def _names(group) -> str:
    names = sorted(group)[:8]
    return f"it has {', '.join(map(repr, names)) or 'nothing'}"
