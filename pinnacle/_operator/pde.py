"""The differential equation."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._misc import as_real, require_integer
from .base import AbstractOperator


class PDE(AbstractOperator):
    """One or several differential equations, written by the user.

    **Arguments:**

    - `fn`: `(u, x) -> residual` at one point: a number, an array of shape `(rows,)`, or
      a tuple of numbers and arrays of shape `(k,)`, one entry an equation. It may use
      any JAX transform on `u`; `pinnacle.derivatives` is the cheapest way.
    - `rows`: number of equations.

    **Raises:** `ValueError` for `rows` below 1, and when `fn` returns another number of
    rows, or no real numbers.
    """

    fn: Any
    equations: int = eqx.field(static=True)

    def __init__(self, fn: Any, rows: int = 1):
        self.fn = fn if isinstance(fn, eqx.Module) else jax.tree_util.Partial(fn)
        self.equations = rows

    def __check_init__(self):
        require_integer("rows", self.rows, 1, "give the number of equations")

    @property
    def rows(self) -> int:
        return self.equations

    def __call__(self, u, x):
        result = self.fn(u, x)
        parts = result if isinstance(result, tuple | list) else (result,)
        parts = [_real(part) for part in parts]
        if any(part.ndim > 1 for part in parts):
            raise ValueError(
                "the residual function of `PDE` must return numbers or arrays of "
                f"shape (k,), got shapes {[part.shape for part in parts]}."
            )
        residual = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
        if residual.shape[0] != self.rows:
            raise ValueError(
                f"the residual function of `PDE` returned {residual.shape[0]} rows, "
                f"but `rows` is {self.rows}: pass `PDE(fn, rows={residual.shape[0]})` "
                "or return one entry for each equation."
            )
        return residual


def _real(part: Any) -> Array:
    said = "the residual function of `PDE` returned"
    return jnp.atleast_1d(
        as_real(said, part, "return real numbers, one for each equation")
    )
