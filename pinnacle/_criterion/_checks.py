"""Checks of numbers given at construction."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def as_number(value) -> Array:
    """A strongly typed floating-point array, in JAX's default precision."""
    return jnp.asarray(value, jnp.result_type(float))


def require(
    value: Array, holds: Callable[[np.ndarray], object], name: str, wanted: str
) -> None:
    """Raise unless `holds(value)`; a traced value cannot be looked at and passes."""
    if isinstance(value, jax.core.Tracer):
        return
    if not np.all(holds(np.asarray(value))):
        raise ValueError(f"`{name}` must be {wanted}, got {value}.")
