from .base import AbstractConvergenceCriterion as AbstractConvergenceCriterion
from .causal import Causal as Causal
from .constant import Constant as Constant
from .convergence import ConvergenceDegree as ConvergenceDegree
from .gradient import GradientNorm as GradientNorm
from .leverage import Leverage as Leverage
from .mixed import MixedWithUniform as MixedWithUniform
from .residual import ResidualPower as ResidualPower
from .wrappers import ByKind as ByKind, Pointwise as Pointwise, Tempered as Tempered
