"""The candidate pool: fresh points of each kind, PDE points where the others are."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._sampler.base import AbstractSampler
from .augmented import AugmentedSpace, Block


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

    sizes: tuple[int, ...] = eqx.field(static=True, converter=tuple)
    sampler: AbstractSampler | tuple[AbstractSampler, ...]
    everywhere: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        if not self.sizes or min(self.sizes) < 0 or sum(self.sizes) == 0:
            raise ValueError(
                f"`sizes` of the pool is {self.sizes}: give the number of candidates "
                "of each kind, none negative and not all 0."
            )
        if isinstance(self.sampler, tuple) and len(self.sampler) != len(self.sizes):
            raise ValueError(
                f"`sampler` names {len(self.sampler)} samplers for {len(self.sizes)} "
                "kinds: give one for all, or one a kind."
            )

    def draw(
        self, space: AugmentedSpace, dtype, *, key: PRNGKeyArray
    ) -> tuple[Block, ...]:
        """Draw the candidates of one round.

        **Arguments:**

        - `space`: the augmented space; it must have as many kinds as `sizes`.
        - `dtype`: floating dtype of the coordinates.
        - `key`: a JAX random key.

        **Returns:**

        One block a kind. Their sizes are static: fresh candidates first, then those at
        the locations of other kinds (masked where they lie outside the kind's domain).
        """
        keys = jax.random.split(key, len(self.sizes))
        fresh = [self._fresh(space, kind, dtype, key=k) for kind, k in enumerate(keys)]
        return tuple(
            _block(space, kind, self._locations(space, kind, fresh))
            for kind in range(len(self.sizes))
        )

    def _fresh(self, space, kind, dtype, *, key) -> Float[Array, "n d"]:
        domain = space.components[kind].domain
        each = self.sampler
        sampler = each[kind] if isinstance(each, tuple) else each
        unit = sampler.unit(self.sizes[kind], domain.dof, key=key)
        below_one = jnp.nextafter(jnp.ones((), dtype), jnp.zeros((), dtype))
        return domain.from_unit(jnp.minimum(unit.astype(dtype), below_one))

    def _locations(self, space, kind, fresh: Sequence[Array]) -> Float[Array, "n d"]:
        here = space.components
        if not (self.everywhere and here[kind].fills_domain):
            return fresh[kind]
        others = [x for k, x in enumerate(fresh) if not here[k].fills_domain]
        return jnp.concatenate([fresh[kind], *others])


def _block(space: AugmentedSpace, kind: int, x: Float[Array, "n d"]) -> Block:
    inside = space.components[kind].domain.contains(x)
    anchor = space.anchor(kind, x.dtype)
    return Block(
        x=jnp.where(inside[:, None], x, anchor[None, :]),
        mask=inside,
        label=jnp.zeros((x.shape[0], space.rows), x.dtype),
        weight=jnp.ones(x.shape[0], x.dtype),
    )
