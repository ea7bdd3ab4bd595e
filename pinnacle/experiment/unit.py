"""One unit of an experiment: a run in a folder, which any process may go on with."""

import json
import math
import pathlib
import time
from collections.abc import Callable
from typing import Any

from .._checkpoint import load
from .._results import RESULTS
from .._training import Progress, TrainState
from .about import versions
from .cache import CompileClock
from .comparison import Unit
from .config import from_dict, load_config, save_config
from .folder import RunFolder
from .record import Recorder
from .run import Experiment, build, precision, train


RESULT, PROGRESS, ERROR = "result.json", "progress.json", "error.txt"
_SHOW_EVERY = 2.0  # seconds


def is_done(unit: Unit, out: pathlib.Path) -> bool:
    """Whether the unit has its result."""
    return (unit.folder(out) / RESULT).is_file()


def check_same(unit: Unit, out: pathlib.Path) -> None:
    """Raise `ValueError` if the folder holds a run with other settings."""
    path = unit.folder(out) / "config.json"
    if path.is_file() and from_dict(load_config(path)) != unit.config:
        raise ValueError(
            f"{str(path)!r} belongs to a run with other settings: give another --out, "
            "or remove the folder of that run."
        )


def run_unit(
    unit: Unit,
    out: pathlib.Path,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> bool:
    """Start a unit or go on from its last checkpoint, up to its result.

    The result appears whole or not at all, after everything else is written.

    **Returns:**

    Whether there is a result; there is none if the run was interrupted.
    """
    folder = RunFolder(unit.folder(out))
    folder.clean()
    check_same(unit, out)
    with precision(unit.config):
        experiment = build(unit.config)
        experiment.warm_up()
        save_config(folder / "config.json", unit.config, versions=versions())
        state = _checkpoint(folder, experiment)
        show, clock = _Show(folder, watch), CompileClock()
        recorder = Recorder(
            folder,
            experiment.problem,
            experiment.reference,
            show,
            clock,
            stages=unit.config.seed == 0,
        )
        show.recorder = recorder
        if state is not None:
            recorder.load(state)
        with clock:
            state, ended = _go(experiment, recorder, state)
    if ended == RESULTS.interrupted:
        return False
    folder.write_json(RESULT, _result(unit, recorder, state, ended))
    for name in ("checkpoint.eqx", PROGRESS, ERROR):
        (folder / name).unlink(missing_ok=True)
    return True


def _go(experiment: Experiment, recorder: Recorder, state: TrainState | None):
    if state is not None and int(state.step) >= experiment.config.steps:
        return state, RESULTS.successful  # killed between the last step and the result
    done = train(experiment, [recorder], state)
    recorder.save(done.state)
    return done.state, done.result


def _checkpoint(folder: RunFolder, experiment: Experiment) -> TrainState | None:
    path = folder / "checkpoint.eqx"
    return load(path, experiment.like()) if path.is_file() else None


class _Show:
    """Leaves word of how far a unit has come, for whoever looks at the folder."""

    recorder: Recorder

    def __init__(self, folder: RunFolder, watch: Callable[[Progress], None]):
        self.folder, self.watch = folder, watch
        self.shown_at = -math.inf

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self.shown_at > _SHOW_EVERY:
            self.shown_at = now
            seconds = now - self.recorder.begin + self.recorder.before["wall"]
            record = {"step": progress.step, "seconds": seconds}
            self.folder.write_json(PROGRESS, record)
        self.watch(progress)


def _result(unit: Unit, recorder: Recorder, state: TrainState, ended) -> dict[str, Any]:
    last = recorder.training[-1] if recorder.training else {}
    rounds = recorder.rounds[-1] if recorder.rounds else {}
    about = json.loads((recorder.folder / "config.json").read_text())
    failed = ended != RESULTS.successful
    return {
        "experiment": unit.experiment,
        "label": unit.label,
        "seed": unit.config.seed,
        "result": RESULTS[ended] if failed else "successful",
        "steps": int(state.step),
        "rounds": len(recorder.rounds),
        "metrics": {n: v for n, v in last.items() if not n.startswith("seconds_")},
        "counts": {n[6:]: v for n, v in rounds.items() if n.startswith("count/")},
        "seconds": recorder.seconds(),
        "config": {n: v for n, v in about.items() if n != "about"},
        "versions": about["about"]["versions"],
    }
