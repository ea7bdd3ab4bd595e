"""Shifted Hammersley points."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ._unit import check_size, columns, wrap
from .base import AbstractSampler
from .halton import PRIMES, places, radical_inverse


class Hammersley(AbstractSampler):
    """The Hammersley set, shifted at random modulo 1; up to 21 dimensions.

    Point i is (i/n, φ_2(i), φ_3(i), φ_5(i), …) + s mod 1, with φ_b the radical inverse
    in base b and one s, uniform on the cube, for all points.

    J. M. Hammersley, "Monte Carlo methods for solving multivariable problems", Ann. New
    York Acad. Sci. 86, 844–874 (1960); the shift: R. Cranley and T. N. L. Patterson,
    SIAM J. Numer. Anal. 13, 904–914 (1976).
    """

    def unit(self, n: int, dim: int, *, key: PRNGKeyArray) -> Float[Array, "n dim"]:
        check_size(n, dim, 1 + len(PRIMES))
        shift = jax.random.uniform(key, (1, dim))
        return wrap(hammersley(n, dim) + shift)


def hammersley(n: int, dim: int) -> Float[Array, "n dim"]:
    """The Hammersley set of `n` points, not shifted."""
    first = jnp.arange(n) / jnp.asarray(max(n, 1), jnp.result_type(float))
    parts = [first]
    for base in PRIMES[: max(dim - 1, 0)]:
        identity = jnp.broadcast_to(jnp.arange(base), (places(base), base))
        parts.append(radical_inverse(n, base, identity.astype(jnp.int32)))
    return columns(parts[:dim], n)
