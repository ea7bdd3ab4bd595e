"""A benchmark problem: what is solved, with what, and what it should give."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from .._model import Model
from .._space.augmented import AugmentedSpace
from ._reference import Reference, max_error, mse, relative_l2


_METRICS = (mse, relative_l2, max_error)


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
    - `experimental_per_round`: new measurements in a round.
    - `experimental_capacity`: measurements in all.
    - `experimental_pool`: candidates for measurements in a round.
    """

    learning_rate: float
    steps: int
    budget: int
    new: int
    select_every: int
    pool: tuple[int, int]
    experimental_per_round: int = 0
    experimental_capacity: int = 0
    experimental_pool: int = 0


def _no_oracles(reference: Reference) -> Mapping[str, Any]:
    del reference
    return {}


@dataclasses.dataclass(frozen=True)
class Problem:
    """A benchmark problem with a reference solution.

    **Attributes:**

    - `name`, `title`: for the command line and for people.
    - `space`: the augmented space.
    - `network`: key ↦ the network the paper uses, freshly initialised.
    - `settings`: the paper's.
    - `solve`: computes the reference solution (at most seconds).
    - `coordinates`, `outputs`: names of the coordinates and of the outputs.
    - `reported`: the outputs that the errors without a suffix are about, `None` for
      all of them.
    - `gauge`: outputs that the equations fix only up to a function of time (a
      pressure); their mean over space at each time counts for nothing.
    - `coefficients`: starting values of the unknown coefficients, by name.
    - `true_coefficients`: their true values.
    - `oracles`: reference solution ↦ what answers the measurements of each
      experimental kind, by its name.
    - `source`: the problem whose trained network this one starts from, if any.
    """

    name: str
    title: str
    space: AugmentedSpace
    network: Callable[[PRNGKeyArray], PyTree]
    settings: Settings
    solve: Callable[[], Reference]
    coordinates: tuple[str, ...] = ("x", "t")
    outputs: tuple[str, ...] = ("u",)
    reported: tuple[str, ...] | None = None
    gauge: tuple[str, ...] = ()
    coefficients: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    true_coefficients: Mapping[str, float] = dataclasses.field(default_factory=dict)
    oracles: Callable[[Reference], Mapping[str, Any]] = _no_oracles
    source: Callable[[], "Problem"] | None = None

    def model(self, *, key: PRNGKeyArray) -> Model:
        """The paper's network and the unknown coefficients, at their start."""
        return Model(self.network(key), self.coefficients)

    def metrics(
        self, reference: Reference
    ) -> Callable[[Model], dict[str, Float[Array, ""]]]:
        """Errors of a model on the reference's grid, for `fit(metrics=...)`.

        A reference that has only the first of the problem's outputs (a data file with
        the depth, say) is compared in these.

        **Returns:**

        A function of the model: mean squared error `mse`, relative L2 error
        `relative_l2` and largest absolute error `max_error` of the reported outputs;
        where there are several outputs, each of these for every output (`mse/h`); and
        the relative error `coefficient_error/<name>` of each unknown coefficient.

        **Raises:** `ValueError` for a reference with more outputs than the problem.
        """
        x, values = jnp.asarray(reference.x), jnp.asarray(reference.values)
        columns = self._columns(values.shape[1])
        true = dict(self.true_coefficients)
        times = reference.shape[-1]

        def errors(model):
            prediction = predict(model, x)[:, : values.shape[1]]
            p, r = (self.without_gauge(v, times) for v in (prediction, values))
            found = {}
            for suffix, where in columns.items():
                for metric in _METRICS:
                    found[metric.__name__ + suffix] = metric(p[:, where], r[:, where])
            for name, value in true.items():
                error = jnp.abs(model[name] / value - 1)
                found[f"coefficient_error/{name}"] = error
            return found

        return errors

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of `metrics`, against a reference that has all outputs."""
        suffixes = self._columns(len(self.outputs))
        errors = [metric.__name__ + s for s in suffixes for metric in _METRICS]
        return (*errors, *(f"coefficient_error/{n}" for n in self.true_coefficients))

    def without_gauge(
        self, values: Float[Array, "n outputs"], times: int
    ) -> Float[Array, "n outputs"]:
        """Values on a reference's grid less what no equation fixes.

        That is their mean over space at each time, in the outputs of `gauge`. The time
        is the last coordinate, with `times` values.
        """
        free = np.isin(self.outputs[: values.shape[1]], self.gauge)
        if not free.any():
            return values
        by_time = values.reshape(-1, times, values.shape[1])
        mean = jnp.mean(by_time, axis=0, keepdims=True)
        return (by_time - jnp.where(free[None, None], mean, 0)).reshape(values.shape)

    def _columns(self, count: int) -> dict[str, np.ndarray]:
        """Which outputs each metric is about, by the suffix of its name."""
        if count > len(self.outputs):
            raise ValueError(
                f"the reference has {count} outputs, more than the problem's "
                f"{len(self.outputs)}: {', '.join(self.outputs)}."
            )
        names = self.outputs[:count]
        wanted = self.reported or names
        reported = [i for i, name in enumerate(names) if name in wanted]
        columns = {"": np.array(reported, np.int32)}
        if len(self.outputs) > 1:
            each = {f"/{name}": np.array([i]) for i, name in enumerate(names)}
            columns.update(each)
        return columns


@eqx.filter_jit
def predict(model: Model, x: Float[Array, "n d"]) -> Float[Array, "n outputs"]:
    """The model's outputs at many points, in chunks."""
    return jax.lax.map(model, x.astype(model.dtype), batch_size=4096)
