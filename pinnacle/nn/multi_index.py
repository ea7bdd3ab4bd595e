"""Combinatorics of partial derivatives, all of it static.

A multi-index is the sorted tuple of the coordinates to differentiate by: `()` is the
value, `(0, 1, 1)` is ∂³/∂x₀∂x₁².
"""

import functools
import math
from collections import Counter


MultiIndex = tuple[int, ...]


def closure(indices: tuple[MultiIndex, ...]) -> tuple[MultiIndex, ...]:
    """All multi-indices below those given, by order, then lexicographically.

    By the chain rule ∂^α σ(z) needs ∂^β z for every β ≤ α and no other.
    """
    below: set[MultiIndex] = {()}
    waiting = list(indices)
    while waiting:
        index = waiting.pop()
        if index not in below:
            below.add(index)
            waiting += [index[:i] + index[i + 1 :] for i in range(len(index))]
    return tuple(sorted(below, key=lambda index: (len(index), index)))


@functools.cache
def partitions(index: MultiIndex) -> tuple[tuple[int, tuple[MultiIndex, ...]], ...]:
    """The terms of Faà di Bruno's formula for ∂^α σ(z), as (count, blocks).

    ∂^α σ(z) = Σ_π count(π) σ^(|π|)(z) Π_{B∈π} ∂^B z over the partitions π of the
    |α| positions of α; equal products are counted together.
    """
    if not index:
        return ((1, ()),)
    *rest, last = index
    counts: Counter[tuple[MultiIndex, ...]] = Counter()
    for count, blocks in partitions(tuple(rest)):
        counts[tuple(sorted((*blocks, (last,))))] += count
        for i, block in enumerate(blocks):
            grown = (*blocks[:i], (*block, last), *blocks[i + 1 :])
            counts[tuple(sorted(grown))] += count
    return tuple((count, blocks) for blocks, count in counts.items())


def factorial(index: MultiIndex) -> int:
    """α! = Π_i α_i!, the denominator of the Taylor coefficient."""
    return math.prod(math.factorial(m) for m in Counter(index).values())
