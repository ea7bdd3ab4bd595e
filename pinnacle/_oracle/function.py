"""Any Python function as an oracle."""

from collections.abc import Callable
from typing import Any

from .base import AbstractOracle


class FunctionOracle(AbstractOracle):
    """Calls a function of one point. `fit` wraps plain functions in it by itself.

    **Arguments:**

    - `function`: x ↦ the numbers measured there.
    """

    function: Callable

    def measure(self, x, *, key) -> Any:
        del key
        return self.function(x)


def as_oracle(value) -> AbstractOracle:
    """Wrap a function; leave an oracle as it is."""
    if isinstance(value, AbstractOracle):
        return value
    if callable(value):
        return FunctionOracle(value)
    raise ValueError(
        f"`oracle` is {value!r}: give a function of one point, or an `AbstractOracle` "
        "such as `TableOracle(x, values)`."
    )
