"""Where points of one kind live: domains and their faces."""

from .base import (
    AbstractDomain as AbstractDomain,
    AbstractFace as AbstractFace,
    AbstractRegion as AbstractRegion,
)
from .box import Box as Box, BoxFaces as BoxFaces, Interval as Interval
from .finite_set import (
    AbstractFiniteSet as AbstractFiniteSet,
    FiniteSet as FiniteSet,
)
from .periodic import PeriodicFace as PeriodicFace
from .space_time import (
    InitialFace as InitialFace,
    LateralFaces as LateralFaces,
    SpaceTime as SpaceTime,
)
