"""Latin hypercube samples."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PRNGKeyArray, Scalar

from ._unit import below_one, check_size
from .base import AbstractSampler


# Columns of more rows than this are uncorrelated enough by themselves: the standard
# deviation of their correlation is 1/√(n − 1).
CHOOSE_UP_TO = 4096


class LatinHypercube(AbstractSampler):
    """Latin hypercube sampling: each of n equal slices of each axis holds one point.

    A single random design of a few dozen points often has correlated columns: at
    n = 64 one pair in nine by more than 0.2. Therefore `tries` designs are drawn and
    the one is taken whose largest correlation between two columns is least. Above
    4096 points the first design is taken.

    M. D. McKay, R. J. Beckman, W. J. Conover, Technometrics 21, 239–245 (1979).

    **Arguments:**

    - `tries`: number of designs to choose from, 1 for the plain method.

    **Raises:**

    `ValueError` if `tries` is less than 1.
    """

    tries: int = eqx.field(static=True, default=16)

    def __check_init__(self):
        if self.tries < 1:
            raise ValueError(f"`tries` must be at least 1, got {self.tries}.")

    def unit(self, n: int, dim: int, *, key: PRNGKeyArray) -> Float[Array, "n dim"]:
        check_size(n, dim)
        design_key, place_key = jax.random.split(key)
        place = jax.random.uniform(place_key, (n, dim))
        slices = self._design(n, dim, key=design_key).astype(place.dtype)
        return below_one((slices + place) / max(n, 1))

    def _design(self, n, dim, *, key) -> Int32[Array, "n dim"]:
        if self.tries == 1 or dim < 2 or not 2 < n <= CHOOSE_UP_TO:
            return design(n, dim, key=key)
        keys = jax.random.split(key, self.tries)
        designs = jax.vmap(lambda k: design(n, dim, key=k))(keys)
        return designs[jnp.argmin(jax.vmap(largest_correlation)(designs))]


def design(n: int, dim: int, *, key: PRNGKeyArray) -> Int32[Array, "n dim"]:
    """Which slice each point lies in: a random permutation for each axis."""
    bits = jax.random.bits(key, (dim, n), jnp.uint32)
    return jnp.argsort(bits, axis=1).T.astype(jnp.int32)


def largest_correlation(slices: Int32[Array, "n dim"]) -> Scalar:
    """The largest modulus of the correlation of two columns of a design."""
    n, dim = slices.shape
    # All columns are permutations of 0 … n − 1, of variance (n² − 1)/12.
    centred = slices.astype(jnp.result_type(float)) - (n - 1) / 2
    correlation = centred.T @ centred * (12 / (n * (n**2 - 1)))
    return jnp.max(jnp.abs(correlation) * (1 - jnp.eye(dim)))
