"""Criteria made of other criteria."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._misc import as_number, require_instance, require_number
from .._types import PoolInfo
from ._pool import with_pool
from .base import AbstractConvergenceCriterion, require_criterion
from .residual import row_norm


class Pointwise(AbstractConvergenceCriterion):
    """Only how much each point is worth by itself: one column, ‖φ(z)‖.

    **Arguments:**

    - `criterion`: the criterion that gives φ.
    """

    criterion: AbstractConvergenceCriterion

    def __check_init__(self):
        require_criterion("criterion", self.criterion)

    def __call__(self, info: PoolInfo) -> Float[Array, "n q"]:
        return row_norm(self.criterion(info))[:, None]


class Tempered(AbstractConvergenceCriterion):
    """Flattens (T > 1) or sharpens (T < 1) the scores, and keeps the directions.

    The score becomes M (‖φ(z)‖²/M)^(1/T) with M the largest score of the pool, so the
    largest stays what it is and none overflows; φ(z) is only made longer or shorter.

    **Arguments:**

    - `criterion`: the criterion that gives φ.
    - `temperature`: T > 0.
    """

    criterion: AbstractConvergenceCriterion
    temperature: Float[Array, ""] = eqx.field(converter=as_number)

    def __check_init__(self):
        require_criterion("criterion", self.criterion)
        require_number("temperature", self.temperature, lambda t: t > 0, "a number > 0")

    def __call__(self, info: PoolInfo) -> Float[Array, "n q"]:
        embedding, of_pool = with_pool(self.criterion, info)
        norm, of_pool = row_norm(embedding), row_norm(of_pool)
        counts = info.pool.mask & jnp.isfinite(of_pool)
        largest = jnp.max(of_pool, initial=0, where=counts)
        relative = norm / jnp.where(largest > 0, largest, 1)
        # ‖φ'‖ = √M (‖φ‖/√M)^(1/T)
        length = largest * relative ** (1 / self.temperature.astype(norm.dtype))
        direction = embedding / jnp.where(norm > 0, norm, 1)[:, None]
        return direction * length[:, None]


def _as_tuple(criteria: Any) -> tuple:
    require_instance(
        "`criteria`", criteria, Iterable, "give one criterion a kind in a list"
    )
    return tuple(criteria)


class ByKind(AbstractConvergenceCriterion):
    """One criterion for each kind, for instance RAD for the PDE and uniform elsewhere.

    Each criterion sees the candidates of its own kind only (the others are masked), so
    a mean over the pool is a mean over the kind. Each kind has its own columns: points
    of different kinds are orthogonal, and a set is worth the sum over its kinds.

    **Arguments:**

    - `criteria`: the criterion of each kind, in component order.
    """

    criteria: tuple[AbstractConvergenceCriterion, ...] = eqx.field(converter=_as_tuple)

    def __check_init__(self):
        if not self.criteria:
            raise ValueError(
                "`criteria` must name one criterion a kind, got none. Use `Constant()` "
                "for kinds that are to be chosen uniformly."
            )
        for number, criterion in enumerate(self.criteria):
            require_criterion(f"criteria[{number}]", criterion)

    def __call__(self, info: PoolInfo) -> Float[Array, "n q"]:
        embeddings = []
        for kind, criterion in enumerate(self.criteria):
            own = _only(info, kind)
            embeddings.append(jnp.where(own.mask[:, None], criterion(own), 0))
        return jnp.concatenate(embeddings, axis=1)


def _only(info: PoolInfo, kind: int) -> PoolInfo:
    """The same rows and the same pool with every other kind masked."""
    pool = None if info.population is None else _only(info.population, kind)
    mask = info.mask & (info.kind == kind)
    return dataclasses.replace(info, mask=mask, population=pool)
