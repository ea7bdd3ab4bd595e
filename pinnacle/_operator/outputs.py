"""Which outputs of the network a condition is about, and which axes exist."""

import operator

import jax.numpy as jnp
from jaxtyping import Array, Float


def as_outputs(outputs: int | tuple[int, ...]) -> tuple[int, ...]:
    """A tuple of distinct output indices."""
    several = outputs if isinstance(outputs, tuple | list) else (outputs,)
    chosen = tuple(operator.index(i) for i in several)
    if not chosen or min(chosen) < 0 or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"`outputs` must be distinct indices from 0 on, at least one, got "
            f"{outputs!r}."
        )
    return chosen


def take(values: Float[Array, " outputs"], outputs: tuple[int, ...]) -> Array:
    """The chosen outputs; JAX itself would clamp an index out of range."""
    if max(outputs) >= values.shape[0]:
        raise ValueError(
            f"`outputs` {outputs!r} names an output that does not exist: the network "
            f"has {values.shape[0]}."
        )
    if outputs == tuple(range(values.shape[0])):
        return values
    return jnp.stack([values[i] for i in outputs])


def check_axis(axis: int, domain) -> None:
    """Raise `ValueError` if the domain has no such coordinate."""
    if not 0 <= axis < domain.dim:
        raise ValueError(
            f"`axis` {axis} does not exist: the domain has coordinates 0 to "
            f"{domain.dim - 1}."
        )
