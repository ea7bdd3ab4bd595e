from .base import AbstractSelector as AbstractSelector
from .greedy import Greedy as Greedy, choose_best as choose_best
from .kmeans import KMeansPlusPlus as KMeansPlusPlus
from .per_kind import PerKindQuota as PerKindQuota
from .sampling import Sampling as Sampling
