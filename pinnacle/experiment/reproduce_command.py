"""`pinnacle reproduce`: the paper's experiments, or one's own, with all methods."""

import pathlib
import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape

from .catalogue import check_name
from .comparison import Comparison, Unit, read_comparisons
from .comparison_figures import draw
from .methods import check_method
from .reproduce import errors_of, reproduce, write_experiment
from .reproduction import EXPERIMENTS
from .tables import read_experiment, write_tables
from .worker import Task


def experiments(
    names: Sequence[str], file: pathlib.Path | None
) -> dict[str, Comparison]:
    """Those of the paper, or those of a file; all of them if none is named.

    Raises `ValueError` for unknown names.
    """
    known = EXPERIMENTS if file is None else read_comparisons(file)
    for name in names:
        check_name("experiment", name, known)
    return {name: known[name] for name in names or known}


def units(
    chosen: Mapping[str, Comparison],
    preset: str,
    seeds: int | None,
    methods: Sequence[str],
) -> list[Unit]:
    """All runs of the experiments, of some methods only if any are given.

    Raises `ValueError` for unknown names and settings that cannot be.
    """
    for method in methods:
        check_method(method)
    every = [unit for c in chosen.values() for unit in c.units(preset, seeds)]
    for method in {unit.config.method for unit in every}:
        check_method(method)
    kept = [u for u in every if not methods or u.config.method in methods]
    if not kept:
        raise ValueError(f"no row of these experiments has the method(s) {methods}.")
    return kept


def run_all(
    chosen: Mapping[str, Comparison],
    work: list[Unit],
    preset: str,
    jobs: int,
    out: pathlib.Path,
    cache: bool,
    console: Console,
    errors: Console,
) -> bool:
    """Do the runs; says which ended with an error.

    **Returns:**

    Whether every run has its result.
    """
    if jobs < 0:
        raise ValueError(f"`jobs` is {jobs}: give a number of processes, or 0.")
    for comparison in chosen.values():
        write_experiment(out, comparison, preset)
    task = Task(out, work, time.time(), cache)
    complete = reproduce(task, jobs, console)
    for unit, message in errors_of(task):
        where = unit.folder(out) / "error.txt"
        errors.print(
            f"[red]{unit.experiment} · {escape(unit.label)} · seed {unit.config.seed}:"
            f"[/] {escape(message)} ({where})",
            soft_wrap=True,
        )
    return complete


def report(
    out: pathlib.Path, names: Sequence[str], figures: bool, console: Console
) -> None:
    """Tables and figures of every experiment in the folder, as far as it has come.

    Raises `ValueError` if there is none.
    """
    if not names:
        names = sorted(path.parent.name for path in out.glob("*/experiment.json"))
    if not names:
        raise ValueError(f"{str(out)!r} holds no experiment: give the --out of a run.")
    for name in names:
        folder = out / name
        about, rows = read_experiment(folder)
        if not rows:
            console.print(f"{name}: no run is finished yet")
            continue
        write_tables(folder, about, rows)
        console.print(Markdown((folder / "table.md").read_text()))
        written = ["table.csv", "table.md", "counts.csv", "times.csv", "times.md"]
        if figures:
            written += [f"figures/{file}" for file in draw(folder, about, rows)]
        console.print(f"{folder}/: {', '.join(written)}", soft_wrap=True)
