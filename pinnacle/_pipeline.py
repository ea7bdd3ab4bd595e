"""One round of point selection: pool → residual → NTK → embedding → retention → choice.

The point selection phase of the paper's Algorithm 1, as one pure function of the model,
the state and a key.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray, PyTree

from ._criterion.base import AbstractConvergenceCriterion
from ._misc import depends_on, require_integer, require_key, require_part
from ._model import Model
from ._ntk.base import AbstractNTKEstimator
from ._ntk.jacobian import Rows
from ._results import RESULTS
from ._retention.base import AbstractRetentionPolicy, TrainingSetInfo
from ._selector._budget import count_by, eligible, largest_entry
from ._selector.base import AbstractSelector
from ._space.augmented import AugmentedSpace, Block
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
    - `unusable`: candidates of each kind whose residual or, if those are all finite,
      whose embedding is not finite; they are never chosen.
    - `result`: whether anything went wrong.
    """

    counts: Int32[Array, " kinds"]
    new_counts: Int32[Array, " kinds"]
    score_share: Float[Array, " kinds"]
    eigenvalues: Float[Array, " r"]
    new: Bool[Array, " n"]
    unusable: Int32[Array, " kinds"]
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
      A round asks for fewer when the tables that are measured have no more rows.

    Raises `ValueError` for a budget that is too small, a pool of other kinds, or a pool
    with fewer candidates for measurements than a round asks for.
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
        for name, (kind, example) in _PARTS.items():
            require_part(name, getattr(self, name), kind, example)
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
    future: Model | None = None,
    throw: bool = True,
) -> tuple[SelectionState, SelectionInfo]:
    """Choose the training set for the coming training phase.

    Pure, and usable under `jax.jit`; with the same key it gives the same bits.

    A component without a target is measured: its new points carry the label NaN until
    somebody fills it in (`fit` asks an oracle). As candidates they are compared with a
    pseudo-label instead, R(z) = F[û](z) − F[û_future](z), û_future being a guess of the
    solution (the paper's appendix `appx:pseudol`).

    **Arguments:**

    - `pipeline`: the selection method.
    - `model`: the network at this moment, as a [`pinnacle.Model`][].
    - `state`: from `pipeline.init()` or the previous round.
    - `key`: a JAX random key.
    - `future`: the model whose outputs are the pseudo-labels; in the paper, `model`
      after 100 further steps on the old training set. By default `model` itself: then
      these residuals are 0, and measurements are spread at random.
    - `throw`: whether to raise what went wrong instead of only reporting it.

    **Returns:**

    The new state, whose `points` are the training set, and what the round did.

    **Raises:**

    A runtime error, if `throw`: for a residual that is not finite, for a kind none of
    whose candidates has a finite embedding, for an exhausted pool, or for a selector
    that breaks its laws. `ValueError` for a criterion or a selector that returns
    something else than it should.
    """
    if not isinstance(state, SelectionState):
        raise ValueError(
            f"`state` is {state!r}: give `pipeline.init()`, or what the previous round "
            "returned."
        )
    require_key(key)
    state, info = _select(
        pipeline, model, state, key, model if future is None else future
    )
    return _raise(pipeline, state, info) if throw else (state, info)


def _raise(pipeline, state, info):
    """Raise what went wrong, with the name of the kind where it is one kind's fault."""
    worst = jnp.argmax(info.unusable)
    for result in (RESULTS.nonfinite_residual, RESULTS.nonfinite_embedding):
        messages = [f"kind {n!r}: {RESULTS[result]}" for n in pipeline.space.names]
        state, info = eqx.branched_error_if(
            (state, info), info.result == result, worst, messages
        )
    return info.result.error_if((state, info), info.result != RESULTS.successful)


def failure(pipeline: SelectionPipeline, info: SelectionInfo) -> str:
    """What went wrong in a round, with the names of the kinds whose fault it is."""
    kinds = zip(pipeline.space.names, info.unusable.tolist(), strict=True)
    named = ", ".join(f"{n} candidate(s) of {name!r}" for name, n in kinds if n)
    said = RESULTS[info.result]
    return f"{said} Not finite: {named}." if named else said


