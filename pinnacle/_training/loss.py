"""The training objective: the paper's eq. (3) over blocks of one kind each."""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._model import Model
from .._space.augmented import AugmentedSpace, Block


def loss_by_kind(
    space: AugmentedSpace, model: Model, blocks: Sequence[Block]
) -> Float[Array, " kinds"]:
    """λ_r/(2N_r) Σ_z w(z)‖R(z)‖² for every kind r; a kind without points gives 0.

    N_r counts the live rows of the block, w(z) is the importance weight of a row.
    """
    return jnp.stack([0.5 * jnp.sum(rows**2) for rows in _rows(space, model, blocks)])


def residual_rows(
    space: AugmentedSpace, model: Model, blocks: Sequence[Block]
) -> Float[Array, " rows"]:
    """All residual rows, scaled so that ½‖rows‖² is the loss; padding rows are 0."""
    return jnp.concatenate([r.reshape(-1) for r in _rows(space, model, blocks)])


def _rows(space, model, blocks) -> list[Float[Array, "_c _m"]]:
    residuals = space.residual(model, blocks)
    return [
        R * row_scale(block)[:, None]
        for R, block in zip(residuals, blocks, strict=True)
    ]


def row_scale(block: Block) -> Float[Array, " c"]:
    """√(w(z)/N_r), by which the rows of a point are multiplied; 0 on padding."""
    count = jnp.maximum(jnp.sum(block.mask), 1).astype(block.weight.dtype)
    return jnp.where(block.mask, jnp.sqrt(block.weight / count), 0)
