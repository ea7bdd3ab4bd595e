from .averaged import Averaged as Averaged
from .fit import (
    FitResult as FitResult,
    Progress as Progress,
    TrainingError as TrainingError,
    TrainingInterrupted as TrainingInterrupted,
    TrainState as TrainState,
    fit as fit,
    initial_state as initial_state,
    resume as resume,
)
from .gauss_newton import GaussNewton as GaussNewton
from .history import History as History
from .loss import loss_by_kind as loss_by_kind, residual_rows as residual_rows
from .optimiser import (
    AbstractResidualOptimiser as AbstractResidualOptimiser,
    Gradient as Gradient,
    StepInfo as StepInfo,
    lbfgs as lbfgs,
)
from .rows import ResidualRows as ResidualRows
from .trigger import (
    AbstractTrigger as AbstractTrigger,
    Either as Either,
    EveryN as EveryN,
    NTKDrift as NTKDrift,
)
