"""Small helpers that belong to no concept."""

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.interpreters.partial_eval import dce_jaxpr
from jaxtyping import Array, PyTree


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


def as_number(value: Any) -> Array:
    """A strongly typed floating-point array, in JAX's default precision."""
    return jnp.asarray(value, jnp.result_type(float))


def as_number_or_none(value: Any) -> Array | None:
    """A strongly typed floating-point array, or None as it is."""
    return None if value is None else as_number(value)


def require_number(
    name: str, value: Any, holds: Callable[[np.ndarray], Any], wanted: str
) -> None:
    """Raise `ValueError` unless `holds(value)` everywhere.

    What cannot be looked at passes: a traced value, None, and what stands for the array
    in a transformed module.
    """
    if isinstance(value, Tracer) or not eqx.is_array(value):
        return
    if not np.all(holds(np.asarray(value))):
        raise ValueError(f"`{name}` must be {wanted}, got {value}.")


def require_integer(name: str, value: Any, least: int, advice: str) -> int:
    """The value as an `int`; raises `ValueError` for one below `least`, for a boolean,
    and for what is no whole number."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool | np.bool) or number < least:
        raise ValueError(
            f"`{name}` is {value!r}: {advice}. It must be a whole number, at least "
            f"{least}."
        )
    return number


def require_instance(what: str, value: Any, kind: type, advice: str) -> None:
    """Raise `ValueError` for what is no instance of `kind`."""
    if not isinstance(value, kind):
        is_class = isinstance(value, type)
        found = f"the class {value.__name__} itself" if is_class else repr(value)
        raise ValueError(
            f"{what} is {found}: {advice}. It must be an instance of `{kind.__name__}`."
        )


@contextlib.contextmanager
def said_by(whom: str) -> Iterator[None]:
    """Note on any exception that passes whose code it comes from, and how that is
    called."""
    try:
        yield
    except Exception as error:
        error.add_note(f"This was raised by {whom}.")
        raise


def require_part(name: str, value: Any, kind: type, example: str) -> None:
    """Raise `ValueError` for an argument that is no instance of `kind`."""
    require_instance(f"`{name}`", value, kind, f"give one such as `{example}`")


def as_real(said: str, value: Any, advice: str) -> Array:
    """An array; raises `ValueError`, which begins with `said`, for what holds no real
    numbers."""
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError):
        array = None
    if array is None or not jnp.isrealobj(array):
        found = type(value).__name__ if array is None else str(array.dtype)
        raise ValueError(f"{said} {found}: {advice}.")
    return array


def require_key(key: Any) -> None:
    """Raise `ValueError` for what is no key of `jax.random`."""
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", ())
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not ((typed and shape == ()) or (dtype == np.uint32 and len(shape) == 1)):
        raise ValueError(f"`key` is {key!r}: give one, such as `jax.random.key(0)`.")
