"""Where to put the training points of a physics-informed neural network, and which
measurements to take next."""

from . import nn as nn
from ._checkpoint import load as load, save as save
from ._criterion import (
    AbstractConvergenceCriterion as AbstractConvergenceCriterion,
    ByKind as ByKind,
    Causal as Causal,
    Constant as Constant,
    ConvergenceDegree as ConvergenceDegree,
    GradientNorm as GradientNorm,
    Leverage as Leverage,
    MixedWithUniform as MixedWithUniform,
    Pointwise as Pointwise,
    ResidualPower as ResidualPower,
    Tempered as Tempered,
)
from ._geometry import (
    AbstractDomain as AbstractDomain,
    AbstractFace as AbstractFace,
    AbstractRegion as AbstractRegion,
    Box as Box,
    FiniteSet as FiniteSet,
    Interval as Interval,
    SpaceTime as SpaceTime,
)
from ._model import Coefficient as Coefficient, Model as Model
from ._ntk import (
    AbstractNTKEstimator as AbstractNTKEstimator,
    Exact as Exact,
    NoCross as NoCross,
    Nystrom as Nystrom,
    Sketch as Sketch,
)
from ._operator import (
    PDE as PDE,
    AbstractOperator as AbstractOperator,
    Dirichlet as Dirichlet,
    Neumann as Neumann,
    Observation as Observation,
    Periodic as Periodic,
    Robin as Robin,
    TimeDerivative as TimeDerivative,
    derivatives as derivatives,
)
from ._oracle import (
    AbstractOracle as AbstractOracle,
    FunctionOracle as FunctionOracle,
    Noisy as Noisy,
    TableOracle as TableOracle,
    pending as pending,
)
from ._paper import pinnacle_k as pinnacle_k, pinnacle_s as pinnacle_s
from ._pipeline import (
    SelectionInfo as SelectionInfo,
    SelectionPipeline as SelectionPipeline,
    SelectionState as SelectionState,
    select_points as select_points,
)
from ._results import RESULTS as RESULTS
from ._retention import (
    AbstractRetentionPolicy as AbstractRetentionPolicy,
    KeepAll as KeepAll,
    KeepBest as KeepBest,
    KeepNone as KeepNone,
    RandomRetention as RandomRetention,
    Retained as Retained,
    TrainingSetInfo as TrainingSetInfo,
)
from ._sampler import (
    AbstractSampler as AbstractSampler,
    Grid as Grid,
    Halton as Halton,
    Hammersley as Hammersley,
    LatinHypercube as LatinHypercube,
    Sobol as Sobol,
    Uniform as Uniform,
)
from ._selector import (
    AbstractSelector as AbstractSelector,
    Greedy as Greedy,
    KMeansPlusPlus as KMeansPlusPlus,
    PerKindQuota as PerKindQuota,
    Sampling as Sampling,
    choose_best as choose_best,
)
from ._space import (
    AugmentedSpace as AugmentedSpace,
    Block as Block,
    CandidatePool as CandidatePool,
    Component as Component,
)
from ._training import (
    AbstractResidualOptimiser as AbstractResidualOptimiser,
    AbstractTrigger as AbstractTrigger,
    Averaged as Averaged,
    Either as Either,
    EveryN as EveryN,
    FitResult as FitResult,
    GaussNewton as GaussNewton,
    Gradient as Gradient,
    History as History,
    NTKDrift as NTKDrift,
    Progress as Progress,
    ResidualRows as ResidualRows,
    StepInfo as StepInfo,
    TrainingError as TrainingError,
    TrainingInterrupted as TrainingInterrupted,
    TrainState as TrainState,
    fit as fit,
    initial_state as initial_state,
    lbfgs as lbfgs,
    loss_by_kind as loss_by_kind,
    residual_rows as residual_rows,
    resume as resume,
)
from ._types import (
    Candidates as Candidates,
    NTKSpectrum as NTKSpectrum,
    Points as Points,
    PoolInfo as PoolInfo,
    Selection as Selection,
)
