"""The mean of an optimiser's late iterates."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PyTree

from .._misc import as_number, require_number
from .optimiser import AbstractResidualOptimiser, StepInfo, as_residual_optimiser
from .rows import RowFunction


class AveragedState(eqx.Module):
    """The optimiser's own state, the average, and how many steps it is made of."""

    inner: PyTree
    average: PyTree
    steps: Int32[Array, ""]


class Averaged(AbstractResidualOptimiser):
    """Train as before, and answer with a moving average of the iterates.

    On points that change at every step each step fits its own points, so iterates
    scatter around what all points agree on. Their average

        θ̄_t = a_t θ̄_{t−1} + (1 − a_t) θ_t,    a_t = min(decay, t/(19 + t)),

    scatters less, at the cost of one vector addition a step (Polyak and Juditsky, 1992,
    "Acceleration of stochastic approximation by averaging"). At first, while the error
    falls fast, it is made of the last twentieth of the steps. Nothing of it goes back
    into the training: gradients and selections are those of θ_t. `fit` reports θ̄: its
    errors in the history, `Progress.model` and `FitResult.model` are those of θ̄_t, the
    losses those of θ_t.

    **Arguments:**

    - `optimiser`: an optax transformation or a residual optimiser.
    - `decay`: from 0 (no average) to below 1; 1/(1 − decay) steps are averaged.

    **Raises:** `ValueError` for a decay outside of this range.
    """

    optimiser: AbstractResidualOptimiser = eqx.field(converter=as_residual_optimiser)
    decay: Float[Array, ""] = eqx.field(converter=as_number, default=0.97)

    def __check_init__(self):
        in_range = lambda d: (d >= 0) & (d < 1)  # noqa: E731
        require_number("decay", self.decay, in_range, "a number from 0 to below 1")

    def init(self, parameters: PyTree) -> AveragedState:
        start = self.optimiser.init(parameters)
        return AveragedState(start, parameters, jnp.zeros((), jnp.int32))

    def step(
        self, rows: RowFunction, parameters: PyTree, state: AveragedState
    ) -> tuple[PyTree, AveragedState, StepInfo]:
        parameters, inner, info = self.optimiser.step(rows, parameters, state.inner)
        steps = state.steps + 1

        def mean(before, now):
            a = jnp.minimum(self.decay, steps / (19 + steps)).astype(now.dtype)
            return a * before + (1 - a) * now

        average = jax.tree.map(mean, state.average, parameters)
        return parameters, AveragedState(inner, average, steps), info

    def points_changed(self, parameters: PyTree, state: AveragedState) -> AveragedState:
        inner = self.optimiser.points_changed(parameters, state.inner)
        return AveragedState(inner, state.average, state.steps)

    def answer(self, parameters: PyTree, state: AveragedState) -> PyTree:
        del parameters
        return state.average
