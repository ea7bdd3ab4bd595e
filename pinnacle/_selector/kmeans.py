"""K-means++ seeding on the embedding: PINNACLE-K."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray

from .._types import Candidates, Selection
from ._budget import count_by, eligible, group_of_kind, largest_entry, log_scores
from .base import AbstractSelector


class KMeansPlusPlus(AbstractSelector):
    """Draws each next centre ∝ D²(z), the squared distance to the nearest centre.

    All kinds and groups share the centres; each group stops at its own quota, and
    when a group has no more places than outstanding minima, only kinds with an
    outstanding minimum may be drawn from it. Where D² is 0 for all that may be drawn,
    the draw is uniform. Source: Arthur & Vassilvitskii 2007.

    **Arguments:**

    - `first`: how it begins. `"largest"`: the candidate of largest ‖φ(z)‖ is the first
      centre (equal ones are drawn uniformly). `"uniform"`: any candidate.
      `"retained"`: the retained points are centres from the start and D² sampling
      follows at once; without any it is as `"largest"`.

    Time is proportional to the number chosen, not to `size`: one pass over the
    embedding for each.
    """

    first: str = eqx.field(static=True, default="largest")

    def __check_init__(self):
        if self.first not in ("largest", "retained", "uniform"):
            raise ValueError(
                "`first` must be 'largest', 'retained' or 'uniform', got "
                f"{self.first!r}."
            )

    def __call__(
        self, candidates: Candidates, size: int, *, key: PRNGKeyArray
    ) -> Selection:
        progress, steps = _Progress.start(candidates, size)
        group = group_of_kind(candidates)
        scale = _inverse_scale(candidates.embedding, progress.may)
        start, distance = self._start(candidates, progress.may, scale)

        def step(i, carry):
            progress, distance = carry
            allowed = progress.allowed(candidates, group)
            weight = jnp.where(i == 0, start, distance)
            z = _draw(weight, allowed, jax.random.fold_in(key, i))
            centre = candidates.embedding[z]
            to_centre = _squared_distance(candidates.embedding, centre, scale)
            distance = jnp.minimum(distance, to_centre)
            return progress.choose(candidates, z, i), distance

        progress, _ = jax.lax.fori_loop(0, steps, step, (progress, distance))
        mask = jnp.arange(size, dtype=jnp.int32) < steps
        weight = jnp.ones(size, candidates.embedding.dtype)
        return Selection(progress.index, mask, weight)

    def _start(
        self,
        candidates: Candidates,
        may: Bool[Array, " n"],
        scale: Float[Array, ""],
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Weights of the first draw, and D² before it (∞ where there is no centre)."""
        nowhere = jnp.full(may.shape, jnp.inf, candidates.embedding.dtype)
        if self.first == "uniform":
            return jnp.ones_like(nowhere), nowhere
        score = log_scores(candidates.embedding)
        largest = jnp.max(score, initial=-jnp.inf, where=may)
        fresh = (score == largest).astype(nowhere.dtype)
        if self.first == "largest":
            return fresh, nowhere
        distance = _to_nearest_retained(candidates, scale)
        return jnp.where(jnp.isfinite(distance), distance, fresh), distance


class _Progress(eqx.Module):
    """What has been chosen so far, and what the budgets still want."""

    index: Int32[Array, " k"]
    may: Bool[Array, " n"]
    left: Int32[Array, " groups"]
    outstanding: Int32[Array, " kinds"]

    @staticmethod
    def start(candidates: Candidates, size: int) -> tuple["_Progress", Array]:
        """Before the first choice, and how many choices there will be."""
        may = eligible(candidates)
        groups, kinds = candidates.quota.shape[0], candidates.minimum.shape[0]
        supply = count_by(candidates.group, may, groups)
        left = jnp.clip(candidates.quota, 0, supply)
        supply = count_by(candidates.kind, may, kinds)
        outstanding = jnp.clip(candidates.minimum, 0, supply)
        steps = jnp.minimum(jnp.sum(left, dtype=jnp.int32), size)
        index = jnp.zeros(size, jnp.int32)
        return _Progress(index, may, left, outstanding), steps

    def allowed(
        self, candidates: Candidates, group: Int32[Array, " kinds"]
    ) -> Bool[Array, " n"]:
        """Who may be drawn next; never empty while a group has places left."""
        groups = self.left.shape[0]
        owed = jnp.zeros(groups, jnp.int32).at[group].add(self.outstanding)
        tight = self.left <= owed
        kinds = (self.left > 0)[group] & (~tight[group] | (self.outstanding > 0))
        return self.may & kinds[candidates.kind]

    def choose(self, candidates: Candidates, z: Int32[Array, ""], step) -> "_Progress":
        """After candidate `z` has been chosen."""
        kind, group = candidates.kind[z], candidates.group[z]
        outstanding = jnp.maximum(self.outstanding.at[kind].add(-1), 0)
        return _Progress(
            self.index.at[step].set(z),
            self.may.at[z].set(False),
            self.left.at[group].add(-1),
            outstanding,
        )


