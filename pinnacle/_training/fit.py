"""The alternation of the paper's Algorithm 1: select, train, look, select again."""

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PRNGKeyArray, PyTree

from .._misc import require_instance, require_integer, require_key, said_by
from .._model import Model
from .._oracle.base import AbstractOracle
from .._oracle.labels import (
    OracleError,
    measure,
    measured_kinds,
    oracles_by_name,
    pending,
)
from .._pipeline import (
    SelectionInfo,
    SelectionPipeline,
    SelectionState,
    _select,
    failure,
    looks_at_labels,
)
from .._results import RESULTS
from .clock import Stopwatch
from .history import History, columns
from .layout import choose_layout, empty_layouts
from .optimiser import AbstractResidualOptimiser, as_residual_optimiser
from .steps import PhaseReport, train
from .trigger import AbstractTrigger, EveryN


_log = logging.getLogger("pinnacle")

Metrics = Callable[[Model], Mapping[str, Array]]
Measurement = AbstractOracle | Callable[[np.ndarray], Any]
Oracle = Measurement | Mapping[str, Measurement]


class TrainState(eqx.Module):
    """Everything a run needs to go on: arrays only, so it can be saved and loaded."""

    model: Model
    optimiser: PyTree
    selection: SelectionState
    trigger: PyTree
    key: PRNGKeyArray
    step: Int32[np.ndarray, ""]
    phase_steps: Int32[np.ndarray, ""]
    due: Bool[np.ndarray, ""]
    drift: Float32[np.ndarray, ""]
    layouts: Int32[np.ndarray, "slots kinds"]
    layout: Int32[np.ndarray, " kinds"]


@dataclasses.dataclass(frozen=True)
class Progress:
    """What a callback sees after every report and every selection.

    **Attributes:**

    - `step`, `steps`: how far the run is, and where it ends.
    - `row`: the newest row of the history's table `training` or `rounds`.
    - `selection`: what the selection did, `None` after a report.
    - `state`: everything needed to go on from here. After a selection, new experimental
      points in it are still to be measured; a callback that ends the run there leaves
      that to `resume`.
    - `optimiser`: that of the run.
    - `model`: as trained so far; what the optimiser answers with, see `Averaged`.
    """

    step: int
    steps: int
    row: Mapping[str, Any]
    selection: SelectionInfo | None
    state: TrainState
    optimiser: AbstractResidualOptimiser

    @functools.cached_property
    def model(self) -> Model:
        return _answer(self.optimiser, self.state)


Callback = Callable[[Progress], bool | None]


@dataclasses.dataclass(frozen=True)
class FitResult:
    """What `fit` returns: the model, the history, the state to go on from, and how it
    ended (`RESULTS.successful` unless `throw=False`), with a message that says why if
    it ended early."""

    model: Model
    history: History
    state: TrainState
    result: RESULTS
    message: str = ""

    def __repr__(self) -> str:
        """How it ended, and the numbers of the last report."""
        numbers = [
            f"{name}={value:.4g}"
            for name, value in self.history.last().items()
            if not name.startswith(("seconds_", "loss/"))
        ]
        ended = "successful"
        if self.result != RESULTS.successful:
            why = " ".join(self.message.split())
            ended = f"ended early at step {int(self.state.step)}: {why}"
        return f"FitResult({', '.join([*numbers, ended])})"


class TrainingError(RuntimeError):
    """A run that ended early; `error.fit` holds what it had (a `FitResult`)."""

    def __init__(self, message: str, fit: FitResult):
        super().__init__(message)
        self.fit = fit


class TrainingInterrupted(KeyboardInterrupt):
    """A run that was interrupted; `error.fit` holds what it had (a `FitResult`)."""

    def __init__(self, fit: FitResult):
        super().__init__("the run was interrupted before its last step.")
        self.fit = fit


