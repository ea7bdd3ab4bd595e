"""Everything that decides the numbers of a run, as one record that goes to a file."""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import typing
from collections.abc import Collection, Mapping
from typing import Any

from ..problems import PERIODICITY
from .catalogue import (
    DTYPES,
    OPTIMISERS,
    PRESETS,
    PROBLEMS,
    SCHEDULES,
    check_name,
    choose,
    suggestion,
)
from .folder import RunFolder
from .methods import (
    ESTIMATORS,
    MethodSettings,
    check_method,
    has_fixed_shares,
    keeps_points,
    looks_at_drift,
    uses_ntk,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A run: with the same versions on the same machine, the same numbers.

    Fields that came later have a default, so that older files can be read.

    **Attributes:**

    - `problem`, `method`, `optimizer`, `schedule`: by name.
    - `stop_metric`, `stop_below`, `stop_sustain`: the run ends early once the metric
      has been below the number for so many steps; never if that is `None`.
    - `data`, `sample`: a PDEBench file to take the solution from, and which sample.
    - `periodic`: how a periodic solution is made so, see `problems.PERIODICITY`.
    - `seed`: of the network, the pools and the choices.
    - `dtype`: `"float32"` or `"float64"`.
    - `steps`: optimiser steps in all; `decay_steps` of them until the learning rate
      has decayed, all of them if `None`.
    - `learning_rate`: at the start.
    - `budget`, `new`, `select_every`, `pool`, `pde_share`, `estimator`, `references`,
      `early`, `drift`, `look_every`, `experimental_per_round`,
      `experimental_capacity`, `experimental_pool`: see `MethodSettings`.
    - `width`, `depth`: of the network's hidden layers, `None` for the problem's own.
    - `normalise`: whether the network sees coordinates scaled to [−1, 1].
    - `report_every`: steps between two rows of the history.
    - `source_steps`: optimiser steps of the first network, where a problem begins with
      one that was trained on another; else 0.

    Raises `ValueError` for an unknown name or a size that cannot be.
    """

    problem: str
    method: str
    seed: int
    dtype: str
    steps: int
    decay_steps: int | None
    optimizer: str
    learning_rate: float
    schedule: str
    budget: int
    new: int
    select_every: int
    pool: tuple[int, int]
    pde_share: float
    estimator: str = "nystrom"
    references: int
    early: bool | None = None
    drift: float
    look_every: int
    experimental_per_round: int = 0
    experimental_capacity: int = 0
    experimental_pool: int = 0
    width: int | None
    depth: int | None
    normalise: bool
    report_every: int
    source_steps: int = 0
    data: str | None = None
    sample: int = 0
    periodic: str = PERIODICITY[0]
    stop_metric: str = "mse"
    stop_below: float | None = None
    stop_sustain: int = 0

    def __post_init__(self):
        check_name("problem", self.problem, PROBLEMS)
        check_name("dtype", self.dtype, DTYPES)
        check_name("optimizer", self.optimizer, OPTIMISERS)
        check_name("schedule", self.schedule, SCHEDULES)
        check_name("estimator", self.estimator, ESTIMATORS)
        check_name("periodic", self.periodic, PERIODICITY)
        check_name("stop_metric", self.stop_metric, compared(self.problem))
        _check_numbers(self)
        self.method_settings()  # which checks its own numbers

    def method_settings(self) -> MethodSettings:
        """The numbers of the method."""
        names = [field.name for field in dataclasses.fields(MethodSettings)]
        return MethodSettings(**{name: getattr(self, name) for name in names})


_AT_LEAST = {
    "seed": 0,
    "steps": 1,
    "decay_steps": 1,
    "budget": 1,
    "new": 1,
    "select_every": 1,
    "references": 1,
    "look_every": 1,
    "experimental_per_round": 0,
    "experimental_capacity": 0,
    "experimental_pool": 0,
    "width": 1,
    "depth": 1,
    "report_every": 1,
    "source_steps": 0,
    "sample": 0,
    "stop_sustain": 0,
}


# JAX counts in int32 and, of a seed, would take the lowest 32 bits.
_BITS = {"seed": 32}


def _check_numbers(config: RunConfig) -> None:
    for name, least in _AT_LEAST.items():
        value = getattr(config, name)
        bits = _BITS.get(name, 31)
        if value is not None and value < least:
            raise ValueError(f"`{name}` is {value}: give at least {least}.")
        if value is not None and value >= 2**bits:
            raise ValueError(f"`{name}` is {value}: give less than 2**{bits}.")
    if max(config.pool) >= 2**31:
        raise ValueError(f"`pool` is {config.pool}: give less than 2**31 candidates.")
    if not 0 < config.learning_rate < float("inf"):
        raise ValueError(
            f"`learning_rate` is {config.learning_rate}: give a positive number."
        )
    if config.new > config.budget:
        raise ValueError(
            f"`new` is {config.new}, more than the budget of {config.budget}: a round "
            "replaces at most all points."
        )


def check_used(config: RunConfig, given: Collection[str]) -> None:
    """Raise `ValueError` if a field that somebody gave changes nothing."""
    problem, method = config.problem, config.method
    check_method(method)
    settings = _settings(problem)
    drift = (
        looks_at_drift(method, config.early),
        f"method {method!r} does not look at the NTK's drift; `--early` makes it",
    )
    adam = (
        config.optimizer == "adam",
        f"optimizer {config.optimizer!r} has no learning rate",
    )
    measured = (
        settings["experimental_capacity"] > 0,
        f"nothing is measured in problem {problem!r}",
    )
    uses = {
        "new": (
            keeps_points(method),
            f"method {method!r} draws all points afresh in each round",
        ),
        "drift": drift,
        "look_every": drift,
        "learning_rate": adam,
        "schedule": adam,
        "experimental_per_round": measured,
        "experimental_capacity": measured,
        "experimental_pool": measured,
        "references": (
            uses_ntk(method) and config.estimator != "exact",
            f"method {method!r} with the estimator {config.estimator!r} has none",
        ),
        "pde_share": (
            has_fixed_shares(method),
            f"method {method!r} has no fixed shares",
        ),
        "estimator": (
            uses_ntk(method),
            f"method {method!r} does not score by the NTK",
        ),
        "sample": (config.data is not None, "no `data` is given"),
        "source_steps": (
            settings["source_steps"] > 0,
            f"problem {problem!r} begins with an untrained network",
        ),
    }
    for name, (used, why) in uses.items():
        if name in given and not used:
            raise ValueError(f"`{name}` is given, but {why}: leave it out.")


def make_config(
    problem: str, method: str = "pinnacle-k", preset: str = "paper", **changes
) -> RunConfig:
    """The settings of a preset, with changes.

    **Arguments:**

    - `problem`, `method`: by name.
    - `preset`: `"paper"` for the paper's settings, `"quick"` for settings that two
      CPU cores finish in minutes.
    - `changes`: fields of `RunConfig`; those that are `None` change nothing.

    Raises `ValueError` for an unknown name or a size that cannot be.
    """
    check_name("problem", problem, PROBLEMS)
    quick = choose("preset", preset, PRESETS)[problem]
    changes = {name: value for name, value in changes.items() if value is not None}
    values: dict[str, Any] = {
        "problem": problem,
        "method": method,
        "seed": 0,
        "dtype": "float32",
        "decay_steps": None,
        "optimizer": "adam",
        "schedule": "constant",
        "pde_share": 0.8,
        "estimator": "nystrom",
        "references": 300,
        "early": None,
        "drift": 0.5,
        "look_every": 1000,
        "experimental_per_round": 0,
        "experimental_capacity": 0,
        "experimental_pool": 0,
        "width": None,
        "depth": None,
        "normalise": False,
        **_settings(problem),
        **quick,
        **changes,
    }
    values.setdefault("report_every", max(1, values["steps"] // 100))
    if "new" not in changes:
        values["new"] = min(values["new"], values["budget"])
    return from_dict(values)


@functools.lru_cache
def _settings(problem: str) -> dict[str, Any]:
    """The paper's settings; the first network of a transfer is trained by its own."""
    made = PROBLEMS[problem]()
    first = 0 if made.source is None else made.source().settings.steps
    return {**dataclasses.asdict(made.settings), "source_steps": first}


@functools.lru_cache
def compared(problem: str) -> tuple[str, ...]:
    """Columns of the history that a run on the problem may be judged by."""
    made = PROBLEMS[problem]()
    losses = (f"loss/{name}" for name in made.space.names)
    return (*made.metric_names, "loss", *losses)


def from_dict(values: dict[str, Any]) -> RunConfig:
    """A configuration from its fields; raises `ValueError` if one is unknown or missing
    or has the wrong type."""
    checked = typed(values)
    fields = dataclasses.fields(RunConfig)
    needed = [f.name for f in fields if f.default is dataclasses.MISSING]
    missing = [name for name in needed if name not in values]
    if missing:
        raise ValueError(f"the configuration lacks {', '.join(missing)}.")
    return RunConfig(**checked)


def typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Some fields of a configuration; raises `ValueError` if one is unknown or has the
    wrong type."""
    fields = {field.name: field for field in dataclasses.fields(RunConfig)}
    for name in values:
        if name not in fields:
            raise ValueError(
                f"the configuration has an unknown entry {name!r}"
                f"{suggestion(name, fields)}: it knows {', '.join(fields)}."
            )
    return {name: _typed(fields[name], value) for name, value in values.items()}


def _typed(field: dataclasses.Field, value: Any) -> Any:
    if field.name == "pool":
        if not (
            isinstance(value, list | tuple) and [type(v) for v in value] == [int] * 2
        ):
            raise ValueError(
                f"`pool` is {value!r}: give two whole numbers, candidates for each PDE "
                "and for each condition."
            )
        return tuple(value)
    kind: Any = field.type
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) not in (kind, *typing.get_args(kind)):  # True is no int
        name = getattr(kind, "__name__", str(kind))
        raise ValueError(f"`{field.name}` is {value!r}: it must be {name}.")
    return value


def read_config(path: str | os.PathLike, edited: bool = True) -> RunConfig:
    """The configuration in a file that `save_config` wrote, see `load_config`."""
    fields = load_config(path, edited)
    try:
        return from_dict(fields)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from error


def save_config(path: str | os.PathLike, config: RunConfig, **about) -> None:
    """Write a configuration as JSON, with what else is worth knowing under `about`."""
    fields = dataclasses.asdict(config)
    record = {**fields, "about": {**about, "settings": _digest(fields)}}
    path = pathlib.Path(path)
    RunFolder(path.parent).write_json(path.name, record)


def _digest(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def load_config(path: str | os.PathLike, edited: bool = True) -> dict[str, Any]:
    """The fields in a file that `save_config` wrote.

    Raises `ValueError` for a file that cannot be read as one and, unless `edited`, for
    one that was changed since it was written.
    """
    try:
        record = json.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError) as error:
        raise ValueError(
            f"cannot read the configuration {str(path)!r} ({error}): give the "
            "config.json of a run."
        ) from error
    if not isinstance(record, dict):
        raise ValueError(f"the configuration {str(path)!r} is not a JSON object.")
    about = record.pop("about", None) or {}
    if not isinstance(about, dict):
        raise ValueError(
            f"{str(path)!r} has {about!r} as its `about`: bring it back from a copy, "
            "or leave that entry out."
        )
    if not edited and about.get("settings", _digest(record)) != _digest(record):
        raise ValueError(
            f"{str(path)!r} was edited after the run had begun, whose checkpoint has "
            "the settings from before: undo that, or begin a new run with --config."
        )
    return record
