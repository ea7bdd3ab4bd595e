"""One run: from a configuration to a trained model and its history."""

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray, PyTree

from .._model import Model
from .._training import (
    AbstractResidualOptimiser,
    FitResult,
    Progress,
    TrainState,
    initial_state,
    resume,
)
from .._training.fit import Metrics
from .._training.optimiser import as_residual_optimiser
from ..nn import MLP, InputNormalisation, PeriodicInput
from ..problems import (
    PERIODICITY,
    PDEBenchData,
    Problem,
    Reference,
    predict,
    read_pdebench,
)
from .catalogue import OPTIMISERS, PROBLEMS, check_name
from .config import RunConfig
from .methods import Method, make_method


class Shared:
    """What the runs on one problem share in a process.

    Compiled functions belong to the functions that they were made from: runs that share
    the problem's residuals, metrics and optimiser share them too.
    """

    def __init__(self, problem: Problem):
        self.problem = problem

    @functools.cached_property
    def reference(self) -> Reference:
        """The reference solution, computed when it is first asked for."""
        return self.problem.solve()

    @functools.cached_property
    def metrics(self) -> Metrics:
        """Errors of a model against the reference."""
        return self.problem.metrics(self.reference)


@functools.lru_cache(maxsize=4)
def _shared(
    problem: str, dtype: str, data: str | None, sample: int, periodic: str
) -> Shared:
    del dtype  # the arrays inside a problem have the precision they were made in
    options: dict[str, Any] = {}
    if data is not None:
        _check_takes(problem, "data")
        options["data"] = _read(data, sample)
    if periodic != PERIODICITY[0]:
        _check_takes(problem, "periodic")
        options["periodic"] = periodic
    return Shared(PROBLEMS[problem](**options))


def _check_takes(problem: str, option: str) -> None:
    able = [n for n, f in PROBLEMS.items() if option in inspect.signature(f).parameters]
    if problem not in able:
        raise ValueError(
            f"`{option}` is given, but {problem!r} takes none: only {', '.join(able)} "
            "do."
        )


def _read(data: str, sample: int) -> PDEBenchData:
    try:
        return read_pdebench(data, sample)
    except FileNotFoundError as error:
        raise ValueError(f"`data`: there is no file {data!r}.") from error


@functools.lru_cache(maxsize=16)
def _optimiser(config: RunConfig):
    return as_residual_optimiser(OPTIMISERS[config.optimizer](config))


@dataclasses.dataclass(frozen=True)
class Experiment:
    """The objects that the names and numbers of a configuration stand for."""

    config: RunConfig
    shared: Shared
    method: Method
    optimiser: AbstractResidualOptimiser
    model_key: PRNGKeyArray
    fit_key: PRNGKeyArray

    @property
    def problem(self) -> Problem:
        return self.shared.problem

    @property
    def reference(self) -> Reference:
        return self.shared.reference

    def model(self) -> Model:
        """The network and the unknown coefficients, at their start."""
        network = self.problem.network(self.model_key)
        network = _shape_network(network, self.problem, self.config, self.model_key)
        return Model(network, self.problem.coefficients)

    def warm_up(self) -> None:
        """Compile what is no part of the training, metrics and prediction, before it.

        Raises `ValueError` if the reference lacks the output that ends the run.
        """
        model = self.model()
        errors = eqx.filter_jit(self.shared.metrics)(model)
        wanted = self.config.stop_metric
        if not wanted.startswith("loss"):
            check_name("stop_metric", wanted, errors)
        predict(model, jax.numpy.asarray(self.reference.x))

    def start(self, begin: Model | None = None) -> TrainState:
        """The state before the first step, by default with the untrained model."""
        pipeline, model = self.method.pipeline, begin or self.model()
        pipeline.space.check(model)
        return initial_state(
            pipeline,
            model,
            self.optimiser,
            key=self.fit_key,
            trigger=self.method.trigger,
        )

    def like(self) -> TrainState:
        """The shapes of the run's state, to load a checkpoint into."""
        return eqx.filter_eval_shape(self.start)


def build(config: RunConfig) -> Experiment:
    """Turn names into objects; raises `ValueError` for what does not fit together."""
    shared = _shared(
        config.problem, config.dtype, config.data, config.sample, config.periodic
    )
    return assemble(config, shared)


def assemble(config: RunConfig, shared: Shared) -> Experiment:
    """As `build`, for a problem that is there already."""
    model_key, fit_key = jax.random.split(jax.random.key(config.seed))
    space = shared.problem.space
    return Experiment(
        config=config,
        shared=shared,
        method=make_method(config.method, space, config.method_settings()),
        optimiser=_optimiser(dataclasses.replace(config, seed=0)),
        model_key=model_key,
        fit_key=fit_key,
    )


def train(
    experiment: Experiment,
    callbacks: Sequence[Callable[[Progress], bool | None]] = (),
    state: TrainState | None = None,
    begin: Model | None = None,
) -> FitResult:
    """Train from the start, or go on from `state` to the configured number of steps.

    The start is the model `begin`, by default the problem's untrained one. Nothing is
    raised for runs that end early; see `FitResult.result`.
    """
    config, method = experiment.config, experiment.method
    options: dict[str, Any] = {}
    oracles = experiment.problem.oracles(experiment.reference)
    if oracles:
        options["oracle"] = oracles
    state = experiment.start(begin) if state is None else state
    return resume(
        method.pipeline,
        state,
        experiment.optimiser,
        steps=config.steps - int(state.step),
        trigger=method.trigger,
        metrics=experiment.shared.metrics,
        report_every=config.report_every,
        callbacks=callbacks,
        throw=False,
        **options,
    )


def precision(config: RunConfig) -> contextlib.AbstractContextManager:
    """JAX in the configured precision, for as long as the context lasts."""
    return jax.enable_x64(config.dtype == "float64")


def _shape_network(
    network: PyTree, problem: Problem, config: RunConfig, key: PRNGKeyArray
) -> PyTree:
    """The problem's network with the configured size, and with scaled coordinates.

    Whatever is wrapped around its multilayer perceptron (hard constraints, say) stays.
    """

    lower, upper = _bounds(problem)

    def change(part):
        if not isinstance(part, MLP | PeriodicInput):
            return part
        mlp = part if isinstance(part, MLP) else part.network
        mlp = _resized(mlp, config, key)
        if isinstance(part, PeriodicInput):
            length = upper[part.axis] - lower[part.axis]
            scale = 2 / length if config.normalise else 1
            period = scale * part.period
            mlp = PeriodicInput(mlp, part.axis, period, part.modes)
        return InputNormalisation(mlp, lower, upper) if config.normalise else mlp

    return jax.tree.map(
        change, network, is_leaf=lambda part: isinstance(part, MLP | PeriodicInput)
    )


def _resized(mlp: MLP, config: RunConfig, key: PRNGKeyArray) -> MLP:
    if config.width is None and config.depth is None:
        return mlp
    activation: Any = mlp.activations[0]
    return MLP(
        mlp.weights[0].shape[1],
        mlp.weights[-1].shape[0],
        config.width or mlp.weights[0].shape[0],
        config.depth or len(mlp.weights) - 1,
        activation=activation,
        key=key,
    )


def _bounds(problem: Problem):
    """The smallest box around the domains of all kinds."""
    boxes = [component.domain.bounds for component in problem.space.components]
    lower = [min(values) for values in zip(*(box[0] for box in boxes), strict=True)]
    upper = [max(values) for values in zip(*(box[1] for box in boxes), strict=True)]
    return lower, upper
