"""An experiment as data: one problem, several ways to train on it, one number."""

import dataclasses
import itertools
import json
import pathlib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .catalogue import PROBLEMS, check_name, suggestion
from .config import RunConfig, compared, make_config, typed


SCALES = ("smoke", "quick", "paper")
_SEEDS = {"smoke": 2, "quick": 3}

# Sizes with which every experiment takes seconds: to see that it runs.
_SMOKE: dict[str, Any] = {
    "steps": 60,
    "budget": 24,
    "new": 8,
    "select_every": 20,
    "pool": (40, 10),
    "references": 12,
    "look_every": 20,
    "width": 8,
    "depth": 2,
    "report_every": 10,
    "source_steps": 60,
}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One experiment.

    **Attributes:**

    - `name`: of the experiment, and of its folder.
    - `problem`: by name.
    - `rows`: what is compared. Each entry maps fields of `RunConfig` to a value, or to
      a list of values to go through; several lists give all combinations. An entry
      `label` is added to the name of the row.
    - `metric`: the column of the history that is compared at the end of the runs.
    - `also`: further columns that the table shows.
    - `title`: for people.
    - `seeds`: how many, at the paper's scale.
    - `preset`: of `pinnacle run`, what the settings start from.
    - `changes`: fields of `RunConfig` for all rows.
    - `paper`, `quick`, `smoke`: further changes, at each scale. Smoke runs have small
      sizes anyway; their changes come after the fields of the rows, so that nothing
      stays large.
    - `threshold`, `sustain`: the time is measured until the metric is below the
      threshold and stays there for so many steps; then the run ends.

    Raises `ValueError` for unknown names, fields that are none of `RunConfig` or of
    another type, and rows of the same name.
    """

    name: str
    problem: str
    rows: Sequence[Mapping[str, Any]]
    metric: str = "mse"
    also: Sequence[str] = ()
    title: str = ""
    seeds: int = 5
    preset: str = "paper"
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    paper: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    quick: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    smoke: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    threshold: float | None = None
    sustain: int = 0

    def __post_init__(self):
        check_name("problem", self.problem, PROBLEMS)
        if not re.fullmatch(r"[\w.+-]+", self.name):
            raise ValueError(
                f"`name` of the experiment is {self.name!r}: it names a folder, so use "
                "letters, digits, and . + - _ only."
            )
        rows = self.expanded()
        changes = (self.changes, self.paper, self.quick, self.smoke)
        for fields in (*changes, *(row.fields for row in rows)):
            _check_fields(self.name, fields)
        names = [row.label for row in rows]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(
                f"experiment {self.name!r} has several rows called {sorted(twice)}: "
                "give them a `label`."
            )

    def expanded(self) -> "list[Row]":
        """The rows with one value for each field."""
        return [row for entry in self.rows for row in _expand(entry)]

    def units(self, scale: str, seeds: int | None = None) -> "list[Unit]":
        """Every run, seed after seed.

        **Arguments:**

        - `scale`: `"smoke"`, `"quick"` or `"paper"`.
        - `seeds`: how many, default the paper's at its scale, 3 for quick runs.
        """
        check_name("preset", scale, SCALES)
        check_name("metric", self.metric, compared(self.problem))
        count = _SEEDS.get(scale, self.seeds) if seeds is None else seeds
        if count < 1:
            raise ValueError(f"`seeds` is {count}: give at least 1.")
        return [
            Unit(self.name, row.label, self._config(row, scale, seed))
            for seed in range(count)
            for row in self.expanded()
        ]

    def _config(self, row: "Row", scale: str, seed: int) -> RunConfig:
        values = {**self.changes, **getattr(self, scale), **row.fields, "seed": seed}
        if scale == "smoke":
            values |= {**_SMOKE, **self.smoke}
        if self.threshold is not None:
            values["stop_below"] = self.threshold
            values["stop_metric"], values["stop_sustain"] = self.metric, self.sustain
        return make_config(self.problem, preset=self.preset, **values)


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of an experiment's table."""

    label: str
    fields: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Unit:
    """One run of an experiment, in a folder of its own."""

    experiment: str
    label: str
    config: RunConfig

    def folder(self, out: pathlib.Path) -> pathlib.Path:
        seed = f"seed-{self.config.seed}"
        return out / self.experiment / "runs" / _file_name(self.label) / seed


