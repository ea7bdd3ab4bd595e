"""The augmented space: the disjoint union of all kinds of points.

This is the only file that looks at `kind`. Everything else sees blocks (all rows of one
kind, in the order of the components) or plain arrays.
"""

from collections.abc import Iterable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32

from .._misc import require_instance
from .._model import Model
from .._types import Points
from .component import GROUPS, Component


class Block(eqx.Module):
    """Rows of one kind; padding rows have `mask == False` and a valid coordinate."""

    x: Float[Array, "c d"]
    mask: Bool[Array, " c"]
    label: Float[Array, "c l"]
    weight: Float[Array, " c"]

    @property
    def size(self) -> int:
        return self.x.shape[0]

    def rows(self, start: int, stop: int) -> "Block":
        """The rows `start:stop`."""
        return jax.tree.map(lambda leaf: leaf[start:stop], self)


def _as_components(components) -> tuple[Component, ...]:
    advice = "give `Component`s"
    require_instance("`components`", components, Iterable, f"{advice} in a list")
    for number, component in enumerate(components := tuple(components)):
        require_instance(f"`components[{number}]`", component, Component, advice)
    return components


class AugmentedSpace(eqx.Module):
    """𝒵 = ⋃_r {(x, r) : x ∈ domain of r} (the paper's eq. `eqn:augspace`).

    **Arguments:**

    - `components`: the kinds. Their order fixes the meaning of `Points.kind`.

    Raises `ValueError` for no components, repeated names, different dimensions, or a
    condition that has no point in common with the domains of the equations.
    """

    components: tuple[Component, ...] = eqx.field(converter=_as_components)

    def __check_init__(self):
        if not self.components:
            raise ValueError("`components` is empty: give at least one Component.")
        names = [c.name for c in self.components]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise ValueError(
                f"`components` repeats the name(s) {sorted(repeated)}: names must be "
                "unique, they label histories and figures."
            )
        dims = {c.name: c.domain.dim for c in self.components}
        if len(set(dims.values())) > 1:
            raise ValueError(
                f"`components` live in different dimensions, {dims}: every domain must "
                "have the coordinates of the whole problem (time included)."
            )
        _check_places(self.components)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.components)

    @property
    def dim(self) -> int:
        """Number of coordinates of a point."""
        return self.components[0].domain.dim

    @property
    def rows(self) -> int:
        """The largest number of residual rows of any kind."""
        return max(c.operator.rows for c in self.components)

    @property
    def group_of_kind(self) -> np.ndarray:
        """Budget group (index into `("collocation", "experimental")`) of each kind."""
        return np.array([GROUPS.index(c.group) for c in self.components], np.int32)

    @property
    def measured(self) -> np.ndarray:
        """Which kinds carry labels: those without a target."""
        return np.array([c.target is None for c in self.components])

    def kind(self, name: str) -> int:
        """The index of a component by name."""
        if name not in self.names:
            raise ValueError(f"no component {name!r}; there are {list(self.names)}.")
        return self.names.index(name)

    def anchor(self, kind: int, dtype) -> Float[Array, " d"]:
        """A fixed point of the kind's domain, for rows that stand for no point.

        It lies off the middle, where solutions and operators like to be singular.
        """
        domain = self.components[kind].domain
        return domain.from_unit(jnp.full((1, domain.dof), 0.381966, dtype))[0]

    def check(self, model: Model) -> None:
        """Raise `ValueError` unless all operators can be applied to the model.

        Evaluated abstractly: only shapes and dtypes are looked at.
        """
        found = model.dtypes
        if len(found) != 1 or found[0] not in ("float32", "float64"):
            raise ValueError(
                f"the parameters of `model` are {' and '.join(found)}: convert them "
                "all to float32, or all to float64."
            )
        if jax.dtypes.canonicalize_dtype(found[0]) != found[0]:
            raise ValueError(
                "the parameters of `model` are float64, but JAX computes in float32 "
                "now: switch its option `jax_enable_x64` on before anything else, or "
                "convert the model to float32."
            )
        x = jax.ShapeDtypeStruct((self.dim,), model.dtype)
        label = jax.ShapeDtypeStruct((self.rows,), model.dtype)
        try:
            eqx.filter_eval_shape(model, x)
        except Exception as error:
            raise ValueError(
                f"`model` cannot be called at one point of {self.dim} coordinates, as "
                f"the space has them: {error}"
            ) from error
        for component in self.components:
            eqx.filter_eval_shape(component.residual, model, x, label)

    def residual(
        self, model: Model, blocks: Sequence[Block]
    ) -> tuple[Float[Array, "_c _m"], ...]:
        """√λ·R(z) for every row of every block; padding rows are 0.

        **Arguments:**

        - `model`: network and coefficients.
        - `blocks`: one block a kind, in the order of the components.

        **Returns:**

        One array a kind, shape `(rows of the block, rows of the operator)`.
        """
        return tuple(
            _block_residual(component, model, block)
            for component, block in zip(self.components, blocks, strict=True)
        )

    def split(self, points: Points, capacities: Sequence[int]) -> tuple[Block, ...]:
        """Sort points into one padded block a kind.

        Live rows keep their order. Rows beyond a kind's capacity are dropped, so
        `capacities` must be at least the counts (see `counts`).

        **Arguments:**

        - `points`: any points of this space.
        - `capacities`: static number of rows of each block.
        """
        return tuple(
            self._gather(points, kind, capacity)
            for kind, capacity in enumerate(capacities)
        )

    def _gather(self, points: Points, kind: int, capacity: int) -> Block:
        here = points.mask & (points.kind == kind)
        (index,) = jnp.nonzero(here, size=capacity, fill_value=0)
        live = jnp.arange(capacity) < jnp.sum(here)
        # Padding repeats a live point: an operator that is singular somewhere else
        # would send NaN through the gradient of a masked row.
        anchor = self.anchor(kind, points.x.dtype)
        first = points.x[jnp.argmax(here)]
        spare = jnp.where(jnp.any(here), first, anchor)
        return Block(
            x=jnp.where(live[:, None], points.x[index], spare[None, :]),
            mask=live,
            label=jnp.where(live[:, None], points.label[index], 0),
            weight=jnp.where(live, points.weight[index], 0),
        )

    def join(self, blocks: Sequence[Block]) -> Points:
        """All rows of all blocks as points, in block order."""
        sizes = [block.size for block in blocks]
        joined = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *blocks)
        kind = jnp.asarray(np.repeat(np.arange(len(blocks)), sizes), jnp.int32)
        # XLA is not to work out, as it compiles, what follows from a million kinds.
        kind = jax.lax.optimization_barrier(kind)
        return Points(joined.x, kind, joined.mask, joined.label, joined.weight)

    def stack(
        self, rows: Sequence[Float[Array, "_c _m ..."]]
    ) -> Float[Array, "n rows ..."]:
        """Per-kind arrays of residual rows as one array in block order, zero-padded."""

        def pad(block):
            missing = self.rows - block.shape[1]
            return jnp.pad(block, [(0, 0), (0, missing)] + [(0, 0)] * (block.ndim - 2))

        return jnp.concatenate([pad(block) for block in rows])

    def counts(self, points: Points) -> Int32[Array, " kinds"]:
        """Number of live rows of each kind."""
        kinds = jnp.arange(len(self.components), dtype=jnp.int32)
        here = points.mask[None, :] & (points.kind[None, :] == kinds[:, None])
        return jnp.sum(here, axis=1, dtype=jnp.int32)


def _check_places(components: Sequence[Component]) -> None:
    """Conditions meet the smallest box around the kinds that fill the domain."""
    filling = [c.domain.bounds for c in components if c.fills_domain]
    if not filling:
        return
    lower = np.min([bounds[0] for bounds in filling], axis=0)
    upper = np.max([bounds[1] for bounds in filling], axis=0)
    slack = 1e-5 * (upper - lower)
    for component in components:
        low, high = component.domain.bounds
        outside = np.any(high < lower - slack) or np.any(low > upper + slack)
        if component.group == "collocation" and outside:
            raise ValueError(
                f"component {component.name!r} lies in {low} to {high}, outside of the "
                f"domain of the equations, {tuple(lower.tolist())} to "
                f"{tuple(upper.tolist())}: take a face of that domain."
            )


def _block_residual(
    component: Component, model: Model, block: Block
) -> Float[Array, "c m"]:
    at_points = jax.vmap(component.residual, in_axes=(None, 0, 0))
    return jnp.where(block.mask[:, None], at_points(model, block.x, block.label), 0)
