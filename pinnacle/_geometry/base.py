"""Where points of one kind live."""

import abc

import equinox as eqx
from jaxtyping import Array, Bool, Float


class AbstractDomain(eqx.Module):
    """A set in ℝ^dim that the unit cube [0,1)^dof maps onto, measure preserving.

    Because samplers only ever produce points of the unit cube, every sampler works on
    every domain.

    **Your own domain** is a final subclass with the seven members below. A disk, say:

    ```python
    class Disk(AbstractDomain):
        radius: float = eqx.field(static=True)
        dim = property(lambda self: 2)
        dof = property(lambda self: 2)
        measure = property(lambda self: math.pi * self.radius**2)
        bounds = property(lambda self: ((-self.radius,) * 2, (self.radius,) * 2))
        time_axis = property(lambda self: None)

        def from_unit(self, unit):
            r, angle = self.radius * jnp.sqrt(unit[:, 0]), 2 * jnp.pi * unit[:, 1]
            return jnp.stack([r * jnp.cos(angle), r * jnp.sin(angle)], axis=1)

        def contains(self, x):
            return jnp.linalg.norm(x, axis=1) <= self.radius * (1 + 1e-6)
    ```

    Derive from [`AbstractRegion`][] instead to give it a boundary, and from
    [`AbstractFace`][] for the boundary itself. `SpaceTime` takes any of them as space.
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

    @property
    @abc.abstractmethod
    def time_axis(self) -> int | None:
        """Which coordinate is time; None where none is."""

    @property
    def fixed_axes(self) -> tuple[int, ...]:
        """Coordinates in which all points of the set agree; () for a full box."""
        lower, upper = self.bounds
        return tuple(i for i in range(self.dim) if lower[i] == upper[i])

    @abc.abstractmethod
    def from_unit(self, unit: Float[Array, "n dof"]) -> Float[Array, "n dim"]:
        """Map points of the unit cube into the set; uniform goes to uniform.

        **Arguments:**

        - `unit`: points of [0,1)^dof, one a row.

        **Returns:**

        Points of the set, one a row, of the dtype of `unit`. Rounding must not carry
        them out of `bounds`.
        """

    @abc.abstractmethod
    def contains(self, x: Float[Array, "n dim"]) -> Bool[Array, " n"]:
        """Which rows lie in the closed set, up to rounding."""


class AbstractFace(AbstractDomain):
    """A part of the boundary of a region, itself a domain, with a normal."""

    @property
    @abc.abstractmethod
    def region(self) -> AbstractDomain:
        """The domain that this is a part of the boundary of."""

    @abc.abstractmethod
    def normal(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The unit vector at one point `x` of the face that points out of the region.

        Where two faces meet it is the normal of one of them. It may be used under
        `jax.jit` and `jax.vmap`. On the initial face of a space-time it is −e_t, which
        is no spatial direction.
        """


class AbstractRegion(AbstractDomain):
    """A domain with an inside, hence with a boundary."""

    @abc.abstractmethod
    def boundary(
        self, axis: int | None = None, side: str | None = None
    ) -> AbstractFace:
        """The boundary, or a part of it, as one domain, uniform by measure.

        Of `box = Box((0, 0), (1, 2))`, `box.boundary()` is all four sides,
        `box.boundary(0)` the two at x₀ = 0 and x₀ = 1, and
        `box.boundary(1, "upper")` the one at x₁ = 2.

        **Arguments:**

        - `axis`: only the two faces across this coordinate; all of them by default.
        - `side`: `"lower"` or `"upper"`, only that one of the two.

        **Returns:**

        The chosen faces, as one domain. Regions whose boundary has no such parts (a
        disk) accept the defaults only.

        **Raises:**

        `ValueError` for an axis or a side that does not exist.
        """
