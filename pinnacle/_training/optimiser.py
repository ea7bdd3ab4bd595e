"""What a training step needs of an optimiser: a gradient, or the residual rows."""

import abc
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from .rows import RowFunction


# Importing optax takes an eighth of a second; who uses it has imported it before.
if TYPE_CHECKING:
    import optax


class StepInfo(eqx.Module):
    """What a step reports: the loss before it, and why it should be the last, if so.

    `details` are numbers worth a column in the history (damping, step length, …).
    """

    loss: Float[Array, ""]
    refused: Bool[Array, ""]
    details: dict[str, Float[Array, ""]]


class AbstractResidualOptimiser(eqx.Module):
    """An optimiser that sees the weighted residual rows, and so their Jacobian."""

    @abc.abstractmethod
    def init(self, parameters: PyTree) -> PyTree:
        """The optimiser's state before the first step."""

    @abc.abstractmethod
    def step(
        self, rows: RowFunction, parameters: PyTree, state: PyTree
    ) -> tuple[PyTree, PyTree, StepInfo]:
        """One step on ½‖rows(θ)‖².

        **Arguments:**

        - `rows`: θ ↦ all weighted residual rows of the current training set. `fit`
          gives a `ResidualRows`, whose `jacobian` is cheaper than `jax.jacrev`.
        - `parameters`: θ, a pytree of arrays.
        - `state`: from `init` or the previous step; its structure never changes.

        **Returns:**

        New parameters, new state, and what the step reports.
        """

    def points_changed(self, parameters: PyTree, state: PyTree) -> PyTree:
        """The state to go on with after the training set has changed."""
        del parameters
        return state

    def answer(self, parameters: PyTree, state: PyTree) -> PyTree:
        """The parameters to evaluate and to return: θ, unless the optimiser has better
        ones."""
        del state
        return parameters


class Gradient(AbstractResidualOptimiser):
    """Any optax transformation on the gradient of ½‖rows‖².

    **Arguments:**

    - `transformation`: for instance `optax.adam(1e-3)`.
    - `restart`: whether its state is cleared whenever the points change. Needed by
      methods that compare gradients of successive steps, such as L-BFGS.
    """

    transformation: Any
    restart: bool = eqx.field(static=True, default=False)

    def __init__(
        self, transformation: "optax.GradientTransformation", restart: bool = False
    ):
        import optax

        self.transformation = optax.with_extra_args_support(transformation)
        self.restart = restart

    def init(self, parameters: PyTree) -> PyTree:
        return self.transformation.init(parameters)

    def step(
        self, rows: RowFunction, parameters: PyTree, state: PyTree
    ) -> tuple[PyTree, PyTree, StepInfo]:
        import optax

        def loss(parameters):
            return 0.5 * jnp.sum(rows(parameters) ** 2)

        value, gradient = jax.value_and_grad(loss)(parameters)
        updates, state = self.transformation.update(
            gradient, state, parameters, value=value, grad=gradient, value_fn=loss
        )
        parameters = optax.apply_updates(parameters, updates)
        return parameters, state, StepInfo(value, jnp.zeros((), bool), {})

    def points_changed(self, parameters: PyTree, state: PyTree) -> PyTree:
        return self.init(parameters) if self.restart else state


def lbfgs(memory_size: int = 10, **options) -> Gradient:
    """L-BFGS with optax's zoom line search, its history cleared when points change."""
    import optax

    return Gradient(optax.lbfgs(memory_size=memory_size, **options), restart=True)


def as_residual_optimiser(optimiser) -> AbstractResidualOptimiser:
    """Wrap an optax transformation; leave a residual optimiser as it is."""
    if isinstance(optimiser, AbstractResidualOptimiser):
        return optimiser
    import optax

    if isinstance(optimiser, optax.GradientTransformation):
        return Gradient(optimiser)
    raise ValueError(
        f"`optimiser` is {optimiser!r}: give an optax transformation such as "
        "`optax.adam(1e-3)`, or an `AbstractResidualOptimiser`."
    )
