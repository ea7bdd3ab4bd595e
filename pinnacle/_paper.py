"""The paper's two methods, with its defaults, for any space."""

from collections.abc import Sequence
from typing import Any

from ._criterion import AbstractConvergenceCriterion, ConvergenceDegree
from ._misc import require_integer, require_part
from ._ntk import AbstractNTKEstimator, Nystrom
from ._pipeline import SelectionPipeline
from ._retention import AbstractRetentionPolicy, RandomRetention
from ._sampler import AbstractSampler, Uniform
from ._selector import AbstractSelector, KMeansPlusPlus, Sampling
from ._space import AugmentedSpace, CandidatePool


def pinnacle_k(
    space: AugmentedSpace, *, budget: int, **parts: Any
) -> SelectionPipeline:
    """PINNACLE-K: K-means++ seeding on the embedding of the convergence degree.

    The paper selects every T steps or earlier, once the NTK has drifted: give `fit` the
    trigger `Either(EveryN(T), NTKDrift())`.

    **Arguments:**

    - `space`: the augmented space.
    - `budget`: number of collocation points, all kinds together.
    - `parts`: any of `new` (points replaced a round, default a third of the budget),
      `pool` (candidates by kind, default three budgets for kinds that fill the domain
      and one for the others), `sampler`, `estimator`, `criterion`, `selector`,
      `retention`, and the numbers of [`SelectionPipeline`][].

    **Returns:**

    The pipeline. Raises `ValueError` as [`SelectionPipeline`][] does.
    """
    parts.setdefault("selector", KMeansPlusPlus())
    return _compose(space, budget, **parts)


def pinnacle_s(
    space: AugmentedSpace, *, budget: int, **parts: Any
) -> SelectionPipeline:
    """PINNACLE-S: sampling without replacement, p(z) ∝ α̂(z).

    The arguments are those of [`pinnacle_k`][].
    """
    parts.setdefault("selector", Sampling())
    return _compose(space, budget, **parts)


def _compose(
    space: AugmentedSpace,
    budget: int,
    *,
    selector: AbstractSelector,
    new: int | None = None,
    pool: Sequence[int] | None = None,
    sampler: AbstractSampler | tuple[AbstractSampler, ...] | None = None,
    estimator: AbstractNTKEstimator | None = None,
    criterion: AbstractConvergenceCriterion | None = None,
    retention: AbstractRetentionPolicy | None = None,
    **sizes: int,
) -> SelectionPipeline:
    require_part("space", space, AugmentedSpace, "AugmentedSpace([...])")
    require_integer("budget", budget, 1, "give a number of collocation points")
    if isinstance(pool, CandidatePool):
        raise ValueError(
            "`pool` is a CandidatePool: give its `sizes` here and its `sampler` as "
            "`sampler`, or compose a `SelectionPipeline` yourself."
        )
    if pool is None:
        pool = [3 * budget if c.fills_domain else budget for c in space.components]
    new = max(1, budget // 3) if new is None else new
    require_integer("new", new, 0, "give the points replaced in a round")
    return SelectionPipeline(
        space=space,
        pool=CandidatePool(pool, sampler or Uniform()),
        estimator=estimator or Nystrom(),
        criterion=criterion or ConvergenceDegree(),
        selector=selector,
        retention=retention or RandomRetention(new=new),
        budget=budget,
        **sizes,
    )
