"""A run in a folder, begun or gone on with from its last checkpoint."""

import dataclasses
import math
import time
from collections.abc import Callable

from .._checkpoint import load
from .._model import Model
from .._results import RESULTS
from .._training import Progress, TrainState
from .about import versions
from .cache import CompileClock
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
    show, clock = _Show(folder), CompileClock()
    recorder = Recorder(
        folder, experiment.problem, experiment.reference, show, clock, stages
    )
    show.recorder = recorder

    def stop(progress: Progress | None = None) -> bool:
        del progress
        return has_reached(config, recorder.training)

    if state is not None:
        recorder.load(state)
        if int(state.step) >= config.steps or stop():  # killed after the last step
            return Finished(recorder, state, RESULTS.successful)
    done = train(experiment, [recorder, stop], state, model, clock)
    recorder.save(done.state, done.model)
    return Finished(recorder, done.state, done.result, done.message)


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
