"""One round of point selection: pool → residual → NTK → embedding → retention → choice.

The point selection phase of the paper's Algorithm 1, as one pure function of the model,
the state and a key.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray, PyTree

from ._criterion.base import AbstractConvergenceCriterion
from ._misc import depends_on
from ._model import Model
from ._ntk.base import AbstractNTKEstimator
from ._ntk.jacobian import Rows
from ._results import RESULTS
from ._retention.base import AbstractRetentionPolicy, TrainingSetInfo
from ._selector.base import AbstractSelector
from ._space.augmented import AugmentedSpace, Block
from ._space.component import GROUPS
from ._space.pool import CandidatePool
from ._types import Candidates, NTKSpectrum, Points, PoolInfo, Selection


class SelectionState(eqx.Module):
    """The training set, and what the retention policy remembers.

    Rows `0:budget` of `points` hold collocation points, the rest experimental ones.
    """

    points: Points
    retention: PyTree
    round: Int32[Array, ""]


class SelectionInfo(eqx.Module):
    """What a round did; returned, not carried.

    **Attributes:**

    - `counts`: points of each kind in the new training set.
    - `new_counts`: how many of them are new.
    - `score_share`: share of Σ‖φ(z)‖² over the pool by kind (α̂ shares for NTK
      criteria).
    - `eigenvalues`: of the NTK on the pool, descending; empty if the criterion does
      not use the NTK.
    - `new`: which rows of the training set are new.
    - `result`: whether anything went wrong.
    """

    counts: Int32[Array, " kinds"]
    new_counts: Int32[Array, " kinds"]
    score_share: Float[Array, " kinds"]
    eigenvalues: Float[Array, " r"]
    new: Bool[Array, " n"]
    result: RESULTS


class SelectionPipeline(eqx.Module):
    """A selection method, as a composition of its parts.

    **Arguments:**

    - `space`: the augmented space.
    - `pool`: how candidates are drawn.
    - `estimator`: how the NTK is approximated.
    - `criterion`: what a candidate is worth.
    - `selector`: which candidates are chosen.
    - `retention`: which old points stay.
    - `budget`: number of collocation points in the training set, all kinds together.
    - `min_per_kind`: at least so many collocation points of each kind.
    - `experimental_per_round`, `experimental_capacity`: how many measurements each
      round asks for, and how many there may be in all; measured points stay for ever.

    Raises `ValueError` for a budget that is too small or a pool of other kinds.
    """

    space: AugmentedSpace
    pool: CandidatePool
    estimator: AbstractNTKEstimator
    criterion: AbstractConvergenceCriterion
    selector: AbstractSelector
    retention: AbstractRetentionPolicy
    budget: int = eqx.field(static=True)
    min_per_kind: int = eqx.field(static=True, default=1)
    experimental_per_round: int = eqx.field(static=True, default=0)
    experimental_capacity: int = eqx.field(static=True, default=0)

    def __check_init__(self):
        _check_sizes(self)

    @property
    def size(self) -> int:
        """Number of rows of the training set."""
        return self.budget + self.experimental_capacity

    def init(self, dtype=None) -> SelectionState:
        """The state before the first round: an empty training set.

        **Arguments:**

        - `dtype`: floating dtype of the coordinates, default JAX's.
        """
        dtype = jnp.result_type(float) if dtype is None else dtype
        points = Points(
            x=jnp.zeros((self.size, self.space.dim), dtype),
            kind=jnp.zeros(self.size, jnp.int32),
            mask=jnp.zeros(self.size, bool),
            label=jnp.full((self.size, self.space.rows), jnp.nan, dtype),
            weight=jnp.zeros(self.size, dtype),
        )
        return SelectionState(
            points, self.retention.init(self.budget), jnp.zeros((), jnp.int32)
        )


def select_points(
    pipeline: SelectionPipeline,
    model: Model,
    state: SelectionState,
    *,
    key: PRNGKeyArray,
    throw: bool = True,
) -> tuple[SelectionState, SelectionInfo]:
    """Choose the training set for the coming training phase.

    Pure, and usable under `jax.jit`; with the same key it gives the same bits.

    **Arguments:**

    - `pipeline`: the selection method.
    - `model`: the network at this moment, as a [`pinnacle.Model`][].
    - `state`: from `pipeline.init()` or the previous round.
    - `key`: a JAX random key.
    - `throw`: whether to raise what went wrong instead of only reporting it.

    **Returns:**

    The new state, whose `points` are the training set, and what the round did.

    **Raises:**

    A runtime error for non-finite residuals or an exhausted pool, if `throw`.
    """
    state, info = _select(pipeline, model, state, key)
    if throw:
        state, info = info.result.error_if(
            (state, info), info.result != RESULTS.successful
        )
    return state, info


@eqx.filter_jit
def _select(pipeline, model, state, key):
    pool_key, basis_key, retain_key, choose_key = jax.random.split(key, 4)
    space = pipeline.space
    blocks = pipeline.pool.draw(space, state.points.x.dtype, key=pool_key)
    basis = pipeline.estimator.basis(space, model, blocks, key=basis_key)

    info = _look(pipeline, model, blocks, basis)
    embedding = pipeline.criterion(info)
    old_embedding = _embed_training_set(pipeline, model, state.points, basis, info)

    keep, total, retention = _retain(pipeline, state, old_embedding, key=retain_key)
    candidates = _candidates(
        pipeline, info, embedding, state, old_embedding, keep, total
    )
    chosen = pipeline.selector(candidates, _slots(pipeline), key=choose_key)

    points, new = _assemble(pipeline, state.points, keep, space.join(blocks), chosen)
    new_state = SelectionState(points, retention, state.round + 1)
    return new_state, _report(
        pipeline, info, embedding, candidates, chosen, points, new
    )


def _look(pipeline, model, blocks: tuple[Block, ...], basis) -> PoolInfo:
    """Residuals, gradient norms and NTK spectrum on any blocks of points.

    What the criterion does not use is dropped by XLA.
    """
    space, estimator = pipeline.space, pipeline.estimator
    rows = Rows(space, model, coefficients=True, chunk=None)
    norms = [rows.gradient_norm(kind, block) for kind, block in enumerate(blocks)]
    joined = space.join(blocks)
    return PoolInfo(
        kind=joined.kind,
        mask=joined.mask,
        residual=space.stack(space.residual(model, blocks)),
        gradient_norm=jnp.concatenate(norms),
        spectrum=estimator.spectrum(space, model, blocks, basis),
    )


def _embed_training_set(
    pipeline, model, points: Points, basis, pool: PoolInfo
) -> Float[Array, "n q"]:
    """φ of the rows of the old training set, in their order.

    They are embedded beside the pool, but do not count as candidates.
    """
    space = pipeline.space
    capacities = [_capacity(pipeline, kind) for kind in range(len(space.components))]
    old = _look(pipeline, model, space.split(points, capacities), basis)
    embedding = pipeline.criterion(_beside(pool, old))[pool.mask.size :]
    # Row i is the (number of rows of its kind before i)-th row of its kind's block.
    starts = jnp.cumsum(jnp.asarray([0, *capacities[:-1]]))
    kinds = jnp.arange(len(capacities))
    here = points.mask[:, None] & (points.kind[:, None] == kinds[None, :])
    rank = jnp.sum(jnp.where(here, jnp.cumsum(here, axis=0) - 1, 0), axis=1)
    return jnp.where(points.mask[:, None], embedding[starts[points.kind] + rank], 0)


def _beside(pool: PoolInfo, old: PoolInfo) -> PoolInfo:
    """The pool's rows, then those of the old training set."""
    both = jax.tree.map(
        lambda a, b: jnp.concatenate([a, b]),
        (pool.kind, pool.mask, pool.residual, pool.gradient_norm),
        (old.kind, old.mask, old.residual, old.gradient_norm),
    )
    eigenfunctions = [pool.spectrum.eigenfunctions, old.spectrum.eigenfunctions]
    return PoolInfo(
        *both,
        spectrum=NTKSpectrum(
            pool.spectrum.eigenvalues, jnp.concatenate(eigenfunctions)
        ),
        population=jnp.arange(both[1].size) < pool.mask.size,
    )


