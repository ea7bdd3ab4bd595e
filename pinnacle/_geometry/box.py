"""Intervals and boxes, and their faces."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, SupportsFloat

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .base import AbstractFace, AbstractRegion
from .periodic import PeriodicFace


SIDES = ("lower", "upper")


class Box(AbstractRegion):
    """The axis-parallel box Π_i [lower_i, upper_i], of any dimension.

    **Arguments:**

    - `lower`, `upper`: two opposite corners, one number a coordinate.

    **Raises:**

    `ValueError` unless both have the same length, all numbers are finite and
    lower_i < upper_i.
    """

    lower: tuple[float, ...] = eqx.field(static=True)
    upper: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, lower: Iterable[SupportsFloat], upper: Iterable[SupportsFloat]):
        self.lower = as_floats("lower", lower)
        self.upper = as_floats("upper", upper)

    def __check_init__(self):
        if len(self.lower) != len(self.upper) or not self.lower:
            raise ValueError(
                "`lower` and `upper` must have the same length, at least 1, got "
                f"lower={self.lower} and upper={self.upper}. Give one number for each "
                "coordinate in both."
            )
        for axis, (a, b) in enumerate(zip(self.lower, self.upper, strict=True)):
            check_bounds(f"lower[{axis}]", a, f"upper[{axis}]", b)

    @property
    def dim(self) -> int:
        return len(self.lower)

    @property
    def dof(self) -> int:
        return self.dim

    @property
    def width(self) -> tuple[float, ...]:
        """Length of the box along each axis."""
        return tuple(b - a for a, b in zip(self.lower, self.upper, strict=True))

    @property
    def measure(self) -> float:
        return math.prod(self.width)

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return self.lower, self.upper

    @property
    def time_axis(self) -> int | None:
        return None

    def from_unit(self, unit: Float[Array, "n dof"]) -> Float[Array, "n dim"]:
        return stretch(unit, self.lower, self.upper)

    def contains(self, x: Float[Array, "n dim"]) -> Bool[Array, " n"]:
        return within(x, self.lower, self.upper)

    def boundary(self, axis: int | None = None, side: str | None = None) -> "BoxFaces":
        check_face(axis, side, self.dim)
        axes = range(self.dim) if axis is None else (axis,)
        sides = SIDES if side is None else (side,)
        return BoxFaces(self, tuple((a, s) for a in axes for s in sides))

    def periodic(self, axis: int) -> PeriodicFace:
        """The lower face of an axis, each point x of which stands for the pair
        (x, x + period·e_axis).

        **Raises:**

        `ValueError` for an axis that does not exist.
        """
        face = self.boundary(check_axis(axis, self.dim), "lower")
        return PeriodicFace(face, axis, self.width[axis])


def Interval(lower: SupportsFloat, upper: SupportsFloat) -> Box:
    """The interval [lower, upper]: a [`Box`][] of one dimension.

    **Raises:**

    `ValueError` unless both are finite and lower < upper.
    """
    a, b = as_number("lower", lower), as_number("upper", upper)
    check_bounds("lower", a, "upper", b)
    return Box((a,), (b,))


class BoxFaces(AbstractFace):
    """Some faces of a box, as one domain, uniform by measure.

    With p_k the share of face k in the measure and c_k = p_1 + … + p_{k−1}, the first
    unit coordinate v picks the face with c_k ≤ v < c_k + p_k, and (v − c_k)/p_k, again
    uniform on [0,1), is the first coordinate on it. So no further coordinate is needed
    and the points keep the low discrepancy of the sampler. In one dimension the faces
    are points with the counting measure.

    **Arguments:**

    - `box`: the box.
    - `faces`: pairs of an axis and `"lower"` or `"upper"`.

    **Raises:**

    `ValueError` if there is no face, or one that does not exist, or one twice.
    """

    box: Box
    faces: tuple[tuple[int, str], ...] = eqx.field(static=True)

    def __check_init__(self):
        for axis, side in self.faces:
            check_face(check_axis(axis, self.dim), side, self.dim)
        if not self.faces or len(set(self.faces)) < len(self.faces):
            raise ValueError(
                f"`faces` must be distinct pairs (axis, side), got {self.faces}. Name "
                "each face once, at least one."
            )

    @property
    def region(self) -> Box:
        return self.box

    @property
    def dim(self) -> int:
        return self.box.dim

    @property
    def dof(self) -> int:
        return self.dim - 1 if len(self.faces) == 1 else max(self.dim - 1, 1)

    @property
    def measures(self) -> tuple[float, ...]:
        """Measure of each face, in the order of `faces`."""
        width = self.box.width
        return tuple(
            math.prod((w for i, w in enumerate(width) if i != axis), start=1.0)
            for axis, _ in self.faces
        )

    @property
    def measure(self) -> float:
        return sum(self.measures)

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        corners = [self._face_bounds(axis, side) for axis, side in self.faces]
        lower, upper = zip(*corners, strict=True)
        return (
            tuple(map(min, zip(*lower, strict=True))),
            tuple(map(max, zip(*upper, strict=True))),
        )

    @property
    def time_axis(self) -> int | None:
        return None

    def from_unit(self, unit: Float[Array, "n dof"]) -> Float[Array, "n dim"]:
        n, dim = unit.shape[0], self.dim
        which, first = self._pick_face(unit)
        free = jnp.concatenate([first[:, None], unit[:, 1:]], 1)[:, : dim - 1]
        # Free coordinate j of a face across axis a is coordinate j, or j + 1 if j ≥ a.
        source = np.array([[i - (i > a) for i in range(dim)] for a, _ in self.faces])
        columns = jnp.asarray(np.minimum(source, max(dim - 2, 0)), jnp.int32)[which]
        free = free if dim > 1 else jnp.zeros((n, 1), unit.dtype)
        inside = self.box.from_unit(jnp.take_along_axis(free, columns, 1))
        axes, values = self._axes[which], self._values(unit.dtype)[which]
        across = jnp.arange(dim)[None, :] == axes[:, None]
        return jnp.where(across, values[:, None], inside)

    def contains(self, x: Float[Array, "n dim"]) -> Bool[Array, " n"]:
        on = [within(x, *self._face_bounds(axis, side)) for axis, side in self.faces]
        return jnp.any(jnp.stack(on), axis=0)

    def normal(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        width = jnp.asarray(self.box.width, x.dtype)[self._axes]
        distance = jnp.abs(x[self._axes] - self._values(x.dtype)) / width
        nearest = jnp.argmin(distance)
        signs = [1.0 if side == "upper" else -1.0 for _, side in self.faces]
        sign = jnp.asarray(signs, x.dtype)[nearest]
        return jnp.zeros_like(x).at[self._axes[nearest]].set(sign)

    def _pick_face(self, unit):
        """The face that each row falls on, and its rescaled first coordinate."""
        n = unit.shape[0]
        if len(self.faces) == 1:
            first = unit[:, 0] if self.dof else jnp.zeros(n, unit.dtype)
            return jnp.zeros(n, jnp.int32), first
        share = np.asarray(self.measures) / self.measure
        start = np.concatenate([[0.0], np.cumsum(share)[:-1]])
        start, share = jnp.asarray(start, unit.dtype), jnp.asarray(share, unit.dtype)
        v = unit[:, 0]
        which = jnp.searchsorted(start, v, side="right") - 1
        return which, (v - start[which]) / share[which]

    @property
    def _axes(self) -> Array:
        return jnp.asarray([axis for axis, _ in self.faces], jnp.int32)

    def _values(self, dtype) -> Array:
        """The coordinate in which the points of each face agree."""
        return jnp.asarray([self._value(*face) for face in self.faces], dtype)

    def _value(self, axis: int, side: str) -> float:
        return self.box.bounds[SIDES.index(side)][axis]

    def _face_bounds(self, axis: int, side: str):
        lower, upper = map(list, self.box.bounds)
        lower[axis] = upper[axis] = self._value(axis, side)
        return tuple(lower), tuple(upper)


def stretch(
    unit: Float[Array, "n dim"], lower: Sequence[float], upper: Sequence[float]
) -> Float[Array, "n dim"]:
    """lower + (upper − lower)·unit, never outside [lower, upper] by rounding.

    The corners themselves may not be representable in the dtype of `unit`; the points
    are kept between the nearest numbers inside, where there are any.
    """
    dtype = unit.dtype
    low, high = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    x = jnp.asarray(low, dtype)[None] + jnp.asarray(high - low, dtype)[None] * unit
    a, b = low.astype(dtype), high.astype(dtype)
    first = np.where(a < low, np.nextafter(a, np.inf, dtype=dtype), a)
    last = np.where(b > high, np.nextafter(b, -np.inf, dtype=dtype), b)
    first, last = np.where(first <= last, (first, last), (a, b))
    return jnp.clip(x, jnp.asarray(first)[None], jnp.asarray(last)[None])


def within(
    x: Float[Array, "n dim"], lower: Sequence[float], upper: Sequence[float]
) -> Bool[Array, " n"]:
    """Which rows lie in the closed box, up to a few units in the last place."""
    low, high = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    slack = 8 * float(jnp.finfo(x.dtype).eps) * np.maximum(abs(low), abs(high))
    low, high = jnp.asarray(low - slack, x.dtype), jnp.asarray(high + slack, x.dtype)
    return jnp.all((low[None] <= x) & (x <= high[None]), axis=1)


def as_number(name: str, value: Any) -> float:
    """A Python float, or a `ValueError` that names the argument."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be a number, got {value!r}. The bounds of a domain define "
            "the problem: they are plain numbers, known before anything is traced."
        ) from error


