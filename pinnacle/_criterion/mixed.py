"""Scores mixed with uniform ones, every kind alike."""

import equinox as eqx
import jax.numpy as jnp
from jax.ops import segment_max, segment_sum
from jaxtyping import Array, Float

from .._misc import as_number, require_number
from .._types import PoolInfo
from ._pool import by_kind, with_pool
from .base import AbstractConvergenceCriterion, require_criterion
from .residual import row_norm


class MixedWithUniform(AbstractConvergenceCriterion):
    """Score (1 − u) s(z)/Σ_r s + u/n_r, with s(z) = ‖φ(z)‖² of another criterion.

    Σ_r and n_r are the sum of s and the number over the candidates of z's own kind r.
    So every kind has the total score 1, and no candidate of it has less than u times
    its even share: importance weights of points drawn ∝ score stay below 1/u times
    those of an even draw. A kind whose s are all 0 is uniform. One column.

    **Arguments:**

    - `criterion`: the criterion that gives φ.
    - `uniform`: u, from 0 to 1.
    """

    criterion: AbstractConvergenceCriterion
    uniform: Float[Array, ""] = eqx.field(converter=as_number, default=0.2)

    def __check_init__(self):
        require_criterion("criterion", self.criterion)
        require_number(
            "uniform", self.uniform, lambda u: (u >= 0) & (u <= 1), "a share in [0, 1]"
        )

    def __call__(self, info: PoolInfo) -> Float[Array, "n q"]:
        norm, of_pool = with_pool(lambda rows: row_norm(self.criterion(rows)), info)
        counted = info.pool.mask & jnp.isfinite(of_pool)

        def over(reduce, values):
            return by_kind(reduce, jnp.where(counted, values, 0), info)

        # The largest of each kind becomes 1 before it is squared: nothing overflows.
        largest = over(segment_max, of_pool)
        unit = jnp.where(largest > 0, largest, 1)
        number = over(segment_sum, jnp.ones_like(of_pool))
        total = over(segment_sum, jnp.square(of_pool / unit[info.pool.kind]))
        even, total = (1 / jnp.maximum(number, 1))[info.kind], total[info.kind]
        share = jnp.square(norm / unit[info.kind])
        own = jnp.where(total > 0, share / jnp.where(total > 0, total, 1), even)
        u = self.uniform.astype(norm.dtype)
        return jnp.sqrt((1 - u) * own + u * even)[:, None]
