"""Reference solutions and what they are compared with."""

from .base import Reference as Reference, grid_points as grid_points
from .closed_form import (
    advection_reference as advection_reference,
    diffusion_reference as diffusion_reference,
    diffusion_source as diffusion_source,
)
from .cylinder_wake import (
    CylinderWake as CylinderWake,
    cylinder_wake as cylinder_wake,
    cylinder_wake_reference as cylinder_wake_reference,
)
from .darcy import (
    darcy_reference as darcy_reference,
    log_permeability as log_permeability,
)
from .eikonal import (
    eikonal_reference as eikonal_reference,
    eikonal_speed as eikonal_speed,
    linear_travel_time as linear_travel_time,
)
from .metrics import (
    max_error as max_error,
    mse as mse,
    relative_l2 as relative_l2,
)
from .shallow_water import shallow_water_reference as shallow_water_reference
from .spectral import (
    burgers_reference as burgers_reference,
    kdv_reference as kdv_reference,
)
