"""A solution tabulated on a grid."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float


def grid_points(axes: Sequence[Float[np.ndarray, " _"]]) -> Float[np.ndarray, "n d"]:
    """The points of a tensor grid, one a row, the last axis running fastest.

    **Arguments:**

    - `axes`: the coordinates along each axis.
    """
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))


class Reference(eqx.Module):
    """Values of a solution on a tensor grid, in float64 on the host.

    **Attributes:**

    - `axes`: the coordinates along each axis, for a time-dependent problem space first
      and time last.
    - `x`: the grid points, one a row, the last axis running fastest, shape `(n, d)`.
    - `values`: the solution there, shape `(n, outputs)`.

    **Arguments:**

    - `axes`: as above.
    - `values`: shape `(*shape, outputs)`, with `shape` the lengths of the axes.

    Raises `ValueError` if the two do not fit.
    """

    axes: tuple[Float[np.ndarray, " _"], ...]
    x: Float[np.ndarray, "n d"]
    values: Float[np.ndarray, "n outputs"]

    def __init__(self, axes, values):
        axes = tuple(np.asarray(axis, np.float64) for axis in axes)
        values = np.asarray(values, np.float64)
        shape = tuple(axis.size for axis in axes)
        if values.shape[:-1] != shape:
            raise ValueError(
                f"`values` must have shape {(*shape, 'outputs')} for these axes, got "
                f"{values.shape}."
            )
        self.axes = axes
        self.x = grid_points(axes)
        self.values = values.reshape(-1, values.shape[-1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of grid points along each axis."""
        return tuple(axis.size for axis in self.axes)

    def on_grid(
        self, values: Float[Array | np.ndarray, "n outputs"]
    ) -> Float[Array | np.ndarray, "*shape outputs"]:
        """Reshape values at the rows of `x` to `(*shape, outputs)`.

        **Arguments:**

        - `values`: for instance `self.values`, or a prediction at `self.x`.
        """
        return values.reshape(*self.shape, values.shape[-1])
