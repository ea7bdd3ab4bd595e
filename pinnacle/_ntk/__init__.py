from .base import AbstractNTKEstimator as AbstractNTKEstimator
from .basis import Basis as Basis
from .exact import Exact as Exact
from .jacobian import Rows as Rows
from .no_cross import NoCross as NoCross
from .nystrom import Nystrom as Nystrom
from .sketch import Sketch as Sketch
