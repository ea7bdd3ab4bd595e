"""What the policies share: how many rows stay, and the rank of each."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int32

from .._misc import require_integer, require_number


def as_count(name: str, least: int) -> Callable[[Any], Array]:
    """A converter to int32 arrays; it refuses what is no whole number ≥ `least`."""

    def convert(value):
        if not isinstance(value, Tracer):
            value = require_integer(name, value, least, "give a number of points")
        return jnp.asarray(value, jnp.int32)

    return convert


def as_new_or_none(value) -> Array | None:
    """The number `new` as an int32 array, or None as it is."""
    return None if value is None else as_count("new", 0)(value)


def number_kept(
    mask: Bool[Array, " b"],
    fraction: Float[Array, ""] | None,
    new: Int32[Array, ""] | None,
) -> Int32[Array, ""]:
    """round(fraction × live), or live − new, at least 0 (a half rounds to even)."""
    live = jnp.sum(mask, dtype=jnp.int32)
    if new is not None:
        return jnp.maximum(live - new, 0)
    assert fraction is not None
    return jnp.round(fraction * live).astype(jnp.int32)


def ranks(mask: Bool[Array, " b"], *order: Array) -> Int32[Array, " b"]:
    """Place of each live row when sorted by `order`, ascending; padding comes last."""
    place = jnp.arange(mask.size, dtype=jnp.int32)
    by_rank = jax.lax.sort((~mask, *order, place), num_keys=1 + len(order))[-1]
    return jnp.zeros(mask.size, jnp.int32).at[by_rank].set(place)


def require_fraction_or_new(fraction: Array | None, new: Array | None) -> None:
    """Exactly one is given, and it is in its range."""
    if (fraction is None) == (new is None):
        raise ValueError(
            "give exactly one of `fraction` (share of the old points that stays) and "
            f"`new` (points replaced a round), got fraction={fraction} and new={new}."
        )
    require_number(
        "fraction", fraction, lambda f: (f >= 0) & (f <= 1), "between 0 and 1"
    )


def require_new_in_budget(new: Array | None, budget: int) -> None:
    """A round cannot replace more points than there are."""
    wanted = f"at most the budget of {budget}"
    require_number("new", new, lambda n: n <= budget, wanted)
