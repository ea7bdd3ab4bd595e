"""What is checked at a point: the equation and its conditions."""

from .base import AbstractOperator as AbstractOperator
from .derivative import (
    Neumann as Neumann,
    Robin as Robin,
    TimeDerivative as TimeDerivative,
)
from .derivatives import derivatives as derivatives
from .pde import PDE as PDE
from .periodic import Periodic as Periodic
from .value import Dirichlet as Dirichlet, Observation as Observation
