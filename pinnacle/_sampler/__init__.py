"""How points of the unit cube are drawn."""

from .base import AbstractSampler as AbstractSampler
from .grid import Grid as Grid
from .halton import Halton as Halton
from .hammersley import Hammersley as Hammersley
from .latin_hypercube import LatinHypercube as LatinHypercube
from .sobol import Sobol as Sobol
from .uniform import Uniform as Uniform
