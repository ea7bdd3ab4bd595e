"""Loss weights from the traces of the NTK's diagonal blocks."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._model import Model
from .._ntk.jacobian import Rows
from .._space.augmented import AugmentedSpace, Block
from .._types import Points


def kernel_traces(
    space: AugmentedSpace,
    model: Model,
    points: Points,
    *,
    coefficients: bool = False,
    weighted: bool = True,
) -> Float[Array, " kinds"]:
    """tr Θ_kk = Σ_{z of kind k} ‖J(z)‖² for every kind.

    Every diagonal entry is a sum of squares: rows that point in opposite directions add
    up, they do not cancel.

    **Arguments:**

    - `space`, `model`: whose residuals.
    - `points`: where; padding does not count.
    - `coefficients`: whether the unknown coefficients count as parameters.
    - `weighted`: whether the present weights of the components count.
    """
    space = space if weighted else _reweighted(space, jnp.ones(len(space.components)))
    rows = Rows(space, model, coefficients, None)
    blocks = space.split(points, (points.size,) * len(space.components))
    return jnp.stack([_trace(rows, kind, block) for kind, block in enumerate(blocks)])


def _trace(rows: Rows, kind: int, block: Block) -> Float[Array, ""]:
    """Σ‖J(z)‖², a few points at a time."""

    def point(z):
        alone = jax.tree.map(lambda leaf: leaf[None], z)
        return jnp.sum(rows.jacobian(kind, alone) ** 2)

    return jnp.sum(jax.lax.map(point, block, batch_size=32))


def ntk_weights(
    space: AugmentedSpace,
    model: Model,
    points: Points,
    *,
    per_point: bool = False,
    coefficients: bool = False,
) -> Float[Array, " kinds"]:
    """λ_k = tr Θ/tr Θ_kk with the true traces (Wang, Yu and Perdikaris 2022, "When and
    why PINNs fail to train: a neural tangent kernel perspective").

    With these weights all diagonal blocks of the weighted kernel have the same trace,
    so that no kind's residual falls faster than another's on average. The present
    weights of `space` play no part: applying the result twice changes nothing.

    **Arguments:**

    - `space`, `model`: whose residuals.
    - `points`: the training set.
    - `per_point`: compare the traces per point, tr Θ_kk/N_k. The loss of this library
      takes a mean over each kind, and this is what equalises the kernel of that loss
      when the kinds have different numbers of points.
    - `coefficients`: whether the unknown coefficients count as parameters.

    **Returns:**

    One weight a kind. 1 for a kind without points or with trace 0.
    """
    traces = kernel_traces(
        space, model, points, coefficients=coefficients, weighted=False
    )
    if per_point:
        traces = traces / jnp.maximum(space.counts(points), 1)
    live = traces > 0
    return jnp.where(live, jnp.sum(traces) / jnp.where(live, traces, 1), 1)


def with_ntk_weights(
    space: AugmentedSpace,
    model: Model,
    points: Points,
    *,
    per_point: bool = False,
    coefficients: bool = False,
) -> AugmentedSpace:
    """The same space with the weights of `ntk_weights`, for the next `fit`.

    Nothing recompiles, since weights are arrays. Between two calls of `fit`:

        space = with_ntk_weights(pipeline.space, result.model, points)
        pipeline = eqx.tree_at(lambda p: p.space, pipeline, space)

    **Arguments:** and what is returned where a trace is 0: see `ntk_weights`.
    """
    weights = ntk_weights(
        space, model, points, per_point=per_point, coefficients=coefficients
    )
    return _reweighted(space, weights)


def _reweighted(space: AugmentedSpace, weights: Array) -> AugmentedSpace:
    rows = [component.weight for component in space.components]
    new = [
        jnp.broadcast_to(w.astype(row.dtype), row.shape)
        for row, w in zip(rows, weights, strict=True)
    ]
    return eqx.tree_at(lambda s: [c.weight for c in s.components], space, new)
