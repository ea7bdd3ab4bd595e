"""Pairs of points that a periodic solution does not tell apart."""

import equinox as eqx
from jaxtyping import Array, Bool, Float

from .base import AbstractDomain, AbstractFace


class PeriodicFace(AbstractFace):
    """A face, each point x of which stands for the pair (x, x + period·e_axis).

    **Arguments:**

    - `face`: where the points x live.
    - `axis`: the coordinate along which the solution repeats.
    - `period`: after which distance it does.

    **Raises:**

    `ValueError` if a point or its image lies outside the region of the face.
    """

    face: AbstractFace
    axis: int = eqx.field(static=True)
    period: float = eqx.field(static=True)

    def __check_init__(self):
        if self.axis not in self.face.fixed_axes:
            raise ValueError(
                f"`axis`={self.axis} must be one that `face` lies across, which are "
                f"{list(self.face.fixed_axes)}. Use `domain.periodic(axis)`."
            )
        lower, upper = (corner[self.axis] for corner in self.region.bounds)
        image = self.face.bounds[0][self.axis] + self.period
        slack = 1e-12 * max(abs(lower), abs(upper))
        if not lower - slack <= image <= upper + slack or self.period == 0:
            raise ValueError(
                f"`period`={self.period} takes the face to the coordinate {image} on "
                f"axis {self.axis}, which must lie in [{lower}, {upper}] and be "
                "another one. Use `domain.periodic(axis)`, or enlarge the domain."
            )

    @property
    def region(self) -> AbstractDomain:
        return self.face.region

    @property
    def dim(self) -> int:
        return self.face.dim

    @property
    def dof(self) -> int:
        return self.face.dof

    @property
    def measure(self) -> float:
        return self.face.measure

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return self.face.bounds

    @property
    def time_axis(self) -> int | None:
        return self.face.time_axis

    def from_unit(self, unit: Float[Array, "n dof"]) -> Float[Array, "n dim"]:
        return self.face.from_unit(unit)

    def contains(self, x: Float[Array, "n dim"]) -> Bool[Array, " n"]:
        return self.face.contains(x)

    def normal(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.face.normal(x)