def fit(
    pipeline: SelectionPipeline,
    model: Model,
    optimiser,
    *,
    steps: int,
    key: PRNGKeyArray,
    trigger: AbstractTrigger | None = None,
    oracle: Oracle | None = None,
    pseudo_steps: int = 100,
    metrics: Metrics | None = None,
    report_every: int | None = None,
    callbacks: Sequence[Callback] = (),
    throw: bool = True,
) -> FitResult:
    """Train a model, choosing its training points anew whenever the trigger says so.

    Experimental points are measured right after they have been chosen, one by one; a
    place that has been measured is not measured again, its label is used once more.

    **Arguments:**

    - `pipeline`: the selection method, with its space and budget.
    - `model`: network and unknown coefficients at the start.
    - `optimiser`: any optax transformation, or an `AbstractResidualOptimiser`.
    - `steps`: number of optimiser steps.
    - `key`: a JAX random key; the same key gives the same bits.
    - `trigger`: when to select again, default `EveryN(1000)`.
    - `oracle`: measures the kinds without a target: a function of one point or an
      `AbstractOracle`, or a mapping from their names to these. Measuring counts as
      neither training nor selecting in the history's clocks.
    - `pseudo_steps`: so many optimiser steps ahead, thrown away afterwards, gives the
      pseudo-labels of candidates for measurements (see `select_points`).
    - `metrics`: model ↦ named numbers, for instance errors against a reference;
      evaluated at every report. They are compiled, so they have to be JAX code.
    - `report_every`: steps between two rows of the history, default a hundredth of
      `steps`. Changes nothing but the history.
    - `callbacks`: called after every report and selection; returning `True` ends the
      run there, successfully.
    - `throw`: whether to raise when the run ends early.

    **Returns:**

    The model, the history, and the state from which `resume` goes on.

    **Raises:**

    `ValueError` for static mistakes; if `throw`, `TrainingError` for a non-finite
    residual, embedding or loss, an exhausted pool, a failed measurement, or an
    optimiser that refuses to step on points just chosen (refusing earlier, it gets new
    points), and `TrainingInterrupted` after Ctrl-C. Both carry the result so far, as
    `error.fit`. So does what a callback or a metric raises, which comes out as it is.
    """
    _check_pipeline(pipeline)
    if not isinstance(model, Model):
        raise ValueError(
            f"`model` is {type(model).__name__}: wrap the network in `Model(network)`."
        )
    require_key(key)
    pipeline.space.check(model)
    state = initial_state(pipeline, model, optimiser, key=key, trigger=trigger)
    run = _Run(
        pipeline, optimiser, trigger, state, oracle, pseudo_steps, metrics, callbacks
    )
    return run.go(steps, report_every, throw)


def resume(
    pipeline: SelectionPipeline,
    state: TrainState,
    optimiser,
    *,
    steps: int,
    trigger: AbstractTrigger | None = None,
    oracle: Oracle | None = None,
    pseudo_steps: int = 100,
    metrics: Metrics | None = None,
    report_every: int | None = None,
    callbacks: Sequence[Callback] = (),
    throw: bool = True,
) -> FitResult:
    """Go on from the state that `fit` or `resume` returned, bit for bit.

    With the same pipeline, optimiser, trigger, oracle and pseudo-steps, `fit(steps=a)`
    and `resume(steps=b)` give what `fit(steps=a + b)` gives. Points that wait for a
    measurement are measured first.

    **Arguments:**

    - `state`: `FitResult.state`, possibly from a file.
    - `steps`: how many further steps.

    The others are those of `fit`, and so are the returned value and the errors; a state
    of another run is a `ValueError`. The state does not say in which order the kinds
    were, nor the settings of optimiser and trigger: keep them.
    """
    _check_pipeline(pipeline)
    if not isinstance(state, TrainState):
        raise ValueError(
            f"`state` is {state!r}: give the `state` that `fit` or `resume` returned."
        )
    _check_state(pipeline, state, optimiser, trigger)
    run = _Run(
        pipeline, optimiser, trigger, state, oracle, pseudo_steps, metrics, callbacks
    )
    return run.go(steps, report_every, throw)


def initial_state(
    pipeline: SelectionPipeline,
    model: Model,
    optimiser,
    *,
    key: PRNGKeyArray,
    trigger: AbstractTrigger | None = None,
) -> TrainState:
    """The state of a run before its first step, from which `resume` does what `fit`
    does. Also the structure into which `load` reads the state of such a run.

    The arguments are those of [`pinnacle.fit`][].
    """
    optimiser, trigger = as_residual_optimiser(optimiser), _or_default(trigger)
    kinds = len(pipeline.space.components)
    return TrainState(
        model=model,
        optimiser=optimiser.init(model.partition()[0]),
        selection=pipeline.init(model.dtype),
        trigger=trigger.init(pipeline.space, model, key=key),
        key=key,
        step=_integer(0),
        phase_steps=_integer(0),
        due=np.asarray(True),
        drift=np.asarray(np.nan, np.float32),
        layouts=empty_layouts(kinds),
        layout=np.zeros(kinds, np.int32),
    )


