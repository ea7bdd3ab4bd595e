"""Later times only where earlier ones are solved."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._misc import as_number, require_number
from .._types import PoolInfo
from ._pool import by_kind
from .base import AbstractConvergenceCriterion, require_criterion
from .residual import row_norm


# Scores stay above e⁻⁶⁰ of what they were, which float32 and its squares can hold.
_SMALLEST = 60.0


class Causal(AbstractConvergenceCriterion):
    """Score s(z) exp(−ε L(z)): what lies after an unsolved time counts for little.

    s(z) = ‖φ(z)‖² is the score of another criterion, and

        L(z) = (1/n_r) Σ_{z' of z's kind r, t(z') < t(z)} ‖R(z')‖²

    the residual left at the times before z's, n_r being the number of candidates of
    the kind. The smaller the residual, the later the times that are reached: the
    points follow the front of the solution through the domain. In the end, ε L ≪ 1 and
    the scores are those of `criterion`. φ(z) is only made shorter.

    An evolution equation alone has many solutions, u = 0 often among them, and a
    network that satisfies it everywhere but near the start stays there. The weights
    are those that Wang, Sankaran and Perdikaris 2024, "Respecting causality for
    training physics-informed neural networks", give to the terms of the loss; here
    they decide where the points are.

    **Arguments:**

    - `criterion`: the criterion that gives φ.
    - `axis`: which coordinate is the time; it runs forwards. The last by default.
    - `strength`: ε ≥ 0. Where ε L would pass 60 in a kind, ε is made so much smaller
      in it that no score underflows.
    """

    criterion: AbstractConvergenceCriterion
    axis: int = eqx.field(static=True, default=-1)
    strength: Float[Array, ""] = eqx.field(converter=as_number, default=100.0)

    def __check_init__(self):
        require_criterion("criterion", self.criterion)
        require_number("strength", self.strength, lambda e: e >= 0, "a number ≥ 0")

    def __call__(self, info: PoolInfo) -> Float[Array, "n q"]:
        dimension = info.x.shape[1]
        if not -dimension <= self.axis < dimension:
            raise ValueError(
                f"`axis` is {self.axis}: the points have {dimension} coordinates, give "
                f"one of 0 to {dimension - 1}, or -1 for the last."
            )
        strength = self.strength.astype(info.residual.dtype)
        exponent, of_pool = (strength * L for L in _residual_before(info, self.axis))
        largest = by_kind(jax.ops.segment_max, of_pool, info)[info.kind]
        exponent = exponent * jnp.where(largest > _SMALLEST, _SMALLEST / largest, 1)
        return self.criterion(info) * jnp.exp(-0.5 * exponent)[:, None]


def _residual_before(
    info: PoolInfo, axis: int
) -> tuple[Float[Array, " n"], Float[Array, " pool"]]:
    """L of each row and of each candidate. Rows beside the pool add nothing."""
    beside = [] if info.population is None else [info]
    parts = [info.pool, *beside]
    kind = jnp.concatenate([part.kind for part in parts])
    time = jnp.concatenate([part.x[:, axis] for part in parts])
    size = row_norm(jnp.concatenate([part.residual for part in parts]))
    n = kind.shape[0]
    counted = [info.pool.mask, *(jnp.zeros_like(part.mask) for part in beside)]
    counts = jnp.concatenate(counted) & jnp.isfinite(size)
    number = jax.ops.segment_sum(counts.astype(size.dtype), kind, n)[kind]
    largest = float(jnp.finfo(size.dtype).max) ** 0.25  # sums of squares stay finite
    size = jnp.where(counts, jnp.minimum(size, largest), 0)
    share = jnp.square(size) / jnp.maximum(number, 1)

    order = jnp.lexsort((time, kind))  # by time within each kind
    kind, time, share = kind[order], time[order], share[order]
    begins = jnp.roll(kind, 1) != kind
    begins = begins.at[0].set(True)
    before = _sums(begins, jnp.where(begins, 0, jnp.roll(share, 1)))
    # Of candidates at the same time none is before another.
    later = begins | (jnp.roll(time, 1) != time)
    earliest = jax.lax.cummax(jnp.where(later, jnp.arange(n), 0))
    left = jnp.zeros_like(before).at[order].set(before[earliest])
    return left[n - info.kind.shape[0] :], left[: info.pool.kind.shape[0]]


def _sums(begins: Bool[Array, " n"], values: Float[Array, " n"]) -> Float[Array, " n"]:
    """Cumulative sums that start anew wherever `begins` holds."""

    def add(left, right):
        (begun, total), (begins, value) = left, right
        return begun | begins, jnp.where(begins, value, total + value)

    return jax.lax.associative_scan(add, (begins, values))[1]
