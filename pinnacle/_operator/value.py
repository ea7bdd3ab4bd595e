"""Conditions on the value."""

import equinox as eqx

from .base import AbstractOperator
from .outputs import as_outputs, take


class Dirichlet(AbstractOperator):
    """F[u](x) = u(x), for chosen outputs: boundary value or initial value.

    **Arguments:**

    - `outputs`: which outputs, default the first.
    """

    outputs: tuple[int, ...] = eqx.field(
        static=True, default=(0,), converter=as_outputs
    )

    @property
    def rows(self) -> int:
        return len(self.outputs)

    def __call__(self, u, x):
        return take(u(x), self.outputs)


class Observation(AbstractOperator):
    """F[u](x) = u(x), for the outputs that an experiment measures.

    **Arguments:**

    - `outputs`: which outputs are measured, default the first.
    """

    outputs: tuple[int, ...] = eqx.field(
        static=True, default=(0,), converter=as_outputs
    )

    @property
    def rows(self) -> int:
        return len(self.outputs)

    def __call__(self, u, x):
        return take(u(x), self.outputs)
