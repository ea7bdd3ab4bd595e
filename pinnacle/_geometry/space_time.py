"""A domain of space times an interval of time, and its faces."""

from typing import SupportsFloat

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._misc import require_part
from .base import AbstractDomain, AbstractFace, AbstractRegion
from .box import Box, as_number, check_axis, check_bounds, stretch, within
from .periodic import PeriodicFace


class SpaceTime(AbstractRegion):
    """The product of a domain with the time interval [t_lower, t_upper].

    Time is the last coordinate.

    **Arguments:**

    - `space`: any domain without a time of its own.
    - `t_lower`, `t_upper`: first and last time.

    **Raises:**

    `ValueError` unless both times are finite and t_lower < t_upper, or if `space`
    already has a time axis.
    """

    space: AbstractDomain
    t_lower: float = eqx.field(static=True)
    t_upper: float = eqx.field(static=True)

    def __init__(
        self,
        space: AbstractDomain,
        t_lower: SupportsFloat,
        t_upper: SupportsFloat,
    ):
        require_part("space", space, AbstractDomain, "Interval(0, 1)")
        self.space = space
        self.t_lower = as_number("t_lower", t_lower)
        self.t_upper = as_number("t_upper", t_upper)

    def __check_init__(self):
        check_bounds("t_lower", self.t_lower, "t_upper", self.t_upper)
        if self.space.time_axis is not None:
            raise ValueError(
                f"`space` must have no time axis, got {self.space}. Pass the spatial "
                "domain alone; `SpaceTime` adds the time."
            )

    @property
    def dim(self) -> int:
        return self.space.dim + 1

    @property
    def dof(self) -> int:
        return self.space.dof + 1

    @property
    def duration(self) -> float:
        """t_upper − t_lower."""
        return self.t_upper - self.t_lower

    @property
    def measure(self) -> float:
        return self.space.measure * self.duration

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        lower, upper = self.space.bounds
        return (*lower, self.t_lower), (*upper, self.t_upper)

    @property
    def time_axis(self) -> int | None:
        return self.space.dim

    def from_unit(self, unit: Float[Array, "n dof"]) -> Float[Array, "n dim"]:
        t = stretch(unit[:, -1:], (self.t_lower,), (self.t_upper,))
        return jnp.concatenate([self.space.from_unit(unit[:, :-1]), t], axis=1)

    def contains(self, x: Float[Array, "n dim"]) -> Bool[Array, " n"]:
        in_time = within(x[:, -1:], (self.t_lower,), (self.t_upper,))
        return self.space.contains(x[:, :-1]) & in_time

    def boundary(
        self, axis: int | None = None, side: str | None = None
    ) -> "LateralFaces":
        """The spatial boundary, or a part of it, at all times."""
        if not isinstance(self.space, AbstractRegion):
            raise ValueError(
                f"`space`={self.space} has no boundary. Derive its class from "
                "`AbstractRegion` and write its `boundary`."
            )
        if axis is not None:
            self._check_spatial(axis)
        return LateralFaces(self, self.space.boundary(axis, side))

    def initial(self) -> "InitialFace":
        """The face t = t_lower."""
        return InitialFace(self)

    def periodic(self, axis: int) -> PeriodicFace:
        """The lower face of a spatial axis at all times, each point x of which stands
        for the pair (x, x + period·e_axis).

        **Raises:**

        `ValueError` for an axis that is not a spatial one, or if the space is no box.
        """
        self._check_spatial(axis)
        if not isinstance(self.space, Box):
            raise ValueError(
                f"`space`={self.space} is not a box, so that its opposite faces are "
                "not known. Build a `PeriodicFace` from a face of yours."
            )
        inner = self.space.periodic(axis)
        return PeriodicFace(LateralFaces(self, inner.face), axis, inner.period)

    def _check_spatial(self, axis: int) -> None:
        if axis == self.time_axis:
            raise ValueError(
                f"`axis`={axis} is the time. Use `initial()` for the face at the first "
                "time; the last time carries no condition."
            )
        check_axis(axis, self.space.dim)


class InitialFace(AbstractFace):
    """The points of a space-time at its first time.

    **Arguments:**

    - `space_time`: the space-time.
    """

    space_time: SpaceTime

    @property
    def region(self) -> SpaceTime:
        return self.space_time

    @property
    def dim(self) -> int:
        return self.space_time.dim

    @property
    def dof(self) -> int:
        return self.space_time.space.dof

    @property
    def measure(self) -> float:
        return self.space_time.space.measure

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        lower, upper = self.space_time.space.bounds
        return (*lower, self.space_time.t_lower), (*upper, self.space_time.t_lower)

    @property
    def time_axis(self) -> int | None:
        return self.space_time.time_axis

    def from_unit(self, unit: Float[Array, "n dof"]) -> Float[Array, "n dim"]:
        t = jnp.full((unit.shape[0], 1), self.space_time.t_lower, unit.dtype)
        return jnp.concatenate([self.space_time.space.from_unit(unit), t], axis=1)

    def contains(self, x: Float[Array, "n dim"]) -> Bool[Array, " n"]:
        t = (self.space_time.t_lower,)
        return self.space_time.space.contains(x[:, :-1]) & within(x[:, -1:], t, t)

    def normal(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return jnp.zeros_like(x).at[-1].set(-1)


class LateralFaces(AbstractFace):
    """A face of the space of a space-time, at all times.

    **Arguments:**

    - `space_time`: the space-time.
    - `face`: a face of its space.
    """

    space_time: SpaceTime
    face: AbstractFace

    @property
    def region(self) -> SpaceTime:
        return self.space_time

    @property
    def dim(self) -> int:
        return self.space_time.dim

    @property
    def dof(self) -> int:
        return self.face.dof + 1

    @property
    def measure(self) -> float:
        return self.face.measure * self.space_time.duration

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return self._product.bounds

    @property
    def time_axis(self) -> int | None:
        return self.space_time.time_axis

    def from_unit(self, unit: Float[Array, "n dof"]) -> Float[Array, "n dim"]:
        return self._product.from_unit(unit)

    def contains(self, x: Float[Array, "n dim"]) -> Bool[Array, " n"]:
        return self._product.contains(x)

    def normal(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return jnp.append(self.face.normal(x[:-1]), jnp.zeros((), x.dtype))

    @property
    def _product(self) -> SpaceTime:
        return SpaceTime(self.face, self.space_time.t_lower, self.space_time.t_upper)
