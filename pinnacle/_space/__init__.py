from .augmented import AugmentedSpace as AugmentedSpace, Block as Block
from .component import GROUPS as GROUPS, Component as Component, Group as Group
from .pool import CandidatePool as CandidatePool
