"""Residual-based adaptive distribution (RAD)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._misc import as_number, require_number
from .._types import PoolInfo
from ._pool import with_pool
from .base import AbstractConvergenceCriterion


class ResidualPower(AbstractConvergenceCriterion):
    """Score |R(z)|^k / mean(|R|^k) + c, the sampling density of RAD.

    |R(z)| is the Euclidean norm of the residual rows, the mean goes over the
    candidates whose residual is finite. The embedding has one column, the root of the
    score. Source: Wu et al. 2023, "A comprehensive study of non-adaptive and
    residual-based adaptive sampling for PINNs", equation (2).

    **Arguments:**

    - `power`: k ≥ 0; the paper uses 2.
    - `offset`: c ≥ 0, the uniform share; the paper uses 0.
    """

    power: Float[Array, ""] = eqx.field(converter=as_number, default=2.0)
    offset: Float[Array, ""] = eqx.field(converter=as_number, default=0.0)

    def __check_init__(self):
        require_number("power", self.power, lambda k: k >= 0, "a number ≥ 0")
        require_number("offset", self.offset, lambda c: c >= 0, "a number ≥ 0")

    def __call__(self, info: PoolInfo) -> Float[Array, "n q"]:
        size, of_pool = with_pool(lambda rows: row_norm(rows.residual), info)
        counts = info.pool.mask & jnp.isfinite(of_pool)
        # The largest |R| becomes 1 before the power is taken: nothing overflows, and
        # with b = (|R|/max)^(k/2) the root of the score is hypot(b/√mean(b²), √c),
        # which never squares a small number.
        largest = jnp.max(of_pool, initial=0, where=counts)
        unit = jnp.where(largest > 0, largest, 1)
        half = self.power.astype(size.dtype) / 2
        mean = jnp.mean(jnp.square((of_pool / unit) ** half), where=counts)
        density = (size / unit) ** half / jnp.sqrt(jnp.where(mean > 0, mean, 1))
        return jnp.hypot(density, jnp.sqrt(self.offset.astype(size.dtype)))[:, None]


def row_norm(rows: Float[Array, "n m"]) -> Float[Array, " n"]:
    """‖row‖ without overflow or underflow of the squares."""
    largest = jnp.max(jnp.abs(rows), axis=1)
    scale = jnp.where(largest > 0, largest, 1)
    return largest * jnp.sqrt(jnp.sum(jnp.square(rows / scale[:, None]), axis=1))
