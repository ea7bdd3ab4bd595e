"""A benchmark problem: what is solved, with what, and what it should give."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from .._model import Model
from .._space.augmented import AugmentedSpace
from ._reference import Reference, max_error, mse, relative_l2


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the paper trains on a problem (its appendix on the experimental setup).

    **Attributes:**

    - `learning_rate`: of Adam.
    - `steps`: optimiser steps.
    - `budget`: collocation points.
    - `new`: points replaced in a selection round.
    - `select_every`: T, steps between two rounds.
    - `pool`: candidates for each PDE kind, and for each condition.
    """

    learning_rate: float
    steps: int
    budget: int
    new: int
    select_every: int
    pool: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Problem:
    """A benchmark problem with a reference solution.

    **Attributes:**

    - `name`, `title`: for the command line and for people.
    - `space`: the augmented space.
    - `network`: key ↦ the network the paper uses, freshly initialised.
    - `settings`: the paper's.
    - `solve`: computes the reference solution (seconds for the spectral ones).
    - `coordinates`, `outputs`: names of the coordinates and of the outputs.
    - `coefficients`: starting values of the unknown coefficients, by name.
    """

    name: str
    title: str
    space: AugmentedSpace
    network: Callable[[PRNGKeyArray], PyTree]
    settings: Settings
    solve: Callable[[], Reference]
    coordinates: tuple[str, ...] = ("x", "t")
    outputs: tuple[str, ...] = ("u",)
    coefficients: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def model(self, *, key: PRNGKeyArray) -> Model:
        """The paper's network and the unknown coefficients, at their start."""
        return Model(self.network(key), self.coefficients)

    def metrics(
        self, reference: Reference
    ) -> Callable[[Model], dict[str, Float[Array, ""]]]:
        """Errors of a model on the reference's grid, for `fit(metrics=...)`.

        **Returns:**

        A function of the model: mean squared error `mse`, relative L2 error
        `relative_l2` and largest absolute error `max_error`.
        """
        x, values = jnp.asarray(reference.x), jnp.asarray(reference.values)

        def errors(model):
            prediction = predict(model, x)
            return {
                "mse": mse(prediction, values),
                "relative_l2": relative_l2(prediction, values),
                "max_error": max_error(prediction, values),
            }

        return errors


@eqx.filter_jit
def predict(model: Model, x: Float[Array, "n d"]) -> Float[Array, "n outputs"]:
    """The model's outputs at many points, in chunks."""
    return jax.lax.map(model, x.astype(model.dtype), batch_size=4096)
