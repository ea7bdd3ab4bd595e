"""What a criterion takes over the pool, for the rows that it embeds."""

from collections.abc import Callable
from typing import TypeVar

from jaxtyping import Array, Float

from .._types import PoolInfo


T = TypeVar("T")


def with_pool(fn: Callable[[PoolInfo], T], info: PoolInfo) -> tuple[T, T]:
    """`fn` of the rows and of their pool: once, where the rows are the pool."""
    value = fn(info)
    return value, value if info.population is None else fn(info.pool)


def by_kind(
    reduce: Callable[..., Array], values: Float[Array, " n"], info: PoolInfo
) -> Float[Array, " kinds"]:
    """`jax.ops.segment_sum` or `segment_max` of a number a candidate, over each kind.

    Index it by `info.kind` or `info.pool.kind`: no kind of either has a larger index
    than there are rows in both.
    """
    rows = info.pool.kind.shape[0] + info.kind.shape[0]
    return reduce(values, info.pool.kind, rows)
