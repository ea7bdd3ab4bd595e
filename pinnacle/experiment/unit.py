"""One unit of an experiment: a run in a folder, which any process may go on with."""

import dataclasses
import pathlib
from typing import Any

from .._results import RESULTS
from .about import versions
from .comparison import Unit
from .config import read_config
from .folder import RunFolder
from .ongoing import PROGRESS, Finished, finish
from .run import build, precision
from .transfer import first_model


RESULT, ERROR = "result.json", "error.txt"


def is_done(unit: Unit, out: pathlib.Path) -> bool:
    """Whether the unit has its result."""
    return (unit.folder(out) / RESULT).is_file()


def check_same(unit: Unit, out: pathlib.Path) -> None:
    """Raise `ValueError` if the folder holds a run with other settings."""
    path = unit.folder(out) / "config.json"
    if path.is_file() and read_config(path) != unit.config:
        raise ValueError(
            f"{str(path)!r} belongs to a run with other settings: give another --out, "
            "or remove the folder of that run."
        )


def run_unit(unit: Unit, out: pathlib.Path) -> bool:
    """Start a unit or go on from its last checkpoint, up to its result.

    The result appears whole or not at all, after everything else is written. Only the
    first seed keeps predictions and parameters from the course of its run.

    **Returns:**

    Whether there is a result; there is none if the run was interrupted.
    """
    folder = RunFolder(unit.folder(out))
    check_same(unit, out)
    with precision(unit.config):
        experiment = build(unit.config)
        run = finish(
            folder,
            experiment,
            begin=first_model(experiment),
            stages=unit.config.seed == 0,
        )
    if run.result == RESULTS.interrupted:
        return False
    folder.write_json(RESULT, _result(unit, run))
    for name in ("checkpoint.eqx", PROGRESS, ERROR):
        (folder / name).unlink(missing_ok=True)
    return True


def _result(unit: Unit, run: Finished) -> dict[str, Any]:
    recorder = run.recorder
    last = recorder.training[-1] if recorder.training else {}
    rounds = recorder.rounds[-1] if recorder.rounds else {}
    return {
        "experiment": unit.experiment,
        "label": unit.label,
        "seed": unit.config.seed,
        "result": run.message or "successful",
        "steps": int(run.state.step),
        "rounds": len(recorder.rounds),
        "metrics": {n: v for n, v in last.items() if not n.startswith("seconds_")},
        "counts": {n[6:]: v for n, v in rounds.items() if n.startswith("count/")},
        "seconds": recorder.seconds(),
        "config": dataclasses.asdict(unit.config),
        "versions": versions(),
    }