@eqx.filter_jit
def _select(pipeline, model, state, key, future=None):
    pool_key, basis_key, retain_key, choose_key = jax.random.split(key, 4)
    space, future = pipeline.space, model if future is None else future
    space.check(model)
    asked = jax.tree.map(lambda leaf: leaf[pipeline.budget :], state.points)
    pool = pipeline.pool.draw(space, asked.x.dtype, key=pool_key, taken=asked)
    pool = _with_pseudo_labels(space, future, pool, overwrite=True)
    old = space.split(state.points, _capacities(pipeline))
    old = _with_pseudo_labels(space, future, old, overwrite=False)
    basis = pipeline.estimator.basis(space, model, pool, key=basis_key)

    info = _look(pipeline, model, pool, basis)
    embedding = _embed(pipeline.criterion, info)
    beside = _look(pipeline, model, old, basis, population=info)
    old_embedding = _embed(pipeline.criterion, beside)[_rows_of(state.points, old)]
    old_embedding = jnp.where(state.points.mask[:, None], old_embedding, 0)

    keep, total, retention = _retain(pipeline, state, old_embedding, key=retain_key)
    candidates = _candidates(
        pipeline, info, embedding, state, old_embedding, keep, total
    )
    chosen = _choose(pipeline.selector, candidates, _slots(pipeline), key=choose_key)

    points, new = _assemble(pipeline, state.points, keep, space.join(pool), chosen)
    new_state = SelectionState(points, retention, state.round + 1)
    return new_state, _report(
        pipeline, info, embedding, candidates, chosen, points, new
    )


