"""The grid of a problem in one space dimension and time, and functions on it."""

import contextlib
import math
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def space_time(
    lower: float, length: float, duration: float, cells: int, intervals: int
) -> tuple[np.ndarray, np.ndarray]:
    """Evenly spaced x in [lower, lower + length] and t in [0, duration], ends included.

    Raises `ValueError` for sizes that are not positive.
    """
    check_positive(length=length, duration=duration, cells=cells, intervals=intervals)
    x = lower + length * np.arange(cells + 1) / cells
    return x, duration * np.arange(intervals + 1) / intervals


def check_positive(**sizes: int | float) -> None:
    for name, value in sizes.items():
        if not 0 < value < math.inf:
            raise ValueError(f"`{name}` must be positive and finite, got {value}.")


def evaluate(initial: Callable[[Array], Array], x: np.ndarray) -> np.ndarray:
    """Values of an elementwise function in float64, whatever the caller's precision."""
    with jax.enable_x64(True):
        values = np.asarray(initial(jnp.asarray(x)), np.float64)
    if values.shape != x.shape:
        raise ValueError(
            f"`initial` must act elementwise: it returned shape {values.shape} for "
            f"positions of shape {x.shape}."
        )
    return values


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """JAX in float64 on the CPU, if it sees one, so that the numbers depend neither on
    the caller's precision nor on an accelerator."""
    try:
        device = jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        device = None
    with jax.enable_x64(True), jax.default_device(device):
        yield
