"""The weighted residual rows of a training set, as an optimiser sees them."""

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
        model = eqx.combine(parameters, self.rest)
        # One chunk: the whole J is wanted, and the blocks have hardly any padding.
        chunk = max(1, *(block.size for block in self.blocks))
        rows = Rows(self.space, model, coefficients=True, chunk=chunk)
        blocks = [
            rows.jacobian(kind, block) * row_scale(block)[:, None, None]
            for kind, block in enumerate(self.blocks)
        ]
        return jnp.concatenate([J.reshape(-1, rows.size) for J in blocks])


def jacobian(rows: RowFunction, parameters: PyTree) -> Float[Array, "rows P"]:
    """J = ∂rows/∂θ by the rows' own method, or by `jax.jacrev` of a plain function."""
    if isinstance(rows, ResidualRows):
        return rows.jacobian(parameters)
    leaves = jax.tree.leaves(jax.jacrev(rows)(parameters))
    return jnp.concatenate([leaf.reshape(leaf.shape[0], -1) for leaf in leaves], axis=1)