def _check_pipeline(pipeline: SelectionPipeline) -> None:
    advice = "give a pipeline, such as `make_method(...).pipeline`"
    require_instance("`pipeline`", pipeline, SelectionPipeline, advice)


def _check_state(pipeline, state: TrainState, optimiser, trigger) -> None:
    """Raise `ValueError` unless the state has the form that such a run begins with."""
    begun = initial_state(
        pipeline, state.model, optimiser, key=state.key, trigger=trigger
    )

    def compare(given: str, look: Callable[[TrainState], Any], what: str) -> None:
        had, wanted = look(state), look(begun)
        if had != wanted:
            values = f"{had}, not {wanted}" if isinstance(had, int) else "another"
            raise ValueError(
                f"`state` does not fit {given}: {what} is {values}. Resume with what "
                "the state was made with, or begin anew with `fit` and `state.model`."
            )

    method = "`pipeline`"
    compare(method, lambda s: s.layouts.shape[1], "its number of kinds")
    compare(method, lambda s: s.selection.points.x.shape[1], "its dimension")
    compare(method, lambda s: s.selection.points.label.shape[1], "its rows a point")
    size = "its `budget` + `experimental_capacity`"
    compare(method, lambda s: s.selection.points.size, size)
    compare(method, lambda s: _form(s.selection.retention), "its retention policy")
    compare("`optimiser`", lambda s: _form(s.optimiser), "its kind of optimiser")
    compare("`trigger`", lambda s: _form(s.trigger), "its kind of trigger")


