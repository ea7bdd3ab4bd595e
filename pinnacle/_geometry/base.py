"""Where points of one kind live."""

import abc

import equinox as eqx
from jaxtyping import Array, Bool, Float


class AbstractDomain(eqx.Module):
    """A set in ℝ^dim that the unit cube [0,1)^dof maps onto, measure preserving.

    Because samplers only ever produce points of the unit cube, every sampler works on
    every domain.
    """

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Number of coordinates of a point."""

    @property
    @abc.abstractmethod
    def dof(self) -> int:
        """Number of unit-cube coordinates that `from_unit` consumes."""

    @property
    @abc.abstractmethod
    def measure(self) -> float:
        """Length, area, volume, … of the set (the counting measure of a point is 1)."""

    @property
    @abc.abstractmethod
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Lower and upper corner of the smallest box that contains the set."""

    @abc.abstractmethod
    def from_unit(self, unit: Float[Array, "n dof"]) -> Float[Array, "n dim"]:
        """Map points of the unit cube into the set; uniform goes to uniform.

        **Arguments:**

        - `unit`: points of [0,1)^dof, one a row.

        **Returns:**

        Points of the set, one a row, of the dtype of `unit`.
        """

    @abc.abstractmethod
    def contains(self, x: Float[Array, "n dim"]) -> Bool[Array, " n"]:
        """Which rows lie in the closed set, up to rounding."""
