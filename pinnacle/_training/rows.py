"""The weighted residual rows of a training set, as an optimiser sees them."""

import itertools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .._model import Model
from .._ntk.jacobian import Rows
from .._space.augmented import AugmentedSpace, Block
from .loss import residual_rows, row_scale


RowFunction = Callable[[PyTree], Float[Array, " rows"]]


class ResidualRows(eqx.Module):
    """θ ↦ the weighted residual rows, ½‖rows(θ)‖² being the loss.

    A plain function of the parameters to whoever only calls it. Its Jacobian knows
    that a row depends on one point only: it takes one backward pass a row through one
    point, where `jax.jacrev` takes one through all points.

    **Arguments:**

    - `space`: the augmented space.
    - `rest`: what of the model is not trained, the second part of `Model.partition`.
    - `blocks`: the training set, one block a kind.
    """

    space: AugmentedSpace
    rest: Model
    blocks: tuple[Block, ...]

    def __call__(self, parameters: PyTree) -> Float[Array, " rows"]:
        model = eqx.combine(parameters, self.rest)
        return residual_rows(self.space, model, self.blocks)

    def jacobian(self, parameters: PyTree) -> Float[Array, "rows P"]:
        """J = ∂rows/∂θ, the columns in the order of `jax.flatten_util.ravel_pytree`.

        Rows of padding are 0.
        """
        return jnp.concatenate(self.jacobian_blocks(parameters), axis=1)

    def jacobian_blocks(self, parameters: PyTree) -> list[Float[Array, "rows _"]]:
        """J in blocks of columns, whose join `jacobian` is.

        Each holds one large array of parameters, or small ones that follow each other.
        Joining them takes longer than computing them.
        """
        rows = Rows(self.space, eqx.combine(parameters, self.rest), True, None)
        by_kind = [
            rows.leaves(kind, block, row_scale(block))
            for kind, block in enumerate(self.blocks)
        ]
        return _join_small(list(map(jnp.concatenate, zip(*by_kind, strict=True))))


def jacobian_blocks(
    rows: RowFunction, parameters: PyTree
) -> list[Float[Array, "rows _"]]:
    """J = ∂rows/∂θ in blocks of columns: by the rows' own method, or by `jax.jacrev` of
    a plain function."""
    if isinstance(rows, ResidualRows):
        return rows.jacobian_blocks(parameters)
    leaves = jax.tree.leaves(jax.jacrev(rows)(parameters))
    return _join_small([leaf.reshape(leaf.shape[0], -1) for leaf in leaves])


_SMALL = 1024  # columns below which a product of its own does not pay


def _join_small(blocks: list[Float[Array, "rows _"]]) -> list[Float[Array, "rows _"]]:
    """Neighbours of fewer columns than `_SMALL` in one block."""
    joined = []
    for small, run in itertools.groupby(blocks, lambda J: J.shape[1] < _SMALL):
        neighbours = list(run)
        joined += [jnp.concatenate(neighbours, axis=1)] if small else neighbours
    return joined
