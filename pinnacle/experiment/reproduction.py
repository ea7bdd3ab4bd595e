"""The paper's experiments. A further one is an entry here, or in a file."""

from typing import Any

from .comparison import Comparison


_SAMPLERS = ["uniform", "hammersley", "sobol"]
_RAD = ["rad", "rad-all"]
_OURS = ["pinnacle-s", "pinnacle-k"]
_ALL = [*_SAMPLERS, *_RAD, *_OURS]
_SIX = ["uniform", "hammersley", *_RAD, *_OURS]
_OTHER_SHARES = {
    "method": [*_SAMPLERS, *_RAD],
    "pde_share": [0.5, 0.95],
}
_UNBIASED = ["gradient-norm", "leverage"]  # not in the paper


def _ablations(*names: str) -> list[str]:
    return [f"{method}-{name}" for method in _OURS for name in names]


_ABLATIONS = _ablations("no-retention", "no-trigger", "fixed-shares", "no-cross")

# A smaller network, trained faster: minutes on one core.
_SMALL: dict[str, Any] = {
    "width": 64,
    "depth": 4,
    "learning_rate": 1e-3,
    "steps": 20_000,
    "select_every": 1000,
}

_FEW_MEASUREMENTS = {
    "experimental_per_round": 3,
    "experimental_capacity": 9,
    "experimental_pool": 12,
}
_FINE_TUNING = {**_SMALL, "source_steps": 20_000, "steps": 10_000}

_LIST = [
    Comparison(
        name="advection",
        problem="advection",
        title="Advection, β = 1",
        rows=[{"method": [*_ALL, *_ABLATIONS]}, _OTHER_SHARES],
        seeds=10,
        quick=_SMALL,
    ),
    Comparison(
        name="burgers",
        problem="burgers",
        title="Burgers",
        rows=[{"method": [*_ALL, *_ABLATIONS]}, _OTHER_SHARES],
        seeds=10,
        quick=_SMALL,
    ),
    Comparison(
        name="diffusion",
        problem="diffusion",
        title="Diffusion with a hard constraint",
        # With one kind, and looks at the drift no more often than rounds, the other
        # ablations are their base.
        rows=[{"method": [*_ALL, *_ablations("no-retention")]}],
        quick={"steps": 10_000},
    ),
    Comparison(
        name="kdv",
        problem="kdv",
        title="Korteweg–de Vries",
        rows=[{"method": _ALL}],
        quick={"steps": 20_000, "select_every": 1000},
    ),
    Comparison(
        name="kdv-periods",
        problem="kdv",
        title="Korteweg–de Vries, each method at several periods",
        rows=[
            {
                "method": [*_SIX, *_UNBIASED],
                "early": False,
                "select_every": [50, 200, 1000, 5000],
            },
            {
                "method": [*_SIX, *_UNBIASED],
                "early": True,
                "select_every": 5000,
                "label": "trigger",
            },
        ],
        changes={"steps": 20_000},
    ),
    Comparison(
        name="diffusion-estimators",
        problem="diffusion",
        title="Diffusion, estimators of the NTK",
        rows=[
            {"references": [100, 300, 800], "label": "nystrom"},
            {"estimator": "sketch", "references": [64, 256], "label": "sketch"},
            {"estimator": "exact", "label": "exact"},
        ],
        quick={"steps": 10_000},
    ),
    Comparison(
        name="advection-timing",
        problem="advection-timing",
        title="Advection, β = 5: time to a mean squared error of 1e-2",
        rows=[
            {"method": ["uniform", "hammersley"], "budget": [1000, 3000, 10_000]},
            {"method": _OURS, "budget": 300, "new": 100, "label": "budget=300"},
            {"method": _OURS, "budget": 1000, "new": 500, "label": "budget=1000"},
        ],
        seeds=5,
        threshold=1e-2,
        sustain=5000,
        quick={"learning_rate": 1e-3, "steps": 30_000, "select_every": 1000},
    ),
    Comparison(
        name="kdv-timing",
        problem="kdv",
        title="Korteweg–de Vries: time to a mean squared error of 1e-2",
        rows=[
            {"method": ["uniform", "hammersley"], "budget": [1000, 3000, 10_000]},
            {"method": _OURS, "budget": [300, 1000], "select_every": 1000},
        ],
        threshold=1e-2,
        sustain=2000,
        quick={"steps": 20_000},
    ),
    Comparison(
        name="shallow-water",
        problem="shallow-water",
        title="Shallow water, radial dam break",
        rows=[{"method": _SIX}],
        also=["mse/u", "mse/v"],
        quick={"steps": 20_000, "select_every": 1000},
    ),
    Comparison(
        name="darcy",
        problem="darcy",
        title="Darcy flow (not in the paper)",
        rows=[{"method": _SIX}],
        quick={"steps": 20_000, "select_every": 1000},
    ),
    Comparison(
        name="advection-transfer",
        problem="advection-transfer",
        title="Advection, fine-tuned to another initial condition",
        rows=[{"method": _SIX}],
        quick=_FINE_TUNING,
    ),
    Comparison(
        name="burgers-transfer",
        problem="burgers-transfer",
        title="Burgers, fine-tuned to another initial condition",
        rows=[{"method": _SIX}],
        quick=_FINE_TUNING,
    ),
    Comparison(
        name="navier-stokes-inverse",
        problem="navier-stokes-inverse",
        title="Navier–Stokes, wake of a cylinder: two unknown numbers",
        rows=[{"method": _SIX}],
        metric="coefficient_error/lambda1",
        also=["coefficient_error/lambda2", "mse/u", "mse/v", "mse/p"],
        seeds=10,
        quick={"width": 40, "depth": 5, "steps": 20_000},
        smoke=_FEW_MEASUREMENTS,
    ),
    Comparison(
        name="eikonal-inverse",
        problem="eikonal-inverse",
        title="Eikonal: unknown field of speed",
        rows=[{"method": _SIX}],
        also=["mse/T"],
        quick={"steps": 20_000},
        smoke=_FEW_MEASUREMENTS,
    ),
    Comparison(
        name="kdv-inverse",
        problem="kdv-inverse",
        title="Korteweg–de Vries: two unknown numbers (not in the paper)",
        rows=[{"method": _SIX}],
        metric="coefficient_error/lambda1",
        also=["coefficient_error/lambda2", "mse"],
        quick={"steps": 40_000},
        smoke=_FEW_MEASUREMENTS,
    ),
]
EXPERIMENTS: dict[str, Comparison] = {c.name: c for c in _LIST}
