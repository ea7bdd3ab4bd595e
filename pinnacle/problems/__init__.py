"""Benchmark problems with reference solutions."""

from ._forward import (
    advection as advection,
    advection_timing as advection_timing,
    burgers as burgers,
    diffusion as diffusion,
    kdv as kdv,
)
from ._initial_conditions import (
    PDEBenchInitial as PDEBenchInitial,
    Sine as Sine,
    pdebench_initial as pdebench_initial,
)
from ._problem import Problem as Problem, Settings as Settings, predict as predict
from ._reference import (
    Reference as Reference,
    max_error as max_error,
    mse as mse,
    relative_l2 as relative_l2,
)
