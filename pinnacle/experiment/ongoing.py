"""A run in a folder, begun or gone on with from its last checkpoint."""

import dataclasses
import math
import time
from collections.abc import Callable

from .._checkpoint import load
from .._model import Model
from .._results import RESULTS
from .._training import FitResult, Progress, TrainState
from .about import versions
from .config import save_config
from .folder import RunFolder
from .reached import has_reached
from .record import Recorder
from .run import Experiment, train


PROGRESS = "progress.json"
_SHOW_EVERY = 2.0  # seconds


@dataclasses.dataclass(frozen=True)
class Finished:
    """A run that has ended: what was recorded, its last state, and how it ended, with
    a message unless it was successful."""

    recorder: Recorder
    state: TrainState
    result: RESULTS
    message: str = ""


def finish(
    folder: RunFolder,
    experiment: Experiment,
    *,
    begin: Callable[[], Model] | None = None,
    stages: bool = True,
) -> Finished:
    """Do what is missing of a run.

    **Arguments:**

    - `folder`: of this run alone.
    - `experiment`: what is run, built in its own precision.
    - `begin`: gives the model to begin with, default the untrained one.
    - `stages`: see `Recorder`.
    """
    config, path = experiment.config, folder / "checkpoint.eqx"
    folder.clean()
    save_config(folder / "config.json", config, versions=versions())
    state = load(path, experiment.like()) if path.is_file() else None
    model = begin() if begin is not None and state is None else None
    experiment.warm_up()
    show = _Show(folder)
    problem, reference = experiment.problem, experiment.reference
    recorder = Recorder(folder, problem, reference, show, stages)
    show.recorder = recorder
    if state is not None:
        recorder.load(state)
        ended = int(state.step) >= config.steps  # killed after the last step
        if ended or has_reached(config, recorder.training):
            return Finished(recorder, state, RESULTS.successful)
    done = train_recorded(experiment, recorder, state, model)
    return Finished(recorder, done.state, done.result, done.message)


def train_recorded(
    experiment: Experiment,
    recorder: Recorder,
    state: TrainState | None = None,
    begin: Model | None = None,
) -> FitResult:
    """As `train`, up to the configured accuracy if there is one; what the recorder
    keeps of it is saved at the end."""

    def stop(progress: Progress) -> bool:
        del progress
        return has_reached(experiment.config, recorder.training)

    done = train(experiment, [recorder, stop], state, begin)
    recorder.save(done.state, done.model)
    return done


class _Show:
    """Leaves word of how far a run has come, for whoever looks at the folder."""

    recorder: Recorder

    def __init__(self, folder: RunFolder):
        self.folder, self.shown_at = folder, -math.inf

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self.shown_at > _SHOW_EVERY:
            self.shown_at = now
            seconds = now - self.recorder.begin + self.recorder.before["wall"]
            record = {"step": progress.step, "seconds": seconds}
            self.folder.write_json(PROGRESS, record)
