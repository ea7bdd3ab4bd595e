"""Names that the command line knows: problems, optimisers, schedules, presets.

A further problem, optimiser or preset is one line here.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import optax

from .. import problems
from .._training import Averaged, GaussNewton, lbfgs


if TYPE_CHECKING:
    from .config import RunConfig


PROBLEMS: dict[str, Callable[..., problems.Problem]] = {
    "advection": problems.advection,
    "advection-timing": problems.advection_timing,
    "advection-transfer": problems.advection_transfer,
    "burgers": problems.burgers,
    "burgers-transfer": problems.burgers_transfer,
    "darcy": problems.darcy,
    "diffusion": problems.diffusion,
    "eikonal-inverse": problems.eikonal_inverse,
    "kdv": problems.kdv,
    "kdv-inverse": problems.kdv_inverse,
    "navier-stokes-inverse": problems.navier_stokes_inverse,
    "shallow-water": problems.shallow_water,
}

SCHEDULES: dict[str, Callable[[float, int], optax.ScalarOrSchedule]] = {
    "constant": lambda rate, steps: rate,
    "cosine": lambda rate, steps: optax.cosine_decay_schedule(rate, steps, 1e-2),
    "exponential": lambda rate, steps: optax.exponential_decay(rate, steps, 1e-2),
}

OPTIMISERS: dict[str, Callable[["RunConfig"], Any]] = {
    "adam": lambda config: optax.adam(learning_rate(config)),
    "lbfgs": lambda config: lbfgs(),
    "gauss-newton": lambda config: Averaged(GaussNewton()),
}

DTYPES = ("float32", "float64")

# What the quick preset has in place of the paper's settings: small networks, few
# Gauss–Newton steps, and points that are half new every few of them.
_QUICK: dict[str, Any] = {
    "optimizer": "gauss-newton",
    "normalise": True,
    "width": 32,
    "depth": 3,
    "steps": 700,
    "budget": 600,
    "new": 300,
    "select_every": 25,
    "pool": (800, 200),
    "references": 200,
    "report_every": 10,
}
# A strong optimiser finds other solutions of what is periodic in its value alone.
_QUICK_PERIODIC = {**_QUICK, "periodic": "network", "select_every": 10}

PRESETS: dict[str, Mapping[str, dict[str, Any]]] = {
    "paper": {name: {} for name in PROBLEMS},
    "quick": {
        name: _QUICK_PERIODIC if name in ("burgers", "kdv") else _QUICK
        for name in PROBLEMS
    },
}


def learning_rate(config: "RunConfig") -> optax.ScalarOrSchedule:
    """The rate of a run as optax takes it."""
    horizon = config.decay_steps or config.steps
    return choose("schedule", config.schedule, SCHEDULES)(config.learning_rate, horizon)


def choose(what: str, name: str, table: Mapping[str, Any]) -> Any:
    """Look a name up; raises `ValueError` with the choices and the nearest of them."""
    check_name(what, name, table)
    return table[name]


def check_name(what: str, name: str, choices: Iterable[str]) -> None:
    """Raise `ValueError` with the choices unless `name` is one of them."""
    choices = list(choices)
    if name not in choices:
        raise ValueError(
            f"`{what}` {name!r} is unknown{suggestion(name, choices)}: choose one of "
            f"{', '.join(choices)}."
        )


def suggestion(name: str, choices: Iterable[str]) -> str:
    """` (did you mean 'burgers'?)`, or nothing if no choice is near."""
    near = difflib.get_close_matches(str(name), list(choices), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
