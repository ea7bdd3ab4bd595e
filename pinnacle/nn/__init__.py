"""Networks that know their own derivatives, and wrappers for any other network."""

from .activation import (
    LAAF as LAAF,
    AbstractActivation as AbstractActivation,
    Elementwise as Elementwise,
    Sin as Sin,
    Tanh as Tanh,
)
from .base import AbstractNetwork as AbstractNetwork
from .mlp import MLP as MLP
from .periodic import PeriodicInput as PeriodicInput
from .wrappers import (
    Apply as Apply,
    InputNormalisation as InputNormalisation,
    OutputTransform as OutputTransform,
)
