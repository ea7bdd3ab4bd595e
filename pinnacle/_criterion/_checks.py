"""Checks of numbers given at construction."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array


def as_number(value) -> Array:
    """A strongly typed floating-point array, in JAX's default precision."""
    return jnp.asarray(value, jnp.result_type(float))


def require(
    value: Array,
    holds: Callable[[np.ndarray], np.ndarray | np.bool],
    name: str,
    wanted: str,
) -> None:
    """Raise unless `holds(value)`; a traced value cannot be looked at and passes."""
    if isinstance(value, Tracer):
        return
    if not holds(np.asarray(value)).all():
        raise ValueError(f"`{name}` must be {wanted}, got {value}.")