def _form(tree: PyTree) -> tuple:
    """Structure and shapes."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, [getattr(leaf, "shape", ()) for leaf in leaves]


def _or_default(trigger: AbstractTrigger | None) -> AbstractTrigger:
    trigger = EveryN(1000) if trigger is None else trigger
    advice = "give one such as `EveryN(1000)`, or None for this one"
    require_instance("`trigger`", trigger, AbstractTrigger, advice)
    return trigger


_OWN_COLUMNS = ("step", "loss")
_OWN_PREFIXES = ("loss/", "coefficient/", "seconds_")


def _check_metrics(metrics: Metrics | None, model: Model) -> Callable | None:
    """The compiled metrics, after a look at the names and shapes that they return."""
    if metrics is None:
        return None
    compiled = eqx.filter_jit(metrics)
    with said_by(
        "`metrics`, which is compiled: it has to be JAX code, without `float`"
    ):
        values = eqx.filter_eval_shape(compiled, model)
    if not isinstance(values, Mapping):
        raise ValueError(
            f"`metrics` returns {values!r}: return numbers by name, as a dict."
        )
    for name, value in values.items():
        if not isinstance(name, str):
            raise ValueError(
                f"`metrics` returns a number named {name!r}: give it a string as name."
            )
        if getattr(value, "shape", ()) != ():
            raise ValueError(
                f"`metrics` returns shape {value.shape} as {name!r}: return one number."
            )
        if not _is_real(value):
            found = getattr(value, "dtype", None) or repr(value)
            raise ValueError(
                f"`metrics` returns {found} as {name!r}: return one real number."
            )
        if name in _OWN_COLUMNS or name.startswith(_OWN_PREFIXES):
            raise _name_taken(name)
    return compiled


def _is_real(value) -> bool:
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return isinstance(value, int | float)
    kinds = (jnp.bool_, jnp.integer, jnp.floating)
    return any(jnp.issubdtype(dtype, kind) for kind in kinds)


def _name_taken(name: str) -> ValueError:
    return ValueError(
        f"`metrics` returns {name!r}, which is a column of the history already: give "
        "it another name."
    )


def _check_callbacks(callbacks: Sequence[Callback]) -> tuple[Callback, ...]:
    if callable(callbacks) or not all(map(callable, callbacks)):
        raise ValueError(
            f"`callbacks` is {callbacks!r}: give a list of functions of one `Progress`."
        )
    return tuple(callbacks)


class _Stop(Exception):
    """Leaves the loop early: how it ended, and in which words if others than usual."""

    def __init__(self, result: RESULTS, message: str | None = None):
        self.result = result
        self.message = RESULTS[result] if message is None else message


class _Run:
    """One run on the host: what is constant during it, its clocks and its rows."""

    def __init__(
        self,
        pipeline,
        optimiser,
        trigger,
        state,
        oracle,
        pseudo_steps,
        metrics,
        callbacks,
    ):
        self.pipeline: SelectionPipeline = pipeline
        self.optimiser: AbstractResidualOptimiser = as_residual_optimiser(optimiser)
        self.trigger: AbstractTrigger = _or_default(trigger)
        self.state: TrainState = state
        self.oracles = oracles_by_name(pipeline.space, oracle, self._may_ask())
        self.pseudo_steps = require_integer(
            "pseudo_steps",
            pseudo_steps,
            0,
            "look 0 steps ahead or more; the paper takes 100",
        )
        self.looks_ahead = looks_at_labels(pipeline)
        self.metrics = _check_metrics(metrics, state.model)
        self.why: str | None = None
        self.callbacks = _check_callbacks(callbacks)
        self.watch = Stopwatch()
        self.training_rows: list[dict] = []
        self.round_rows: list[dict] = []
        self.points: list = []

    def go(self, steps, report_every, throw) -> FitResult:
        steps = require_integer("steps", steps, 1, "take at least 1 step")
        if report_every is None:
            report_every = max(1, steps // 100)
        report_every = require_integer(
            "report_every", report_every, 1, "report every 1 step or more"
        )
        self.end = int(self.state.step) + steps
        end, cause = _Stop(RESULTS.successful), None
        try:
            self._loop(report_every)
        except _Stop as stop:
            end = stop
        except OracleError as error:
            end = _Stop(RESULTS.oracle_failed, f"{error} {_RESUME}")
            cause = error.__cause__
        except KeyboardInterrupt:
            end = _Stop(RESULTS.interrupted)
        except Exception as error:
            fit = self._finish(_Stop(RESULTS.interrupted), None, throw=False)
            vars(error)["fit"] = fit
            error.add_note("`error.fit` holds what the run had (a `FitResult`).")
            raise
        return self._finish(end, cause, throw)

    def _loop(self, report_every: int) -> None:
        self._measure()  # what an earlier run has left
        while int(self.state.step) < self.end:
            if self.state.due:
                self._select()
                self._measure()
            phase, step = int(self.state.phase_steps), int(self.state.step)
            look = step + self.trigger.next_look(phase) - phase
            report = (step // report_every + 1) * report_every
            refused = self._train(min(look, report, self.end))
            step = int(self.state.step)
            if step == look:
                self._ask_trigger()
            if refused and not self.state.due:
                self._due("refused", self.state.drift)
            if step == report or step == self.end:
                self._report()

    def _select(self) -> None:
        """Selection phase: a new training set, layout and reference for the trigger."""
        reason, before = self._reason(), self.watch.seconds["selecting"]
        with self.watch.measure("selecting"):
            info = self._choose()
        seconds = self.watch.seconds["selecting"] - before
        self._record_round(info, reason, seconds)

    def _choose(self) -> SelectionInfo:
        state = self.state
        select_key, trigger_key, _ = _round_keys(state.key, state.selection.round)
        selection, info = _select(
            self.pipeline, state.model, state.selection, select_key, self._future()
        )
        if info.result != RESULTS.successful:
            raise _Stop(info.result, failure(self.pipeline, info))
        counts = np.asarray(info.counts)
        layout, layouts = choose_layout(
            np.asarray(state.layouts),
            counts,
            self._largest(),
            self.pipeline.space.measured,
            int(state.selection.round),
        )
        self.state = TrainState(
            model=state.model,
            optimiser=self.optimiser.points_changed(
                state.model.partition()[0], state.optimiser
            ),
            selection=selection,
            trigger=self.trigger.init(
                self.pipeline.space, state.model, key=trigger_key
            ),
            key=state.key,
            step=state.step,
            phase_steps=_integer(0),
            due=np.asarray(False),
            drift=state.drift,
            layouts=layouts,
            layout=np.asarray(layout, np.int32),
        )
        jax.block_until_ready(self.state.selection)
        return info

    def _future(self) -> Model:
        """The model some steps ahead, on the current training set: for pseudo-labels.

        Nothing else of these steps is kept. The model as it is where nobody looks at
        them, or where there is nothing to train on.
        """
        state, steps = self.state, self.pseudo_steps
        first = int(state.selection.round) == 0
        if first or steps == 0 or not self.looks_ahead or not self._places():
            return state.model
        model, _, report = self._steps(state, steps)
        if not report.finite:
            model, _, _ = self._steps(state, max(int(report.done) - 1, 0))
        return model

    def _places(self) -> int:
        """How many points may still be measured in this run."""
        here = self.state.selection.points.mask[self.pipeline.budget :]
        return self.pipeline.experimental_capacity - int(np.sum(here))

    def _may_ask(self) -> list[str]:
        """Kinds of which a measurement may be asked for."""
        space, points = self.pipeline.space, self.state.selection.points
        kinds = np.asarray(points.kind)[pending(space, points)]
        more = self.pipeline.experimental_per_round > 0 and self._places() > 0
        return [
            name
            for name in measured_kinds(space)
            if more or space.kind(name) in kinds.tolist()
        ]

    def _measure(self) -> None:
        """Measuring phase: labels for the points that have none yet, one by one.

        Each is in the state at once, so that none is lost, whatever happens next.
        """
        space, selection = self.pipeline.space, self.state.selection
        if not pending(space, selection.points).any():
            return
        _, _, key = _round_keys(self.state.key, selection.round - 1)
        for labels in measure(space, self.oracles, selection.points, key=key):
            self.state = eqx.tree_at(
                lambda s: s.selection.points.label, self.state, labels
            )
        if self.points:
            measured = self.state.selection.points
            self.points[-1] = jax.tree.map(np.asarray, measured)

    def _largest(self) -> np.ndarray:
        sizes = (self.pipeline.budget, self.pipeline.experimental_capacity)
        return np.array(sizes, np.int32)[self.pipeline.space.group_of_kind]

    def _train(self, until: int) -> bool:
        """Training phase, up to the step where somebody wants to look.

        Returns whether the optimiser has refused the last step: then it needs other
        points. If it refuses the first step on points just chosen, the run ends.
        """
        with self.watch.measure("training"):
            report = self._take(until - int(self.state.step))
        self.last: PhaseReport = report
        refused = bool(report.info.refused)
        if refused and int(self.state.phase_steps) == 1:
            raise _Stop(RESULTS.refused)
        return refused

    def _take(self, steps: int) -> PhaseReport:
        state = self.state
        model, optimiser, report = self._steps(state, steps)
        if not report.finite:
            good = max(int(report.done) - 1, 0)
            model, optimiser, _ = self._steps(state, good)
            self._advance(model, optimiser, good)
            raise _Stop(RESULTS.nonfinite_loss)
        self._advance(model, optimiser, int(report.done))
        return report

    def _steps(self, state: TrainState, steps: int):
        return train(
            self.pipeline.space,
            self.optimiser,
            state.model,
            state.optimiser,
            state.selection.points,
            jnp.asarray(steps, jnp.int32),
            layout=tuple(np.asarray(state.layout).tolist()),
        )

    def _advance(self, model, optimiser, steps: int) -> None:
        self.state = dataclasses.replace(
            self.state,
            model=model,
            optimiser=optimiser,
            step=_integer(self.state.step + steps),
            phase_steps=_integer(self.state.phase_steps + steps),
        )

    def _ask_trigger(self) -> None:
        state = self.state
        with self.watch.measure("selecting"):
            due, drift = self.trigger(
                state.trigger, self.pipeline.space, state.model, int(state.phase_steps)
            )
            self._due(due, drift)

    def _due(self, why: str | bool, drift) -> None:
        """Remember whether to select next, and why."""
        self.why = why if isinstance(why, str) else "trigger"
        self.state = dataclasses.replace(
            self.state, due=np.asarray(bool(why)), drift=np.asarray(drift, np.float32)
        )

    def _reason(self) -> str:
        """Why points are selected now. The state does not say: where an earlier run has
        found it out, the trigger is asked once more."""
        state, phase = self.state, int(self.state.phase_steps)
        if int(state.selection.round) == 0:
            return "first"
        if self.why is None and self.trigger.next_look(phase - 1) == phase:
            self._ask_trigger()
        return self.why or "refused"

    def _record_round(self, info: SelectionInfo, reason: str, seconds: float) -> None:
        state, names = self.state, self.pipeline.space.names
        _warn(self.pipeline, info, int(state.step))
        row = {
            "round": int(state.selection.round),
            "step": int(state.step),
            "reason": reason,
            "drift": float(state.drift),
            "seconds": seconds,
            **_by_kind("count", names, info.counts),
            **_by_kind("new", names, info.new_counts),
            **_by_kind("share", names, info.score_share),
        }
        self.round_rows.append(row)
        self.points.append(jax.tree.map(np.asarray, state.selection.points))
        self._call_back(row, info)

    def _report(self) -> None:
        state, model = self.state, _answer(self.optimiser, self.state)
        losses = np.asarray(self.last.loss_by_kind)
        metrics = _numbers(self.metrics(model) if self.metrics else {})
        details = _numbers(self.last.info.details)
        for name in metrics.keys() & details.keys():
            raise _name_taken(name)
        row = {
            "step": int(state.step),
            **{f"seconds_{part}": t for part, t in self.watch.seconds.items()},
            "loss": float(losses.sum()),
            **_by_kind("loss", self.pipeline.space.names, losses),
            **metrics,
            **_coefficients(model),
            **details,
        }
        self.training_rows.append(row)
        self._call_back(row, None)

    def _call_back(self, row, info) -> None:
        if not self.callbacks:
            return
        step = int(self.state.step)
        progress = Progress(step, self.end, row, info, self.state, self.optimiser)
        if any([callback(progress) for callback in self.callbacks]):
            raise _Stop(RESULTS.successful)

    def _finish(
        self, end: _Stop, cause: BaseException | None, throw: bool
    ) -> FitResult:
        history = History(
            columns(self.training_rows), columns(self.round_rows), self.points
        )
        model = _answer(self.optimiser, self.state)
        done = FitResult(model, history, self.state, end.result, end.message)
        if throw and end.result == RESULTS.interrupted:
            raise TrainingInterrupted(done)
        if throw and end.result != RESULTS.successful:
            raise TrainingError(end.message, done) from cause
        return done


_RESUME = (
    "What was measured before is kept: `resume` from this run's state asks only for "
    "what is missing."
)


@jax.jit
def _round_keys(key: PRNGKeyArray, number) -> tuple[PRNGKeyArray, ...]:
    """Keys of a round, counted from 0: to select, for the trigger, to measure."""
    return tuple(jax.random.split(jax.random.fold_in(key, number), 3))


def _answer(optimiser: AbstractResidualOptimiser, state: TrainState) -> Model:
    """The model to evaluate and to return."""
    parameters, rest = state.model.partition()
    return eqx.combine(optimiser.answer(parameters, state.optimiser), rest)


def _warn(pipeline: SelectionPipeline, info: SelectionInfo, step: int) -> None:
    """Of collocation kinds that have no points, and of candidates that cannot be
    chosen."""
    space, counts = pipeline.space, np.asarray(info.counts)
    advice = (
        "`min_per_kind=1` prevents this"
        if pipeline.min_per_kind == 0
        else "the pool offered no candidate of it"
    )
    for kind in np.flatnonzero((space.group_of_kind == 0) & (counts == 0)):
        _log.warning(
            "no training point of kind %r was chosen at step %d: its loss is 0 until "
            "the next round. %s.",
            space.names[kind],
            step,
            advice,
        )
    for kind, number in enumerate(info.unusable.tolist()):
        if number:
            _log.warning(
                "%d candidates of kind %r had no finite embedding at step %d and could "
                "not be chosen.",
                number,
                space.names[kind],
                step,
            )


def _integer(value) -> np.ndarray:
    return np.asarray(value, np.int32)


def _by_kind(prefix: str, names, values) -> dict[str, Any]:
    values = np.asarray(values).tolist()
    return {f"{prefix}/{n}": v for n, v in zip(names, values, strict=True)}


def _coefficients(model: Model) -> dict[str, float]:
    """A column a number: `coefficient/name`, or `coefficient/name/0` and on."""
    named = {}
    for name, coefficient in model.coefficients.items():
        value = np.asarray(coefficient.value)
        for i, entry in enumerate(value.flat):
            column = f"coefficient/{name}/{i}" if value.ndim else f"coefficient/{name}"
            named[column] = float(entry)
    return named


def _numbers(values: Mapping[str, Array]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}
