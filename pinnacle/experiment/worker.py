"""A process that takes units of work until there are none left to take.

    python -m pinnacle.experiment.worker

reads its task from standard input, see `Task`.
"""

import _thread
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from .._training.clock import CompileClock
from .cache import enable_cache
from .comparison import Unit
from .config import from_dict
from .folder import RunFolder
from .lock import Taken, claim
from .signals import term_as_interrupt
from .unit import ERROR, is_done, run_unit


# One thread a process: XLA's pool, its matrix products, and NumPy's.
ONE_THREAD = {
    "NPROC": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
_KEPT = 1000  # compiled functions, some of which take a megabyte
_XLA_FLAG = "--xla_cpu_multi_thread_eigen=false"


@dataclasses.dataclass(frozen=True)
class Task:
    """What a worker is told.

    **Attributes:**

    - `out`: the folder of all experiments.
    - `units`: in the order in which they are to be done.
    - `since`: a unit that has failed with an error after this time is left alone.
    - `cache`: whether to keep compiled functions on disk.
    - `parent`: the process without which the worker ends, if any.
    """

    out: pathlib.Path
    units: Sequence[Unit]
    since: float
    cache: bool = True
    parent: int | None = None

    def to_json(self) -> str:
        return json.dumps(
            {
                "out": str(self.out),
                "units": [dataclasses.asdict(unit) for unit in self.units],
                "since": self.since,
                "cache": self.cache,
                "parent": self.parent,
            }
        )

    @staticmethod
    def from_json(text: str) -> "Task":
        record = json.loads(text)
        units = [_unit(unit) for unit in record["units"]]
        return Task(**{**record, "out": pathlib.Path(record["out"]), "units": units})

    def left(self) -> list[Unit]:
        """Units without a result that have not failed since the task was given."""
        return [
            unit
            for unit in self.units
            if not is_done(unit, self.out) and not self.failed(unit)
        ]

    def failed(self, unit: Unit) -> bool:
        """Whether the unit has ended with an error since the task was given."""
        try:
            return (unit.folder(self.out) / ERROR).stat().st_mtime >= self.since
        except FileNotFoundError:
            return False


def _unit(record: Mapping[str, Any]) -> Unit:
    return Unit(record["experiment"], record["label"], from_dict(record["config"]))


def environment() -> dict[str, str]:
    """The variables that hold a worker to one thread, beside those of this process."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {_XLA_FLAG}".strip()
    return {**os.environ, **ONE_THREAD, "XLA_FLAGS": flags}


def work(task: Task, beat: Callable[[], None] = lambda: None) -> None:
    """Do the units of a task, as far as no other process is at them.

    An error ends the unit with a file `error.txt` and goes on with the next.
    """
    if task.cache:
        enable_cache()
    kept = 0  # functions in memory
    with contextlib.ExitStack() as owned:
        while (unit := _take(task, beat, owned)) is not None:
            with CompileClock() as compiled:
                _do(unit, task.out)
            owned.close()
            kept += compiled.functions
            if kept > _KEPT:
                jax.clear_caches()
                kept = 0


def _take(task: Task, beat, owned: contextlib.ExitStack) -> Unit | None:
    """The next unit that this process can own."""
    for unit in task.left():
        try:
            owned.enter_context(claim(unit.folder(task.out), beat))
        except Taken:
            continue
        if not is_done(unit, task.out) and not task.failed(unit):
            return unit
        owned.close()  # done by another in the meantime
    return None


def _do(unit: Unit, out: pathlib.Path) -> None:
    try:
        finished = run_unit(unit, out)
    except Exception:
        RunFolder(unit.folder(out)).write(ERROR, traceback.format_exc())
    else:
        if not finished:
            raise KeyboardInterrupt


def main() -> None:
    """The process of a worker. It saves and ends when it is told to, or orphaned."""
    task = Task.from_json(sys.stdin.read())

    def beat():
        if task.parent not in (None, os.getppid()):
            _thread.interrupt_main(signal.SIGTERM)

    try:
        with term_as_interrupt():
            work(task, beat)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
