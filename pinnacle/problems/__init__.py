"""Benchmark problems with reference solutions."""

from ._darcy import darcy as darcy
from ._forward import (
    PERIODICITY as PERIODICITY,
    advection as advection,
    advection_timing as advection_timing,
    advection_transfer as advection_transfer,
    burgers as burgers,
    burgers_transfer as burgers_transfer,
    diffusion as diffusion,
    kdv as kdv,
)
from ._initial_conditions import (
    PDEBenchInitial as PDEBenchInitial,
    Sine as Sine,
    pdebench_initial as pdebench_initial,
    perturbed as perturbed,
)
from ._inverse import (
    eikonal_inverse as eikonal_inverse,
    kdv_inverse as kdv_inverse,
    navier_stokes_inverse as navier_stokes_inverse,
)
from ._pdebench import (
    PDEBenchData as PDEBenchData,
    TabulatedInitial as TabulatedInitial,
    read_pdebench as read_pdebench,
)
from ._problem import Problem as Problem, Settings as Settings, predict as predict
from ._reference import (
    Reference as Reference,
    max_error as max_error,
    mse as mse,
    relative_l2 as relative_l2,
)
from ._shallow_water import shallow_water as shallow_water
