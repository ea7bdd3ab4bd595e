"""What the command shows: the progress bar, tables at the end, lists."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress as Bar,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from .._training import Progress, TrainState
from ..plotting import thin
from ..problems import Problem
from .comparison import Comparison
from .config import RunConfig


_COLUMNS = 8  # rounds shown in the table
_LINES = 10  # lines of progress where there is no terminal
_SECOND_ORDER = {"damping": "μ/λ", "step_length": "length", "condition": "κ"}


def doing(console: Console, what: str) -> AbstractContextManager:
    """Says what takes its time: with a sign of life on a terminal, in a line elsewhere,
    where `Console.status` shows nothing."""
    if not console.is_terminal:
        console.print(what)
    return console.status(what)


class Watch:
    """Shows each `Progress`: a bar on a terminal, some lines elsewhere."""

    def __init__(self, console: Console, config: RunConfig, state: TrainState | None):
        self.console, self.steps = console, config.steps
        self.start = 0 if state is None else int(state.step)
        self.printed = self.start
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("step {task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task(
            "compiling", total=self.steps, completed=self.start, numbers=""
        )

    def __enter__(self) -> "Watch":
        if self.start:
            self.console.print(f"going on from step {self.start:,}/{self.steps:,}")
        if not self.console.is_terminal:
            self.console.print("compiling and training")
        self.bar.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self.bar.__exit__(*error)

    def __call__(self, progress: Progress) -> None:
        change: dict[str, Any] = {"completed": progress.step, "description": "training"}
        if progress.selection is None:
            change["numbers"] = _numbers(progress.row)
            self._line(progress.step, change["numbers"])
        self.bar.update(self.task, **change)

    def _line(self, step: int, numbers: str) -> None:
        tenth = (self.steps - self.start) / _LINES
        if not self.console.is_terminal and step - self.printed >= tenth:
            self.printed = step
            self.console.print(f"step {step:,}/{self.steps:,}  {numbers}")


def _numbers(row: Mapping[str, Any]) -> str:
    words = f"loss {row['loss']:.2e}"
    if "relative_l2" in row:
        words += f"  error {row['relative_l2']:.2%}"
    for name, shown in _SECOND_ORDER.items():
        if name in row:
            words += f"  {shown} {row[name]:.2g}"
    return words


def print_report(
    console: Console,
    summary: Mapping[str, Any],
    rounds: Sequence[Mapping[str, Any]],
    names: Sequence[str],
) -> None:
    """The tables at the end of a run: errors, points by kind, time."""
    console.print(_errors(summary))
    if rounds:
        console.print(_points(rounds, names))
    console.print(_time(summary["seconds"]))


def _errors(summary: Mapping[str, Any]) -> Table:
    table = Table(title=f"{summary['problem']}, {summary['method']}")
    table.add_column(f"after {summary['steps']:,} steps")
    table.add_column("", justify="right")
    if summary["loss"] is not None:
        table.add_row("loss", f"{summary['loss']:.3e}")
    words = {
        "relative_l2": "relative L2 error",
        "max_error": "largest error",
        "mse": "mean squared error",
    }
    for name, value in summary["errors"].items():
        table.add_row(words.get(name, name), f"{value:.3e}")
    return table


def _points(rounds: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    shown = [rounds[i] for i in thin(len(rounds), _COLUMNS)]
    of = f"{len(shown)} of " if len(shown) < len(rounds) else ""
    table = Table(title=f"points by kind, {of}{len(rounds)} rounds")
    table.add_column("at step")
    for row in shown:
        table.add_column(f"{row['step']:,}", justify="right")
    for name in names:
        table.add_row(name, *(str(row[f"count/{name}"]) for row in shown))
    return table


def _time(seconds: Mapping[str, float]) -> Table:
    table = Table(title="time")
    table.add_column("")
    table.add_column("seconds", justify="right")
    for name, value in seconds.items():
        table.add_row(name, f"{value:.1f}")
    return table


def print_problems(console: Console, problems: Mapping[str, Problem]) -> None:
    """A table of the problems, with the paper's settings."""
    table = Table(title="problems, with the paper's settings", padding=(0, 0))
    table.add_column("name", no_wrap=True)
    table.add_column("title")
    for name in ("steps", "rate", "budget", "new", "every", "pool"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, problem in problems.items():
        s = problem.settings
        numbers = (str(s.steps), f"{s.learning_rate:g}", s.budget, s.new)
        pool = "/".join(map(str, s.pool))
        table.add_row(
            name, problem.title, *map(str, numbers), str(s.select_every), pool
        )
    console.print(table)


def print_methods(console: Console, methods: Mapping[str, str]) -> None:
    """A table of the methods and the ablations, a line each."""
    table = Table(title="methods")
    table.add_column("name")
    table.add_column("how points are chosen")
    for name, words in methods.items():
        table.add_row(name, words)
    console.print(table)


def print_experiments(console: Console, experiments: Mapping[str, Comparison]) -> None:
    """A table of what `pinnacle reproduce` runs."""
    table = Table(title="experiments of `pinnacle reproduce`")
    table.add_column("name", no_wrap=True)
    table.add_column("title")
    for name in ("rows", "seeds"):
        table.add_column(name, justify="right")
    for name, comparison in experiments.items():
        rows = len(comparison.expanded())
        table.add_row(name, comparison.title, str(rows), str(comparison.seeds))
    console.print(table)