def _capacity(pipeline, kind: int) -> int:
    collocation = pipeline.space.components[kind].group == "collocation"
    return pipeline.budget if collocation else pipeline.experimental_capacity


def _retain(pipeline, state, embedding, *, key):
    """Ask the policy about collocation rows; experimental rows always stay."""
    b = pipeline.budget
    old = TrainingSetInfo(
        mask=state.points.mask[:b],
        kind=state.points.kind[:b],
        score=jnp.sum(embedding[:b] ** 2, axis=1),
    )
    retained, retention = pipeline.retention.retain(old, b, state.retention, key=key)
    keep = jnp.concatenate([retained.keep & old.mask, state.points.mask[b:]])
    return keep, retained.total, retention


def _candidates(pipeline, info, embedding, state, old_embedding, keep, total):
    space, b = pipeline.space, pipeline.budget
    group = jnp.asarray(space.group_of_kind)
    kept = Points(state.points.x, state.points.kind, keep)
    in_group = group == 0
    minimum = jnp.where(in_group, pipeline.min_per_kind - space.counts(kept), 0)
    free = pipeline.experimental_capacity - jnp.sum(keep[b:])
    quota = [
        total - jnp.sum(keep[:b]),
        jnp.minimum(free, pipeline.experimental_per_round),
    ]
    return Candidates(
        embedding=embedding,
        kind=info.kind,
        group=group[info.kind],
        available=info.mask,
        quota=jnp.maximum(jnp.stack(quota), 0).astype(jnp.int32),
        minimum=jnp.maximum(minimum, 0).astype(jnp.int32),
        retained_embedding=old_embedding,
        retained_kind=state.points.kind,
        retained_mask=keep,
    )


