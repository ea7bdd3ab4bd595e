"""Scrambled Sobol points."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from ._unit import check_size, fraction
from .base import AbstractSampler


BITS = 32

# Coordinates 2, 3, …: the coefficients a_1 … a_{s−1} of a primitive polynomial of
# degree s over GF(2), as the bits of a number, and the initial odd numbers m_1 … m_s.
# S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional
# projections", SIAM J. Sci. Comput. 30, 2635–2654 (2008), table new-joe-kuo-6.
DIRECTIONS = (
    (0, (1,)),
    (1, (1, 3)),
    (1, (1, 3, 1)),
    (2, (1, 1, 1)),
    (1, (1, 1, 3, 3)),
    (4, (1, 3, 5, 13)),
    (2, (1, 1, 5, 5, 17)),
    (4, (1, 1, 5, 5, 5)),
    (7, (1, 1, 7, 11, 19)),
    (11, (1, 1, 5, 1, 1)),
    (13, (1, 1, 1, 3, 11)),
    (14, (1, 3, 5, 5, 31)),
    (1, (1, 3, 3, 9, 7, 49)),
    (13, (1, 1, 1, 15, 21, 21)),
    (16, (1, 3, 1, 13, 27, 49)),
    (19, (1, 1, 1, 15, 7, 5)),
    (22, (1, 3, 1, 15, 13, 25)),
    (25, (1, 1, 5, 5, 19, 61)),
    (1, (1, 3, 7, 11, 23, 15, 103)),
)
MOST = 1 + len(DIRECTIONS)


class Sobol(AbstractSampler):
    """The Sobol sequence, scrambled afresh for each key; up to 20 dimensions.

    In each coordinate the binary digits are multiplied by a random lower triangular
    matrix with unit diagonal and then shifted by random digits. Every point becomes
    uniform on the cube, and any first 2^m points stay a net of the same quality.

    J. Matoušek, "On the L2-discrepancy for anchored boxes", J. Complexity 14, 527–556
    (1998).
    """

    def unit(self, n: int, dim: int, *, key: PRNGKeyArray) -> Float[Array, "n dim"]:
        check_size(n, dim, MOST)
        matrix_key, shift_key = jax.random.split(key)
        shift = jax.random.bits(shift_key, (dim,), jnp.uint32)
        vectors = scramble(jnp.asarray(direction_numbers(dim)), key=matrix_key)
        bits = sobol_bits(n, vectors) ^ shift[None, :]
        # All the digits that the default dtype can hold, so that nothing is rounded.
        kept = min(BITS, jnp.finfo(jnp.result_type(float)).nmant + 1)
        return fraction(bits >> (BITS - kept), 2**kept)


@cache
def direction_numbers(dim: int) -> np.ndarray:
    """Direction numbers v_1 … v_32 of each coordinate as binary fractions of 32 bits.

    v_k = m_k / 2^k, with m_k = 2a_1 m_{k−1} ⊕ … ⊕ 2^{s−1} a_{s−1} m_{k−s+1}
    ⊕ 2^s m_{k−s} ⊕ m_{k−s} for k > s; the first coordinate has m_k = 1.
    """
    rows = [[1] * BITS]
    for a, start in DIRECTIONS[: max(dim - 1, 0)]:
        s, m = len(start), list(start)
        for k in range(s, BITS):
            new = m[k - s] ^ (m[k - s] << s)
            for i in range(1, s):
                new ^= (a >> (s - 1 - i) & 1) * (m[k - i] << i)
            m.append(new)
        rows.append(m)
    v = [[m << (BITS - 1 - k) for k, m in enumerate(row)] for row in rows[:dim]]
    return np.array(v, np.uint32).reshape(dim, BITS)


def sobol_bits(n: int, vectors: UInt32[Array, "dim 32"]) -> UInt32[Array, "n dim"]:
    """The first `n` points as binary fractions of 32 bits, in Gray code order.

    Point i is the exclusive or of the v_k for which digit k of i ⊕ ⌊i/2⌋ is 1.
    """
    index = jnp.arange(n, dtype=jnp.uint32)
    gray = index ^ (index >> 1)
    points = jnp.zeros((n, vectors.shape[0]), jnp.uint32)
    for k in range(max(n - 1, 0).bit_length()):
        digit = (gray >> k) & 1
        points = points ^ digit[:, None] * vectors[None, :, k]
    return points


def scramble(
    vectors: UInt32[Array, "dim 32"], *, key: PRNGKeyArray
) -> UInt32[Array, "dim 32"]:
    """Multiply the digits by a random lower triangular matrix for each coordinate.

    Digit i of the result is Σ_{j ≤ i} L_ij · (digit j) mod 2, with L_ii = 1.
    """
    diagonal = np.uint32(1) << np.arange(BITS - 1, -1, -1, dtype=np.uint32)
    above = ~(2 * diagonal.astype(np.uint64) - 1).astype(np.uint32)
    bits = jax.random.bits(key, (vectors.shape[0], BITS), jnp.uint32)
    rows = bits & jnp.asarray(above)[None, :] | jnp.asarray(diagonal)[None, :]
    products = vectors[:, :, None] & rows[:, None, :]
    digits = jax.lax.population_count(products) & 1
    weighted = digits * jnp.asarray(diagonal)[None, None, :]
    return jnp.sum(weighted, axis=2, dtype=jnp.uint32)
