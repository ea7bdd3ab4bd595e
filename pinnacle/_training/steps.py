"""The training phase: many optimiser steps on one training set, in one call."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, PyTree

from .._model import Model
from .._space.augmented import AugmentedSpace
from .._types import Points
from .loss import loss_by_kind
from .optimiser import AbstractResidualOptimiser, StepInfo
from .rows import ResidualRows


class PhaseReport(eqx.Module):
    """How a call of `train` went.

    **Attributes:**

    - `done`: steps taken whose loss was finite.
    - `finite`: whether the loss of the model returned is finite. If it is not, taking
      `done - 1` steps instead gives the last model whose loss is.
    - `info`: what the last step reported.
    - `loss_by_kind`: at the model returned.
    """

    done: Int32[Array, ""]
    finite: Bool[Array, ""]
    info: StepInfo
    loss_by_kind: Float[Array, " kinds"]


@eqx.filter_jit
def train(
    space: AugmentedSpace,
    optimiser: AbstractResidualOptimiser,
    model: Model,
    state: PyTree,
    points: Points,
    steps: Int32[Array, ""],
    *,
    layout: Sequence[int],
) -> tuple[Model, PyTree, PhaseReport]:
    """Take `steps` steps on fixed points; stop early at a non-finite loss or a refusal.

    Compiles once a `layout` (static), whatever the number of steps.

    **Arguments:**

    - `space`, `optimiser`, `model`: what is trained, and how.
    - `state`: the optimiser's.
    - `points`: the training set.
    - `steps`: how many.
    - `layout`: rows of the block of each kind, at least its number of points.

    **Returns:**

    The trained model, the optimiser's state, and how it went.
    """
    blocks = space.split(points, layout)
    parameters, rest = model.partition()

    def one(parameters, state):
        # The barrier keeps XLA from hoisting whatever depends on the points alone out
        # of the loop: carrying it through memory costs a quarter of a step.
        parameters, fixed = jax.lax.optimization_barrier((parameters, blocks))
        return optimiser.step(ResidualRows(space, rest, fixed), parameters, state)

    def step(carry):
        i, parameters, state, _ = carry
        parameters, state, info = one(parameters, state)
        return i + jnp.isfinite(info.loss), parameters, state, info

    def go_on(carry):
        i, _, _, info = carry
        return (i < steps) & jnp.isfinite(info.loss) & ~info.refused

    shapes = jax.eval_shape(lambda p, s: one(p, s)[2], parameters, state)
    nothing = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    start = (jnp.zeros((), jnp.int32), parameters, state, nothing)
    done, parameters, state, info = jax.lax.while_loop(go_on, step, start)
    model = eqx.combine(parameters, rest)
    losses = loss_by_kind(space, model, blocks)
    finite = jnp.isfinite(info.loss) & jnp.all(jnp.isfinite(losses))
    return model, state, PhaseReport(done, finite, info, losses)