def _check_fields(experiment: str, fields: Mapping[str, Any]) -> None:
    try:
        typed({name: value for name, value in fields.items() if value is not None})
    except ValueError as error:
        raise ValueError(f"experiment {experiment!r}: {error}") from error
    for name in ("problem", "seed"):
        if name in fields:
            raise ValueError(
                f"experiment {experiment!r} changes `{name}` to {fields[name]!r}: it "
                "has one problem, and goes through its `seeds`; leave it out."
            )


def _file_name(label: str) -> str:
    return re.sub(r"[^\w.=+-]+", "_", label)


def _expand(entry: Mapping[str, Any]) -> list[Row]:
    """All combinations of the fields that are lists."""
    fields = {n: v for n, v in entry.items() if n != "label"}
    swept = [name for name, value in fields.items() if _is_list(name, value)]
    rows = []
    for values in itertools.product(*(fields[name] for name in swept)):
        chosen = {**fields, **dict(zip(swept, values, strict=True))}
        words = [str(chosen.get("method", "pinnacle-k"))]
        words += [f"{n}={_word(chosen[n])}" for n in swept if n != "method"]
        words += [str(entry["label"])] if "label" in entry else []
        rows.append(Row(" ".join(words), {n: _plain(v) for n, v in chosen.items()}))
    return rows


def _is_list(name: str, value: Any) -> bool:
    """Whether a value is a list to go through; the two numbers of a pool are not."""
    if name == "pool" and isinstance(value, list):
        return not all(isinstance(v, int) for v in value)
    return isinstance(value, list)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _word(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def read_comparisons(path: pathlib.Path) -> dict[str, Comparison]:
    """Experiments from a TOML or JSON file, a table each.

    The keys of a table are those of `Comparison`; `methods = [...]` stands for
    `rows = [{method = [...]}]`. Raises `ValueError` for a file that cannot be read.
    """
    try:
        text = path.read_text()
        json_file = path.suffix == ".json"
        tables = json.loads(text) if json_file else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"cannot read experiments from {str(path)!r}: {error}"
        ) from error
    named = isinstance(tables, dict) and len(tables) > 0
    if not named or not all(isinstance(t, dict) for t in tables.values()):
        raise ValueError(
            f"{str(path)!r} must hold one table for each experiment, by its name."
        )
    return {name: from_table(name, table) for name, table in tables.items()}


def _is_list_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, list | tuple) and all(isinstance(v, kind) for v in value)
    )


# What an entry must be, by the type of its attribute: in words, and as a test.
_ENTRIES: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("a text", lambda value: isinstance(value, str)),
    int: ("a whole number", lambda value: type(value) is int),
    float | None: ("a number", lambda v: v is None or type(v) in (int, float)),
    Sequence[str]: ("a list of texts", _is_list_of(str)),
    Sequence[Mapping[str, Any]]: ("a list of tables", _is_list_of(Mapping)),
    Mapping[str, Any]: ("a table", lambda value: isinstance(value, Mapping)),
}


def from_table(name: str, table: Mapping[str, Any]) -> Comparison:
    """One experiment from plain data; raises `ValueError` for unknown keys and values
    of a wrong type."""
    table = dict(table)
    methods = table.pop("methods", None)
    known = {f.name: f.type for f in dataclasses.fields(Comparison) if f.name != "name"}
    for key, value in table.items():
        if key not in known:
            raise ValueError(
                f"experiment {name!r} has an unknown entry {key!r}"
                f"{suggestion(key, known)}: it knows methods, {', '.join(known)}."
            )
        words, fits = _ENTRIES[known[key]]
        if not fits(value):
            raise ValueError(
                f"experiment {name!r}: `{key}` is {value!r}: it must be {words}."
            )
    rows = [*table.pop("rows", []), *([{"method": methods}] if methods else [])]
    if not rows or "problem" not in table:
        raise ValueError(
            f"experiment {name!r} needs a `problem`, and `methods` or `rows`."
        )
    scales = {
        scale: {n: _plain(v) for n, v in table.pop(scale).items()}
        for scale in ("changes", *SCALES)
        if scale in table
    }
    return Comparison(name=name, rows=rows, **scales, **table)