def as_floats(name: str, values: Any) -> tuple[float, ...]:
    """A tuple of Python floats, or a `ValueError` that names the argument."""
    try:
        items = tuple(values)
    except TypeError as error:
        raise ValueError(
            f"`{name}` must be a sequence with one number for each coordinate, got "
            f"{values!r}. Write ({values!r},), or use `Interval` in one dimension."
        ) from error
    return tuple(as_number(f"{name}[{i}]", item) for i, item in enumerate(items))


def check_bounds(name_a: str, a: float, name_b: str, b: float) -> None:
    """Raise `ValueError` unless a < b and both, and their difference, are finite."""
    for name, value in ((name_a, a), (name_b, b)):
        if not math.isfinite(value):
            raise ValueError(
                f"`{name}` must be finite, got {value}. Cut the domain off where the "
                "solution no longer matters."
            )
    if b <= a or not math.isfinite(b - a):
        raise ValueError(
            f"`{name_b}` must be larger than `{name_a}`, got {name_a}={a} and "
            f"{name_b}={b}. Swap them, or give the domain a finite positive width."
        )


def check_axis(axis: int, dim: int) -> int:
    """Raise `ValueError` unless `axis` is one of 0 … dim − 1."""
    if isinstance(axis, bool) or axis not in range(dim):
        raise ValueError(
            f"`axis` must be one of {list(range(dim))}, got {axis!r}. Axes count the "
            "coordinates of a point from 0."
        )
    return axis


def check_face(axis: int | None, side: str | None, dim: int) -> None:
    """Raise `ValueError` unless a box of `dim` dimensions has such a face."""
    if axis is not None:
        check_axis(axis, dim)
    if side is not None and side not in SIDES:
        raise ValueError(
            f'`side` must be "lower" or "upper", or None for both, got {side!r}.'
        )
    if side is not None and axis is None:
        raise ValueError(
            f"`side`={side!r} needs an `axis`: say across which coordinate, one of "
            f"{list(range(dim))}."
        )