def _embed(criterion: AbstractConvergenceCriterion, look: PoolInfo) -> Array:
    embedding, n = criterion(look), look.kind.shape[0]
    shape = getattr(embedding, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != n:
        found = repr(embedding) if shape is None else f"shape {shape}"
        raise ValueError(
            f"`criterion` {type(criterion).__name__} returned {found} for {n} "
            f"candidates: return one row a candidate, shape ({n}, q)."
        )
    if not jnp.issubdtype(embedding.dtype, jnp.floating):
        raise ValueError(
            f"`criterion` {type(criterion).__name__} returned {embedding.dtype}: "
            "return floating-point numbers."
        )
    return embedding


def _choose(selector: AbstractSelector, candidates, size: int, *, key) -> Selection:
    chosen = selector(candidates, size, key=key)
    shapes = [getattr(a, "shape", None) for a in jax.tree.leaves(chosen)]
    if not isinstance(chosen, Selection) or shapes != [(size,)] * 3:
        raise ValueError(
            f"`selector` {type(selector).__name__} returned {chosen!r}: return a "
            f"`Selection` of {size} rows (`choose_best` makes one)."
        )
    return chosen


def _is_lawful(candidates: Candidates, chosen: Selection) -> Bool[Array, ""]:
    """Whether distinct available candidates were chosen, with weights that make sense,
    and no fewer than there are where that is what the quota asks for."""
    n = candidates.kind.shape[0]
    here = (chosen.index >= 0) & (chosen.index < n)
    index = jnp.where(here, chosen.index, 0)
    fine = here & candidates.available[index]
    fine = fine & jnp.isfinite(chosen.weight) & (chosen.weight >= 0)
    times = jnp.zeros(n, jnp.int32).at[index].add(chosen.mask & here)
    groups = candidates.quota.shape[0]
    supply = count_by(candidates.group, eligible(candidates), groups)
    least = jnp.sum(jnp.minimum(candidates.quota, supply))
    whole = jnp.sum(chosen.mask) >= least
    return jnp.all(fine | ~chosen.mask) & jnp.all(times <= 1) & whole


def _look(
    pipeline, model, blocks: tuple[Block, ...], basis, population=None
) -> PoolInfo:
    """Residuals, gradient norms and NTK spectrum on the rows of one block a kind.

    What the criterion does not use is dropped by XLA.

    **Arguments:**

    - `population`: what this says about the candidates, where the rows are others that
      are to be embedded beside them.
    """
    space = pipeline.space
    rows = Rows(space, model, coefficients=True, chunk=None)
    joined = space.join(blocks)
    return PoolInfo(
        kind=joined.kind,
        mask=joined.mask,
        x=joined.x,
        residual=rows.residual(blocks),
        gradient_norm=rows.gradient_norm(blocks),
        spectrum=pipeline.estimator.spectrum(space, model, blocks, basis),
        population=population,
    )


def _with_pseudo_labels(
    space, future, blocks: tuple[Block, ...], *, overwrite: bool
) -> tuple[Block, ...]:
    """F[û_future](x) as label of kinds without a target, where there is none yet or
    everywhere."""

    def fill(component, block):
        if component.target is not None:
            return block
        guess = jax.vmap(component.operator, in_axes=(None, 0))(future, block.x)
        guess = jnp.pad(guess, ((0, 0), (0, space.rows - guess.shape[1])))
        missing = jnp.isnan(block.label) | overwrite
        label = jnp.where(missing, guess.astype(block.label.dtype), block.label)
        return eqx.tree_at(lambda b: b.label, block, label)

    return tuple(map(fill, space.components, blocks))


def looks_at_labels(pipeline: SelectionPipeline) -> bool:
    """Whether pseudo-labels can change what is chosen: there are kinds that are
    measured, and the criterion looks at residuals."""
    space, kinds = pipeline.space, len(pipeline.space.components)
    some = PoolInfo(
        kind=jnp.arange(kinds, dtype=jnp.int32),
        mask=jnp.ones(kinds, bool),
        x=jnp.ones((kinds, space.dim)),
        residual=jnp.ones((kinds, space.rows)),
        gradient_norm=jnp.ones(kinds),
        spectrum=NTKSpectrum(jnp.ones(1), jnp.ones((kinds, space.rows, 1))),
    )
    if not (space.measured.any() and pipeline.experimental_per_round):
        return False
    of_residuals = lambda info: (info.residual, info.gradient_norm)  # noqa: E731
    return depends_on(pipeline.criterion, some, of_residuals)


def _rows_of(points: Points, blocks: tuple[Block, ...]) -> Int32[Array, " n"]:
    """Which row of the blocks that they were split into each point is."""
    kinds = jnp.arange(len(blocks))
    here = points.mask[:, None] & (points.kind[:, None] == kinds[None, :])
    rank = jnp.sum(jnp.where(here, jnp.cumsum(here, axis=0) - 1, 0), axis=1)
    sizes = np.array([block.size for block in blocks])
    first = jnp.asarray(np.cumsum(sizes) - sizes, jnp.int32)
    return first[points.kind] + rank.astype(jnp.int32)


def _capacities(pipeline) -> list[int]:
    """Old points that each kind may have at most."""
    sizes = (pipeline.budget, pipeline.experimental_capacity)
    return [sizes[group] for group in pipeline.space.group_of_kind]


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
    offered = jnp.sum(info.mask & (group[info.kind] == 1))
    asked = jnp.minimum(offered, pipeline.experimental_per_round)
    quota = [total - jnp.sum(keep[:b]), jnp.minimum(free, asked)]
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
    space = pipeline.space
    group = jnp.asarray(space.group_of_kind)
    unmeasured = jnp.asarray(space.measured)[added.kind]
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
    kinds = jnp.arange(len(space.components), dtype=jnp.int32)
    own = info.mask[None, :] & (info.kind[None, :] == kinds[:, None])
    here = own & jnp.isfinite(score)[None, :]
    by_kind = jnp.sum(jnp.where(here, score[None, :], 0), axis=1)
    total = jnp.sum(by_kind)
    offered = jnp.sum(own, axis=1, dtype=jnp.int32)
    unusable = own & ~_usable(info, embedding)[None, :]
    unusable = jnp.sum(unusable, axis=1, dtype=jnp.int32)
    enough = jnp.sum(chosen.mask) >= jnp.sum(candidates.quota)
    lawful = _is_lawful(candidates, chosen)
    uses_ntk = depends_on(pipeline.criterion, info, lambda i: i.spectrum.eigenvalues)
    return SelectionInfo(
        counts=space.counts(points),
        new_counts=space.counts(Points(points.x, points.kind, new)),
        score_share=jnp.where(total > 0, by_kind / jnp.where(total > 0, total, 1), 0),
        eigenvalues=info.spectrum.eigenvalues if uses_ntk else jnp.zeros(0),
        new=new,
        unusable=unusable,
        result=_result(info, enough, lawful, offered, unusable),
    )


def _usable(info: PoolInfo, embedding: Array) -> Bool[Array, " n"]:
    """Which candidates have a finite residual and, where all have, embedding: a single
    residual may spoil all embeddings, and is to blame then."""
    finite = jnp.all(jnp.isfinite(info.residual), axis=1)
    embedded = jnp.isfinite(largest_entry(embedding))
    return jnp.where(jnp.all(finite), embedded, finite)


def _result(info, enough, lawful, offered, unusable) -> RESULTS:
    """What went wrong, if anything: a single candidate may be unusable, a kind not."""
    lost = jnp.any((unusable > 0) & (unusable == offered))
    lost = lost | (~enough & jnp.any(unusable > 0))
    found = RESULTS.where(enough, RESULTS.successful, RESULTS.pool_exhausted)
    found = RESULTS.where(lawful, found, RESULTS.unlawful_selection)
    found = RESULTS.where(lost, RESULTS.nonfinite_embedding, found)
    finite = jnp.all(jnp.isfinite(info.residual))
    return RESULTS.where(finite, found, RESULTS.nonfinite_residual)


_PARTS = {
    "space": (AugmentedSpace, "AugmentedSpace([...])"),
    "pool": (CandidatePool, "CandidatePool(sizes, Uniform())"),
    "estimator": (AbstractNTKEstimator, "Nystrom()"),
    "criterion": (AbstractConvergenceCriterion, "ConvergenceDegree()"),
    "selector": (AbstractSelector, "KMeansPlusPlus()"),
    "retention": (AbstractRetentionPolicy, "RandomRetention(0.5)"),
}

_INTEGERS = {
    "budget": 1,
    "min_per_kind": 0,
    "experimental_per_round": 0,
    "experimental_capacity": 0,
}


def _check_offer(pipeline: SelectionPipeline) -> None:
    """Every collocation kind needs the candidates that it must have points of."""
    space, least = pipeline.space, pipeline.min_per_kind
    offers = zip(space.components, pipeline.pool.offers(space), strict=True)
    for component, offered in offers:
        if component.group == "collocation" and offered < least:
            raise ValueError(
                f"the `pool` draws {offered} candidate(s) of kind {component.name!r}, "
                f"but `min_per_kind` is {least}: draw more of them, or leave the "
                "component out."
            )


def _check_sizes(pipeline: SelectionPipeline) -> None:
    space = pipeline.space
    kinds = len(space.components)
    for name, least in _INTEGERS.items():
        require_integer(name, getattr(pipeline, name), least, "give a number of points")
    if len(pipeline.pool.sizes) != kinds:
        raise ValueError(
            f"`pool` has sizes for {len(pipeline.pool.sizes)} kinds, the space has "
            f"{kinds}: {list(space.names)}. Give one size a kind."
        )
    collocation = int((space.group_of_kind == 0).sum())
    least = max(pipeline.min_per_kind, 1) * collocation
    if pipeline.budget < least:
        raise ValueError(
            f"`budget` is {pipeline.budget}, but the space has {collocation} kinds of "
            f"collocation points that need {max(pipeline.min_per_kind, 1)} point(s) "
            f"each: give a budget of at least {least}."
        )
    _check_offer(pipeline)
    if collocation < kinds and pipeline.experimental_capacity == 0:
        raise ValueError(
            "a component has group='experimental', but `experimental_capacity` is 0, "
            "so nothing would ever be measured: give `experimental_per_round` and "
            "`experimental_capacity`, or leave the component out."
        )
    if pipeline.experimental_per_round > pipeline.experimental_capacity:
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
    offered = int(np.asarray(pipeline.pool.sizes)[space.group_of_kind == 1].sum())
    if pipeline.experimental_per_round > offered:
        raise ValueError(
            f"`experimental_per_round` is {pipeline.experimental_per_round}, but the "
            f"`pool` draws {offered} candidates for measurements: draw more of them."
        )
