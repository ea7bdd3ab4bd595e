"""The candidate pool: fresh points of each kind, PDE points where the others are."""

from collections.abc import Iterable, Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._geometry.finite_set import AbstractFiniteSet
from .._misc import require_instance, require_integer
from .._sampler.base import AbstractSampler
from .._types import Points
from .augmented import AugmentedSpace, Block


# Coordinates, and which of them are candidates.
Locations = tuple[Float[Array, "_n d"], Bool[Array, " _n"]]


def _as_sizes(sizes) -> tuple[int, ...]:
    if isinstance(sizes, Mapping | str) or not isinstance(sizes, Iterable):
        raise ValueError(
            f"`sizes` of the pool is {sizes!r}: give one number of candidates for each "
            "kind, in the order of the components."
        )
    what = "give the number of candidates of each kind, none negative"
    return tuple(require_integer("sizes", n, 0, f"{what}, in {sizes!r}") for n in sizes)


class CandidatePool(eqx.Module):
    """How many candidates of each kind are drawn in a round, and how.

    **Arguments:**

    - `sizes`: number of fresh candidates of each kind, in the order of the components.
    - `sampler`: one sampler, or one for each kind.
    - `everywhere`: whether kinds that fill the whole domain (PDE residuals) also get a
      candidate at every location of the other kinds, as in the published method.

    Raises `ValueError` for negative sizes, an empty pool, or a wrong number of
    samplers.
    """

    sizes: tuple[int, ...] = eqx.field(static=True, converter=_as_sizes)
    sampler: AbstractSampler | tuple[AbstractSampler, ...]
    everywhere: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        if not any(self.sizes):
            raise ValueError(
                f"`sizes` of the pool is {self.sizes}: give the number of candidates "
                "of each kind, not all 0."
            )
        if isinstance(self.sampler, tuple) and len(self.sampler) != len(self.sizes):
            raise ValueError(
                f"`sampler` names {len(self.sampler)} samplers for {len(self.sizes)} "
                "kinds: give one for all, or one a kind."
            )
        each = self.sampler if isinstance(self.sampler, tuple) else (self.sampler,)
        for sampler in each:
            advice = "give one such as `Uniform()`, or a tuple of one a kind"
            require_instance("`sampler`", sampler, AbstractSampler, advice)

    def offers(self, space: AugmentedSpace) -> tuple[int, ...]:
        """How many candidates of each kind there are, at most; for those that fill the
        domain together with the ones at the locations of other kinds."""
        fills = [component.fills_domain for component in space.components]
        pairs = list(zip(self.sizes, fills, strict=True))
        there = sum(n for n, filling in pairs if not filling)
        return tuple(n + there * (f and self.everywhere) for n, f in pairs)

    def draw(
        self,
        space: AugmentedSpace,
        dtype,
        *,
        key: PRNGKeyArray,
        taken: Points | None = None,
    ) -> tuple[Block, ...]:
        """Draw the candidates of one round.

        Of a finite set, each location comes up at most once; locations that `taken` has
        with the same kind do not come up. The sampler has no say there.

        **Arguments:**

        - `space`: the augmented space; it must have as many kinds as `sizes`.
        - `dtype`: floating dtype of the coordinates.
        - `key`: a JAX random key.
        - `taken`: points whose locations finite sets do not offer again.

        **Returns:**

        One block a kind. Their sizes are static: fresh candidates first, then those at
        the locations of other kinds (masked where they lie outside the kind's domain).
        Rows of which a finite set has too few are masked.
        """
        keys = jax.random.split(key, len(self.sizes))
        fresh = [
            self._fresh(space, kind, dtype, taken, key=k) for kind, k in enumerate(keys)
        ]
        return tuple(
            _block(space, kind, *self._locations(space, kind, fresh))
            for kind in range(len(self.sizes))
        )

    def _fresh(self, space, kind, dtype, taken, *, key) -> Locations:
        domain, size = space.components[kind].domain, self.sizes[kind]
        if isinstance(domain, AbstractFiniteSet):
            table = domain.locations.astype(dtype)
            x, live = _rows_of_table(table, size, _of_kind(taken, kind), key=key)
        else:
            each = self.sampler
            sampler = each[kind] if isinstance(each, tuple) else each
            unit = sampler.unit(size, domain.dof, key=key).astype(dtype)
            _check_shape(unit, (size, domain.dof), sampler, "unit")
            below_one = jnp.nextafter(jnp.ones((), dtype), jnp.zeros((), dtype))
            x = domain.from_unit(jnp.minimum(unit, below_one))
            _check_shape(x, (size, domain.dim), domain, "from_unit")
            live = domain.contains(x)
        return x, live

    def _locations(
        self, space, kind, fresh: Sequence[tuple[Array, Array]]
    ) -> Locations:
        here = space.components
        if not (self.everywhere and here[kind].fills_domain):
            return fresh[kind]
        others = [f for k, f in enumerate(fresh) if not here[k].fills_domain]
        x = jnp.concatenate([fresh[kind][0], *(x for x, _ in others)])
        live = jnp.concatenate([fresh[kind][1], *(live for _, live in others)])
        return x, live & here[kind].domain.contains(x)


def _check_shape(array: Array, shape: tuple[int, int], owner, method: str) -> None:
    if array.shape != shape:
        raise ValueError(
            f"`{type(owner).__name__}.{method}` returned shape {array.shape} where "
            f"{shape} was asked for, one point a row."
        )


def _of_kind(taken: Points | None, kind: int) -> Locations | None:
    return None if taken is None else (taken.x, taken.mask & (taken.kind == kind))


def _rows_of_table(
    table: Float[Array, "N d"], size: int, taken: Locations | None, *, key: PRNGKeyArray
) -> Locations:
    """`size` rows in random order, none twice and none of those taken.

    Of the first size + #taken rows of a random permutation at most #taken are not free.
    """
    spare = 0 if taken is None else taken[1].size
    order = jax.random.permutation(key, table.shape[0])[: size + spare]
    free = jnp.ones(order.shape, bool)
    if taken is not None:
        free = ~_among(table[order], *taken)
    first = jnp.argsort(~free, stable=True)[:size]
    missing = size - first.size
    x, live = table[order[first]], free[first]
    return jnp.pad(x, ((0, missing), (0, 0))), jnp.pad(live, (0, missing))


def _among(
    x: Float[Array, "n d"], others: Float[Array, "m d"], mask: Bool[Array, " m"]
) -> Bool[Array, " n"]:
    """Which rows equal a live row of the others."""
    same = mask[None, :]
    for axis in range(x.shape[1]):
        same = same & (x[:, axis, None] == others[None, :, axis])
    return jnp.any(same, axis=1)


def _block(
    space: AugmentedSpace, kind: int, x: Float[Array, "n d"], live: Bool[Array, " n"]
) -> Block:
    anchor = space.anchor(kind, x.dtype)
    return Block(
        x=jnp.where(live[:, None], x, anchor[None, :]),
        mask=live,
        label=jnp.zeros((x.shape[0], space.rows), x.dtype),
        weight=jnp.ones(x.shape[0], x.dtype),
    )
