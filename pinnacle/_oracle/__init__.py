"""Where the labels of experimental points come from."""

from .base import AbstractOracle as AbstractOracle
from .function import FunctionOracle as FunctionOracle
from .labels import pending as pending
from .noisy import Noisy as Noisy
from .table import TableOracle as TableOracle