def _slots(pipeline) -> int:
    return pipeline.budget + pipeline.experimental_per_round


def _assemble(pipeline, old: Points, keep, pool: Points, chosen: Selection):
    """Kept rows first, then the new ones; each group in its own part of the array."""
    index = jnp.where(chosen.mask, chosen.index, 0)
    added = jax.tree.map(lambda leaf: leaf[index], pool)
    group = jnp.asarray(pipeline.space.group_of_kind)
    unmeasured = group[added.kind] == GROUPS.index("experimental")
    added = eqx.tree_at(
        lambda p: (p.mask, p.label, p.weight),
        added,
        (
            chosen.mask,
            jnp.where(unmeasured[:, None], jnp.nan, added.label),
            chosen.weight.astype(added.weight.dtype),
        ),
    )
    old = eqx.tree_at(lambda p: p.mask, old, keep)
    both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), old, added)
    is_new = jnp.arange(both.size) >= old.size
    sizes = (pipeline.budget, pipeline.experimental_capacity)
    parts = [
        _first_live(both, is_new, group[both.kind] == g, size)
        for g, size in enumerate(sizes)
    ]
    points, new = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
    return points, new & points.mask


def _first_live(points: Points, is_new, in_group, size: int):
    """The live rows of one group, then padding, `size` in all."""
    live = points.mask & in_group
    index = jnp.argsort(~live, stable=True)[:size]
    points = eqx.tree_at(lambda p: p.mask, points, live)
    return jax.tree.map(lambda leaf: leaf[index], (points, is_new))


def _report(pipeline, info, embedding, candidates, chosen, points, new):
    space = pipeline.space
    score = jnp.sum(embedding**2, axis=1)
    kinds = jnp.arange(len(space.components))
    here = info.mask[None, :] & (info.kind[None, :] == kinds[:, None])
    by_kind = jnp.sum(jnp.where(here, score[None, :], 0), axis=1)
    total = jnp.sum(by_kind)
    finite = jnp.all(jnp.isfinite(info.residual))
    enough = jnp.sum(chosen.mask) >= jnp.sum(candidates.quota)
    uses_ntk = depends_on(pipeline.criterion, info, lambda i: i.spectrum.eigenvalues)
    result = RESULTS.where(
        finite,
        RESULTS.where(enough, RESULTS.successful, RESULTS.pool_exhausted),
        RESULTS.nonfinite_residual,
    )
    return SelectionInfo(
        counts=space.counts(points),
        new_counts=space.counts(Points(points.x, points.kind, new)),
        score_share=jnp.where(total > 0, by_kind / jnp.where(total > 0, total, 1), 0),
        eigenvalues=info.spectrum.eigenvalues if uses_ntk else jnp.zeros(0),
        new=new,
        result=result,
    )


def _check_sizes(pipeline: SelectionPipeline) -> None:
    space = pipeline.space
    kinds = len(space.components)
    if len(pipeline.pool.sizes) != kinds:
        raise ValueError(
            f"`pool` has sizes for {len(pipeline.pool.sizes)} kinds, the space has "
            f"{kinds}: {list(space.names)}. Give one size a kind."
        )
    collocation = int((space.group_of_kind == 0).sum())
    least = max(pipeline.min_per_kind, 1) * collocation
    if pipeline.min_per_kind < 0 or pipeline.budget < least:
        raise ValueError(
            f"`budget` is {pipeline.budget} with min_per_kind={pipeline.min_per_kind}, "
            f"but the space has {collocation} kinds of collocation points: give a "
            f"budget of at least {least} and a `min_per_kind` of at least 0."
        )
    if not 0 <= pipeline.experimental_per_round <= pipeline.experimental_capacity:
        raise ValueError(
            f"`experimental_per_round` is {pipeline.experimental_per_round} and "
            f"`experimental_capacity` {pipeline.experimental_capacity}: the capacity "
            "is the total over all rounds and must be at least one round's."
        )
    if pipeline.experimental_per_round and collocation == kinds:
        raise ValueError(
            f"`experimental_per_round` is {pipeline.experimental_per_round}, but no "
            "component has group='experimental': add one, or leave it 0."
        )
