from .all import KeepAll as KeepAll
from .base import (
    AbstractRetentionPolicy as AbstractRetentionPolicy,
    Retained as Retained,
    TrainingSetInfo as TrainingSetInfo,
)
from .best import KeepBest as KeepBest
from .none import KeepNone as KeepNone
from .random import RandomRetention as RandomRetention
