"""Small helpers that belong to no concept."""

from collections.abc import Callable

import equinox as eqx
import jax
from jax.interpreters.partial_eval import dce_jaxpr
from jaxtyping import PyTree


def depends_on(fn: Callable, argument: PyTree, where: Callable) -> bool:
    """Whether any array of `fn(argument)` depends on the part `where(argument)`.

    Decided at trace time from the jaxpr, by dead-code elimination.
    """
    marked = eqx.tree_at(
        where, jax.tree.map(lambda _: False, argument), replace_fn=lambda _: True
    )
    arrays, static = eqx.partition(argument, eqx.is_array)
    jaxpr = jax.make_jaxpr(
        lambda a: eqx.filter(fn(eqx.combine(a, static)), eqx.is_array)
    )(arrays)
    _, used = dce_jaxpr(jaxpr.jaxpr, [True] * len(jaxpr.jaxpr.outvars))
    marks = jax.tree.leaves(eqx.filter(marked, jax.tree.map(eqx.is_array, argument)))
    return any(u and m for u, m in zip(used, marks, strict=True))