def _inverse_scale(
    embedding: Float[Array, "n q"], may: Bool[Array, " n"]
) -> Float[Array, ""]:
    """1 for embeddings of ordinary size, else the power of two that makes them so.

    Multiplying by it is exact; no square overflows and few underflow.
    """
    largest = jnp.max(largest_entry(embedding), initial=0, where=may)
    _, exponent = jnp.frexp(largest)
    ordinary = (exponent > -20) & (exponent < 40)
    return jnp.ldexp(
        jnp.ones_like(largest), jnp.where(ordinary, 0, -jnp.clip(exponent, -120, 120))
    )


def _squared_distance(
    embedding: Float[Array, "n q"], centre: Float[Array, " q"], scale: Float[Array, ""]
) -> Float[Array, " n"]:
    """‖scale·(x − c)‖² for each row x.

    By direct differences: a duplicate of a centre is at distance exactly 0, which
    ‖x‖² + ‖c‖² − 2x·c is not; a tight cluster far from the origin keeps its digits.
    The multiplication costs half as much again, hence only where it is needed.
    """
    return jax.lax.cond(
        scale == 1,
        lambda: jnp.sum(jnp.square(embedding - centre[None]), axis=1),
        lambda: jnp.sum(jnp.square((embedding - centre[None]) * scale), axis=1),
    )


def _to_nearest_retained(
    candidates: Candidates, scale: Float[Array, ""]
) -> Float[Array, " n"]:
    """D² to the retained points; ∞ without any.

    The nearest is found with one matrix product for some thousand candidates at a
    time, its distance by direct difference.
    """
    embedding, retained = candidates.embedding, candidates.retained_embedding * scale
    mask = candidates.retained_mask & jnp.isfinite(largest_entry(retained))
    retained = jnp.where(mask[:, None], retained, 0)
    square = jnp.where(mask, jnp.sum(jnp.square(retained), axis=1), jnp.inf)
    n = embedding.shape[0]
    size = min(n, 4096)

    def chunk(i, distance):
        start = jnp.minimum(i * size, n - size)
        rows = jax.lax.dynamic_slice_in_dim(embedding, start, size) * scale
        # argmin ‖x − c‖² = argmin ‖c‖² − 2x·c
        nearest = jnp.argmin(square[None] - 2 * (rows @ retained.T), axis=1)
        gap = jnp.sum(jnp.square(rows - retained[nearest]), axis=1)
        return jax.lax.dynamic_update_slice_in_dim(distance, gap, start, axis=0)

    nowhere = jnp.full(n, jnp.inf, embedding.dtype)
    steps = jnp.where(jnp.any(mask), -(-n // size), 0)
    return jax.lax.fori_loop(0, steps, chunk, nowhere)


def _draw(
    weight: Float[Array, " n"], allowed: Bool[Array, " n"], key: PRNGKeyArray
) -> Int32[Array, ""]:
    """One allowed index ∝ weight, uniform where all allowed weights are 0.

    First a block of about √n candidates, then one in it: two short running sums
    instead of a long one, and the resolution of two uniform numbers.
    """
    weight = jnp.where(allowed, weight, 0)
    weight = jnp.where(jnp.any(weight > 0), weight, allowed.astype(weight.dtype))
    width = max(1, math.isqrt(weight.size))
    blocks = jnp.pad(weight, (0, -weight.size % width)).reshape(-1, width)
    uniform = jax.random.uniform(key, (2,), weight.dtype)
    block = _invert(jnp.sum(blocks, axis=1), uniform[0])
    return block * width + _invert(blocks[block], uniform[1])


def _invert(weight: Float[Array, " n"], uniform: Float[Array, ""]) -> Int32[Array, ""]:
    """The index at which the running sum passes `uniform` × the total."""
    total = jnp.cumsum(weight)
    passed = (total > uniform * total[-1]) & (weight > 0)
    # The first that has passed; rounding of the sums may leave none: then the largest.
    return jnp.argmax(jnp.where(passed, jnp.inf, weight)).astype(jnp.int32)
