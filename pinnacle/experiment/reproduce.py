"""Many runs at once: workers, progress over all of them, and what they come to."""

import dataclasses
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn

from .comparison import Comparison, Unit
from .folder import RunFolder
from .lock import owned
from .ongoing import PROGRESS
from .unit import ERROR, RESULT, check_same, is_done
from .worker import Task, environment, work


_POLL = 0.5  # seconds


def reproduce(task: Task, jobs: int, console: Console) -> bool:
    """Do all units of a task with `jobs` processes, and show how far they are.

    Units that other processes are at are waited for.

    **Arguments:**

    - `jobs`: how many processes; 0 works in this one.

    **Returns:**

    Whether every unit has its result.
    """
    for unit in task.units:
        check_same(unit, task.out)
    finished = sum(is_done(unit, task.out) for unit in task.units)
    if finished:
        more = "; going on" if finished < len(task.units) else ""
        console.print(
            f"{finished} of {len(task.units)} units are finished{more}",
            highlight=False,
        )
    if jobs == 0:
        work(task)
    else:
        with _Board(task, jobs, console) as board:
            _supervise(task, jobs, board)
    return all(is_done(unit, task.out) for unit in task.units)


def _supervise(task: Task, jobs: int, board: "_Board") -> None:
    """Keep workers at work until nothing is left, as long as they get on."""
    while task.left():
        before = len(task.left())
        with _workers(task, min(jobs, before)) as workers:
            while any(worker.poll() is None for worker in workers):
                board.show()
                time.sleep(_POLL)
        while _elsewhere(task):
            board.show()
            time.sleep(_POLL)
        crashed = any(worker.returncode for worker in workers)
        if crashed and len(task.left()) == before:
            raise RuntimeError(
                "the workers end without a result: see the newest file in "
                f"{str(task.out / 'logs')!r}."
            )
    board.show()


def _elsewhere(task: Task) -> bool:
    """Whether all that is left is in the hands of living processes."""
    left = task.left()
    return bool(left) and all(owned(unit.folder(task.out)) for unit in left)


@contextmanager
def _workers(task: Task, count: int) -> Iterator[list[subprocess.Popen]]:
    """Processes that work on the task; on the way out they are told to save and end."""
    (task.out / "logs").mkdir(parents=True, exist_ok=True)
    workers = [_start(task, number) for number in range(count)]
    try:
        yield workers
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
        for worker in workers:
            worker.wait()


def _start(task: Task, number: int) -> subprocess.Popen:
    name = f"{socket.gethostname()}-{os.getpid()}-{number}.log"
    with open(task.out / "logs" / name, "a") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "pinnacle.experiment.worker"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment(),
            start_new_session=True,  # Ctrl-C reaches this process only
        )
    assert worker.stdin is not None
    task = dataclasses.replace(task, parent=os.getpid())
    worker.stdin.write(task.to_json().encode())
    worker.stdin.close()
    return worker


@dataclasses.dataclass
class _Seen:
    """What is known of a unit: how far it is, and what it has taken so far."""

    step: int = 0
    seconds: float = 0.0
    done: bool = False
    record: Mapping[str, Any] | None = None


class _Board:
    """Shows how far the units are; a bar on a terminal, lines elsewhere."""

    def __init__(self, task: Task, jobs: int, console: Console):
        self.task, self.jobs, self.console = task, jobs, console
        self.seen = [_Seen() for _ in task.units]
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:.0f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.line = self.bar.add_task("", total=1.0, left="")
        self.look()

    def __enter__(self) -> "_Board":
        self.bar.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self.bar.__exit__(*error)

    def look(self) -> list[tuple[Unit, _Seen]]:
        """Read the folders; returns the units that have become done."""
        finished = []
        for unit, seen in zip(self.task.units, self.seen, strict=True):
            if seen.done:
                continue
            record = _read(unit.folder(self.task.out) / RESULT)
            if record is not None:
                seen.done, seen.record = True, record
                seen.step, seen.seconds = record["steps"], record["seconds"]["wall"]
                finished.append((unit, seen))
                continue
            progress = _read(unit.folder(self.task.out) / PROGRESS)
            if progress is not None:
                seen.step, seen.seconds = progress["step"], progress["seconds"]
        return finished

    def show(self) -> None:
        finished = self.look()
        done = sum(seen.done for seen in self.seen)
        shares = [
            1.0 if seen.done else seen.step / unit.config.steps
            for unit, seen in zip(self.task.units, self.seen, strict=True)
        ]
        left = _words(time_left(self.task.units, self.seen, self.jobs))
        total = len(self.seen)
        self.bar.update(
            self.line,
            description=f"{done} of {total} runs",
            completed=sum(shares) / total,
            left=left,
        )
        for unit, seen in finished:
            self.console.print(
                f"[{done}/{total}] {_line(unit, seen)}; {left}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )


def _line(unit: Unit, seen: _Seen) -> str:
    record = seen.record or {}
    metrics = record.get("metrics", {})
    shown = [f"{n} {metrics[n]:.2e}" for n in ("mse", "relative_l2") if n in metrics]
    if record.get("result") != "successful":
        shown = [f"failed: {record.get('result')}"]
    words = ", ".join([*shown, f"{seen.seconds:.0f} s"])
    return f"{unit.experiment} · {unit.label} · seed {unit.config.seed}: {words}"


def _read(path: pathlib.Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None


def time_left(units: Sequence[Unit], seen: Sequence[_Seen], jobs: int) -> float | None:
    """Seconds until all units are done, `None` as long as nothing is known.

    A unit that has not begun takes as long for a step as the units of the same row, or
    else of the same experiment, or else as all others.
    """
    rates: dict[tuple, list[float]] = {}
    for unit, s in zip(units, seen, strict=True):
        if s.step > 0:
            for key in _keys(unit):
                rates.setdefault(key, []).append(s.seconds / s.step)
    if not rates:
        return None
    total = 0.0
    for unit, s in zip(units, seen, strict=True):
        if not s.done:
            known = next(key for key in _keys(unit) if key in rates)
            rate = s.seconds / s.step if s.step > 0 else statistics.median(rates[known])
            total += rate * (unit.config.steps - s.step)
    undone = sum(not s.done for s in seen)
    return total / max(1, min(jobs, undone))


def _keys(unit: Unit) -> list[tuple]:
    return [(unit.experiment, unit.label), (unit.experiment,), ()]


def _words(seconds: float | None) -> str:
    if seconds is None:
        return "time left unknown"
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min left"
    return f"about {seconds / 3600:.1f} h left"


def errors_of(task: Task) -> list[tuple[Unit, str]]:
    """Units that have ended with an error, with the last line of it."""
    found = []
    for unit in task.units:
        path = unit.folder(task.out) / ERROR
        if path.is_file() and not is_done(unit, task.out):
            lines = path.read_text().strip().splitlines()
            found.append((unit, lines[-1] if lines else "an unknown error"))
    return found


def write_experiment(out: pathlib.Path, comparison: Comparison, scale: str) -> None:
    """Leave word of what an experiment is, from which its tables can be made again."""
    folder = out / comparison.name
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "problem": comparison.problem,
        "title": comparison.title,
        "preset": scale,
        "metric": comparison.metric,
        "also": list(comparison.also),
        "threshold": comparison.threshold,
        "sustain": comparison.sustain,
        "rows": [row.label for row in comparison.expanded()],
    }
    RunFolder(folder).write_json("experiment.json", record)
