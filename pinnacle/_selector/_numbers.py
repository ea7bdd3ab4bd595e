"""Numbers given at construction."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array


def as_number_or_none(value) -> Array | None:
    """A strongly typed floating-point array, or None as it is."""
    return None if value is None else jnp.asarray(value, jnp.result_type(float))


def require(value: Array | None, holds: Callable, name: str, wanted: str) -> None:
    """Raise unless `holds(value)`; a traced value cannot be looked at and passes."""
    if value is None or isinstance(value, Tracer):
        return
    if not holds(np.asarray(value)):
        raise ValueError(f"`{name}` must be {wanted}, got {value}.")
