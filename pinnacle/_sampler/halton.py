"""Scrambled Halton points."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PRNGKeyArray

from ._unit import check_size, columns, fraction
from .base import AbstractSampler


PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)


class Halton(AbstractSampler):
    """The Halton sequence, scrambled afresh for each key; up to 20 dimensions.

    Coordinate j of point i is the radical inverse of i in the j-th prime base, with a
    random permutation of the digits at each place.

    A. B. Owen, "A randomized Halton algorithm in R", arXiv:1706.02808 (2017).
    """

    def unit(self, n: int, dim: int, *, key: PRNGKeyArray) -> Float[Array, "n dim"]:
        check_size(n, dim, len(PRIMES))
        parts = []
        for j, base in enumerate(PRIMES[:dim]):
            permutations = digit_permutations(base, key=jax.random.fold_in(key, j))
            parts.append(radical_inverse(n, base, permutations))
        return columns(parts, n)


def places(base: int) -> int:
    """How many digits of base `base` fit into 32 bits."""
    return next(k for k in range(32, 0, -1) if base**k <= 2**32)


def digit_permutations(base: int, *, key: PRNGKeyArray) -> Int32[Array, "places base"]:
    """A random permutation of 0 … base − 1 for each place behind the point."""
    draws = jax.random.uniform(key, (places(base), base))
    return jnp.argsort(draws, axis=1).astype(jnp.int32)


def radical_inverse(
    n: int, base: int, permutations: Int32[Array, "places base"]
) -> Float[Array, " n"]:
    """Σ_k π_k(d_k(i)) base^{−k−1} for i = 0 … n − 1, with d_k(i) digit k of i."""
    depth = places(base)
    used = next(k for k in range(depth + 1) if base**k >= n or k == depth)
    weights = [base ** (depth - 1 - k) for k in range(depth)]
    digits = permutations.astype(jnp.uint32)
    digits = digits * jnp.asarray(weights, jnp.uint32)[:, None]
    index = jnp.arange(n, dtype=jnp.uint32)
    # From place `used` on, the digits of all indices are 0.
    rest = jnp.sum(digits[used:, 0], dtype=jnp.uint32)
    numerator = jnp.broadcast_to(rest, (n,))
    for k in range(used):
        digit = index // jnp.uint32(base**k) % jnp.uint32(base)
        numerator = numerator + digits[k][digit]
    return fraction(numerator, base**depth)
