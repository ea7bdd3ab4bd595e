"""What the samplers share: sizes, and integers turned into numbers below 1."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt32


def check_size(n: int, dim: int, most: int | None = None) -> None:
    """Raise `ValueError` unless there is a sample of `n` points in `dim` dimensions."""
    if n < 0:
        raise ValueError(f"`n` must be at least 0, got {n}.")
    if dim < 0:
        raise ValueError(f"`dim` must be at least 0, got {dim}.")
    if most is not None and dim > most:
        raise ValueError(
            f"`dim`={dim} is more than the {most} dimensions of this sequence. Use "
            "`Uniform` or `LatinHypercube`, which have no limit."
        )


def below_one(u: Float[Array, "..."]) -> Float[Array, "..."]:
    """Replace what was rounded up to 1 by the largest number below 1."""
    dtype = u.dtype
    return jnp.minimum(u, jnp.asarray(np.nextafter(1, 0, dtype=dtype), dtype))


def fraction(numerator: UInt32[Array, "..."], denominator: int) -> Float[Array, "..."]:
    """numerator / denominator in [0,1), in JAX's default floating dtype."""
    dtype = jnp.result_type(float)
    return below_one(numerator.astype(dtype) / jnp.asarray(denominator, dtype))


def wrap(u: Float[Array, "..."]) -> Float[Array, "..."]:
    """Take numbers of [0,2) modulo 1."""
    return jnp.where(u >= 1, u - 1, u)


def columns(parts: list[Float[Array, " n"]], n: int) -> Float[Array, "n dim"]:
    """Put coordinates side by side; none of them gives an array of shape (n, 0)."""
    if not parts:
        return jnp.zeros((n, 0), jnp.result_type(float))
    return jnp.stack(parts, axis=1)
