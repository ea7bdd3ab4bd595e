"""The wake of a cylinder at Re = 100, from the data file of this package.

`scripts/make_cylinder_wake.py` makes the file: the developed, periodic flow as mean and
harmonics in time, on an even grid of the window [1, 8] × [−2, 2] behind a cylinder of
diameter 1 at the origin, in a free stream (1, 0).
"""

import dataclasses
import functools
import pathlib

import numpy as np
from jaxtyping import Float

from .base import Reference


FILE = pathlib.Path(__file__).parent.parent / "data" / "cylinder_wake.npz"


@dataclasses.dataclass(frozen=True)
class CylinderWake:
    """The data file: Σ_n a_n cos(2π n f t) + b_n sin(2π n f t).

    **Attributes:**

    - `x`, `y`: the grid, evenly spaced by 0.05.
    - `cosine`, `sine`: a_n and b_n of u, v and p, rounded to 16 bits each with the
      scale `rounding` (its largest error).
    - `frequency`: f, the Strouhal number.
    - `drag`, `lift`: mean drag coefficient and amplitude of the lift coefficient; at
      t = 0 the lift passes zero upwards.
    - `error`: the largest change of each of u, v, p between the two grids of the
      solver.
    """

    x: Float[np.ndarray, " nx"]
    y: Float[np.ndarray, " ny"]
    cosine: Float[np.ndarray, "harmonics nx ny 3"]
    sine: Float[np.ndarray, "harmonics nx ny 3"]
    rounding: Float[np.ndarray, " 3"]
    frequency: float
    drag: float
    lift: float
    error: Float[np.ndarray, " 3"]

    def at(
        self, t: Float[np.ndarray, " times"], every: int = 1, rate: bool = False
    ) -> Float[np.ndarray, "_ _ times 3"]:
        """u, v and p, or their rates of change, at some times.

        **Arguments:**

        - `t`: the times; the flow goes on for ever.
        - `every`: every how many points of the grid, in x and in y.
        - `rate`: whether ∂_t is wanted.
        """
        omega = 2 * np.pi * self.frequency * np.arange(len(self.cosine))[:, None]
        wave = np.stack([np.cos(omega * t), np.sin(omega * t)])
        if rate:
            wave = np.stack([-omega * wave[1], omega * wave[0]])
        parts = np.stack([self.cosine, self.sine])[:, :, ::every, ::every]
        return np.einsum("pnt,pnxyo->xyto", wave, parts, optimize=True)


@functools.cache
def cylinder_wake() -> CylinderWake:
    """Read the data file of this package."""
    with np.load(FILE, allow_pickle=False) as file:
        scale = file["scale"]
        cosine, sine = file["values"] * scale[..., None, None, :]
        return CylinderWake(
            x=file["x"],
            y=file["y"],
            cosine=cosine,
            sine=sine,
            rounding=np.sum(scale, axis=(0, 1)) / 2,
            frequency=float(file["frequency"]),
            drag=float(file["drag"]),
            lift=float(file["lift"]),
            error=file["error"],
        )


def cylinder_wake_reference(
    *, duration: float = 7.0, intervals: int = 28, every: int = 4
) -> Reference:
    """u, v and p behind a cylinder at Re = 100, on [1, 8] × [−2, 2] × [0, duration].

    u_t + u u_x + v u_y = −p_x + (u_xx + u_yy)/100, the same for v, and u_x + v_y = 0.

    **Arguments:**

    - `duration`: the final time.
    - `intervals`: the grid of the result has `intervals + 1` points in t, ends
      included.
    - `every`: every how many points of the data's grid, whose spacing is 0.05; a
      divisor of 20 keeps the ends.

    **Returns:**

    The flow on the grid, axes (x, y, t), outputs u, v and p.
    """
    wake = cylinder_wake()
    t = duration * np.arange(intervals + 1) / intervals
    axes = (wake.x[::every], wake.y[::every], t)
    return Reference(axes, wake.at(t, every))
