"""Reference solutions and what they are compared with."""

from .base import Reference as Reference
from .closed_form import (
    advection_reference as advection_reference,
    diffusion_reference as diffusion_reference,
    diffusion_source as diffusion_source,
)
from .metrics import (
    max_error as max_error,
    mse as mse,
    relative_l2 as relative_l2,
)
from .spectral import (
    burgers_reference as burgers_reference,
    kdv_reference as kdv_reference,
)
