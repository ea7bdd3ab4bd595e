"""What the runs of an experiment come to: tables, from the units' records alone."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .folder import RunFolder
from .reached import time_to_error
from .unit import RESULT


@dataclasses.dataclass(frozen=True)
class FinishedUnit:
    """A unit that has its result."""

    folder: RunFolder
    record: Mapping[str, Any]

    @property
    def failed(self) -> bool:
        return self.record["result"] != "successful"

    def value(self, metric: str) -> float:
        """The metric at the end; infinite for a run that failed."""
        value = self.record["metrics"].get(metric, math.nan)
        return value if math.isfinite(value) and not self.failed else math.inf

    def history(self) -> list[dict[str, Any]]:
        return self.folder.read_rows("history.csv")

    def rounds(self) -> list[dict[str, Any]]:
        return self.folder.read_rows("rounds.csv")


Rows = dict[str, list[FinishedUnit]]  # by label, in the order of their seeds


def read_experiment(folder: pathlib.Path) -> tuple[dict[str, Any], Rows]:
    """What an experiment is, and its finished units.

    Raises `ValueError` if the folder is not that of an experiment, or the result of one
    of its units is damaged.
    """
    try:
        about = json.loads((folder / "experiment.json").read_text())
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{str(folder)!r} is not the folder of an experiment: experiment.json: "
            f"{error}"
        ) from error
    rows: Rows = {label: [] for label in about["rows"]}
    for path in folder.glob(f"runs/*/*/{RESULT}"):
        unit = RunFolder(path.parent)
        record = unit.read_record(
            RESULT,
            *("label", "seed", "result", "metrics"),
            way_out="delete it, and `pinnacle reproduce` does this unit again.",
        )
        rows.setdefault(record["label"], []).append(FinishedUnit(unit, record))
    for runs in rows.values():
        runs.sort(key=lambda run: run.record["seed"])
    return about, {label: runs for label, runs in rows.items() if runs}


def percentile(values: Iterable[float | int], share: float) -> float:
    """Linear between the neighbours in order; infinite once an infinite one counts."""
    ordered = np.sort(np.array([float(value) for value in values]))
    place = share * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    if ordered[low] == ordered[high]:
        return float(ordered[low])
    return float(ordered[low] + (place - low) * (ordered[high] - ordered[low]))


def summary(runs: Sequence[FinishedUnit], metric: str) -> dict[str, Any]:
    """Median, 20th and 80th percentile, share of failed seeds, and every seed."""
    values = [run.value(metric) for run in runs]
    return {
        "median": percentile(values, 0.5),
        "p20": percentile(values, 0.2),
        "p80": percentile(values, 0.8),
        "failed": sum(math.isinf(v) for v in values) / len(values),
        "seeds": len(values),
        **{f"seed {r.record['seed']}": v for r, v in zip(runs, values, strict=True)},
    }


def metrics_of(rows: Rows, first: str) -> list[str]:
    """Names of the numbers at the end of the runs, the compared one first."""
    every = (
        name for runs in rows.values() for r in runs for name in r.record["metrics"]
    )
    names = [n for n in dict.fromkeys(every) if n != "step"]
    return [first, *(n for n in names if n != first)]


def write_tables(folder: pathlib.Path, about: Mapping[str, Any], rows: Rows) -> None:
    """`table.csv` and `table.md`, `counts.csv`, and the times in files of their own."""
    out, metric = RunFolder(folder), about["metric"]
    table = [
        {"row": label, "metric": name, **summary(runs, name)}
        for name in metrics_of(rows, metric)
        for label, runs in rows.items()
    ]
    out.write_rows("table.csv", table)
    out.write_rows("counts.csv", list(_counts(rows)))
    out.write("table.md", _markdown(folder.name, about, rows))
    times = [_times(label, runs, about) for label, runs in rows.items()]
    out.write_rows("times.csv", times)
    words = {"row": "", **{n: n for t in times for n in t if n != "row"}}
    out.write("times.md", _grid(times, words))


def _markdown(name: str, about: Mapping[str, Any], rows: Rows) -> str:
    text = f"# {about['title'] or name}\n\nPreset `{about['preset']}`."
    for metric in (about["metric"], *about["also"]):
        lines = [
            {"row": label, **summary(runs, metric)} for label, runs in rows.items()
        ]
        columns = _columns(lines)
        text += f"\n\n## `{metric}` at the end\n\n{_grid(lines, columns)}"
        best = _best(rows, metric)
        if metric == about["metric"] and len(best) < len(rows):
            text += f"\n\n### The best row of each method\n\n{_grid(best, columns)}"
    return text


def _columns(lines: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    seeds = {n for line in lines for n in line if n.startswith("seed ")}
    return {
        "row": "",
        "median": "median",
        "p20": "20 %",
        "p80": "80 %",
        "failed": "failed",
        **{n: n for n in sorted(seeds, key=_age)},
    }


def _age(name: str) -> int:
    return int(name.removeprefix("seed "))


def _best(rows: Rows, metric: str) -> list[dict[str, Any]]:
    """Of each method the row with the lowest median."""
    best: dict[str, dict[str, Any]] = {}
    for label, runs in rows.items():
        method = runs[0].record["config"]["method"]
        line = {"row": label, **summary(runs, metric)}
        if method not in best or line["median"] < best[method]["median"]:
            best[method] = line
    return list(best.values())


def _grid(lines: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """A Markdown table."""
    head = "| " + " | ".join(columns.values()) + " |\n"
    rule = "|" + "|".join("---" if n == "row" else "--:" for n in columns) + "|\n"
    body = (
        "| " + " | ".join(_word(n, line.get(n)) for n in columns) + " |\n"
        for line in lines
    )
    return head + rule + "".join(body)


def _word(name: str, value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if name in ("failed", "reached"):
        return f"{value:.0%}"
    if math.isinf(value):
        return "failed"
    if name in ("rounds", "steps to it"):
        return f"{value:.10g}"
    return f"{value:.4g}" if name.startswith("seconds") else f"{value:.2e}"


def _counts(rows: Rows) -> Iterable[dict[str, Any]]:
    """Points by kind after each round, the mean over the seeds.

    Rounds that some seeds took and others did not, because of the drift, count for a
    seed as its last round before.
    """
    for label, runs in rows.items():
        steps, kinds, counts = counts_over_time(runs)
        mean = np.mean(counts, axis=0)
        for step, numbers in zip(steps.tolist(), mean.tolist(), strict=True):
            named = dict(zip((f"count/{k}" for k in kinds), numbers, strict=True))
            yield {"row": label, "step": step, **named}


def counts_over_time(runs: Sequence[FinishedUnit]):
    """Steps at which any run chose points, kinds, counts `(runs, steps, kinds)`."""
    tables = [run.rounds() for run in runs]
    tables = [table for table in tables if table]
    kinds = [name[6:] for name in tables[0][0] if name.startswith("count/")]
    steps = np.unique([row["step"] for table in tables for row in table])
    counts = [
        np.array([[row[f"count/{kind}"] for kind in kinds] for row in table])[
            np.searchsorted([row["step"] for row in table], steps, side="right") - 1
        ]
        for table in tables
    ]
    return steps, kinds, np.stack(counts)


def _times(label: str, runs: Sequence[FinishedUnit], about) -> dict[str, Any]:
    """Medians over the seeds of where the time went."""
    seconds = [run.record["seconds"] for run in runs]
    line: dict[str, Any] = {"row": label}
    for name in ("training", "selecting", "compiling", "wall"):
        line[f"seconds {name}"] = percentile([s[name] for s in seconds], 0.5)
    line["rounds"] = percentile([run.record["rounds"] for run in runs], 0.5)
    if about["threshold"] is not None:
        line |= _to_threshold(runs, about)
    return line


def _to_threshold(runs: Sequence[FinishedUnit], about) -> dict[str, float]:
    arguments = (about["metric"], about["threshold"], about["sustain"])
    reached = [time_to_error(run.history(), *arguments) for run in runs]
    seconds = [math.inf if r is None else r[1] for r in reached]
    steps = [math.inf if r is None else r[0] for r in reached]
    return {
        "reached": sum(r is not None for r in reached) / len(reached),
        "steps to it": percentile(steps, 0.5),
        "seconds to it": percentile(seconds, 0.5),
        "seconds to it, 20 %": percentile(seconds, 0.2),
        "seconds to it, 80 %": percentile(seconds, 0.8),
    }
