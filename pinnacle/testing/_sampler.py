"""The laws of samplers."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from .._sampler import AbstractSampler


SIZES = ((0, 2), (1, 1), (7, 2), (64, 2), (20, 3), (5, 0))


def check_sampler(
    sampler: AbstractSampler,
    *,
    sizes: Sequence[tuple[int, int]] = SIZES,
    seed: int = 0,
) -> None:
    """Put a sampler through the laws that all of them keep.

    It gives exactly n points of [0, 1)^dim, in JAX's default floating dtype; the same
    key gives the same points.

    **Arguments:**

    - `sampler`: what is checked.
    - `sizes`: pairs (n, dim) that are drawn.
    - `seed`: of the keys.

    **Raises:** `AssertionError`, saying which law does not hold.
    """
    key = jax.random.key(seed)
    draw = jax.jit(lambda key: [sampler.unit(n, dim, key=key) for n, dim in sizes])
    for (n, dim), unit, again in zip(sizes, draw(key), draw(key), strict=True):
        assert unit.shape == (n, dim), (
            f"asked for {n} points of {dim} coordinates, it gave shape {unit.shape}"
        )
        assert unit.dtype == jnp.result_type(float), f"the dtype is {unit.dtype}"
        inside = np.asarray((unit >= 0) & (unit < 1))
        assert inside.all(), (
            f"{np.sum(~inside)} of the coordinates of {n} points lie outside of [0, 1)"
        )
        assert np.array_equal(unit, again), "the same key gives other points"
