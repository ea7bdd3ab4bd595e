"""Every method of the paper by name, as a composition of the library's parts.

This is the one place where the name of a method becomes classes.
"""

import dataclasses
import difflib
from collections.abc import Callable, Sequence

import numpy as np

from .._criterion import (
    AbstractConvergenceCriterion,
    ByKind,
    Causal,
    Constant,
    GradientNorm,
    Leverage,
    MixedWithUniform,
    ResidualPower,
    Tempered,
)
from .._misc import require_integer
from .._ntk import AbstractNTKEstimator, Exact, NoCross, Nystrom, Sketch
from .._paper import pinnacle_k
from .._pipeline import SelectionPipeline
from .._retention import KeepNone, RandomRetention
from .._sampler import (
    AbstractSampler,
    Halton,
    Hammersley,
    LatinHypercube,
    Sobol,
    Uniform,
)
from .._selector import AbstractSelector, KMeansPlusPlus, PerKindQuota, Sampling
from .._space.augmented import AugmentedSpace
from .._space.component import Component
from .._space.pool import CandidatePool
from .._training import AbstractTrigger, Either, EveryN, NTKDrift


@dataclasses.dataclass(frozen=True)
class MethodSettings:
    """The numbers that a method needs.

    **Attributes:**

    - `budget`: collocation points in all.
    - `new`: points replaced in a round by methods that retain the rest.
    - `select_every`: steps between two rounds.
    - `pool`: candidates for each PDE kind, and for each condition.
    - `pde_share`: share of the budget for PDE points in methods with fixed shares.
    - `estimator`: of the NTK: `"nystrom"`, `"sketch"` or `"exact"`.
    - `references`: reference points of the Nyström approximation, directions of the
      sketch.
    - `early`: whether the NTK's drift may start a round early; `None` for what the
      method's name says.
    - `drift`, `look_every`: δ of the NTK drift trigger, and how often it looks.
    - `experimental_per_round`, `experimental_capacity`, `experimental_pool`: how many
      measurements each round asks for, how many there may be in all, and how many
      candidates they are chosen from.

    **Raises:** `ValueError` for a number out of range, and an unknown estimator.
    """

    budget: int
    new: int
    select_every: int
    pool: tuple[int, int]
    pde_share: float = 0.8
    estimator: str = "nystrom"
    references: int = 300
    early: bool | None = None
    drift: float = 0.5
    look_every: int = 1000
    experimental_per_round: int = 0
    experimental_capacity: int = 0
    experimental_pool: int = 0

    def __post_init__(self):
        least = {"budget": 1, "new": 1, "select_every": 1, "references": 1}
        for name, smallest in least.items():
            require_integer(name, getattr(self, name), smallest, "give a number")
        if not isinstance(self.pool, Sequence) or len(self.pool) != 2:
            raise ValueError(
                f"`pool` is {self.pool!r}: give two numbers of candidates, for each "
                "PDE kind and for each condition, such as (800, 200)."
            )
        for size in self.pool:
            require_integer("pool", size, 0, "give two numbers of candidates")
        if not 0 <= self.pde_share <= 1:
            raise ValueError(
                f"`pde_share` is {self.pde_share}: give a share from 0 to 1."
            )
        if self.estimator not in ESTIMATORS:
            raise ValueError(
                f"`estimator` is {self.estimator!r}: choose one of "
                f"{', '.join(map(repr, ESTIMATORS))}."
            )


@dataclasses.dataclass(frozen=True)
class Method:
    """A selection pipeline and the trigger that goes with it."""

    pipeline: SelectionPipeline
    trigger: AbstractTrigger


def make_method(name: str, space: AugmentedSpace, settings: MethodSettings) -> Method:
    """Build a method by name.

    **Arguments:**

    - `name`: one of `method_names()`; PINNACLE's names may carry ablations, for
      instance `pinnacle-k-no-retention`.
    - `space`, `settings`: what it selects from, and its numbers.

    Raises `ValueError` for an unknown name, and for a pool smaller than the budget;
    methods that choose all points afresh draw at least two candidates a point, whatever
    `pool` says.
    """
    check_method(name)
    if name in _BASELINES:
        method = _BASELINES[name](space, settings)
    else:
        base = next(base for base in _PINNACLE if name.startswith(base))
        method = _pinnacle(_PINNACLE[base], _ablations(name, base), space, settings)
    offers = np.array(method.pipeline.pool.offers(space))
    offered = int(offers[space.group_of_kind == 0].sum())
    if offered < settings.budget:
        raise ValueError(
            f"`budget` is {settings.budget}, but the first round chooses it from a "
            f"pool of {offered} candidates (`pool` is {settings.pool}, for each PDE "
            "and for each condition): make the pool larger, or the budget smaller."
        )
    return method


def check_method(name: str) -> None:
    """Raise `ValueError` for a name that `make_method` does not know."""
    if name in _BASELINES:
        return
    for base in _PINNACLE:
        if name == base or name.startswith(base + "-"):
            _ablations(name, base)
            return
    raise ValueError(_unknown(name))


def method_names() -> list[str]:
    """All baselines, PINNACLE's two forms, and each of them with one ablation."""
    ablated = [base + ablation for base in _PINNACLE for ablation in ABLATIONS]
    return [*_BASELINES, *_PINNACLE, *ablated]


def has_fixed_shares(name: str) -> bool:
    """Whether a method splits its budget among the kinds by fixed shares."""
    return (name in _BASELINES and name != "gradient-norm") or "-fixed-shares" in name


def uses_ntk(name: str) -> bool:
    """Whether a method scores candidates by the NTK."""
    return name not in _BASELINES or name == "leverage"


def keeps_points(name: str) -> bool:
    """Whether a method replaces only part of its points in a round."""
    return name not in _BASELINES and "-no-retention" not in name


def looks_at_drift(name: str, early: bool | None) -> bool:
    """Whether the NTK's drift may start a round."""
    if early is None:
        return name not in _BASELINES and "-no-trigger" not in name
    return early


ABLATIONS = ("-no-retention", "-no-trigger", "-fixed-shares", "-no-cross")


def shares(space: AugmentedSpace, pde_share: float) -> tuple[float, ...]:
    """`pde_share` of the budget to the PDE kinds, the rest evenly to the conditions."""
    pde = np.array([c.fills_domain for c in space.components])
    conditions = (space.group_of_kind == 0) & ~pde
    if not conditions.any():
        pde_share = 1.0
    if not pde.any():
        pde_share = 0.0
    share = np.where(pde, pde_share / max(pde.sum(), 1), 0.0)
    share = np.where(conditions, (1 - pde_share) / max(conditions.sum(), 1), share)
    return tuple(share.tolist())


def _fixed_counts(space, settings) -> list[int]:
    """The budget split by the fixed shares, largest remainders first, at least one
    point to each kind; for kinds that are measured their pool."""
    exact = np.array(shares(space, settings.pde_share)) * settings.budget
    counts = np.floor(exact).astype(int)
    order = np.argsort(counts - exact, kind="stable")
    counts[order[: settings.budget - counts.sum()]] += 1
    measured = space.group_of_kind == 1
    for kind in np.flatnonzero((counts == 0) & ~measured):
        counts[np.argmax(counts)] -= 1
        counts[kind] += 1
    return np.where(measured, settings.experimental_pool, counts).tolist()


def _pool_sizes(space, settings) -> list[int]:
    pde, condition = settings.pool
    return [
        settings.experimental_pool
        if component.group == "experimental"
        else (pde if component.fills_domain else condition)
        for component in space.components
    ]


def _redrawn_sizes(space, settings) -> list[int]:
    """The pool of methods that choose all points afresh: at least two candidates for
    each point that a kind has, or there would be little to choose."""
    sizes, counts = _pool_sizes(space, settings), _fixed_counts(space, settings)
    measured = space.group_of_kind == 1
    return np.where(measured, sizes, np.maximum(sizes, 2 * np.array(counts))).tolist()


def _estimator(settings: MethodSettings) -> AbstractNTKEstimator:
    return ESTIMATORS[settings.estimator](settings.references)


ESTIMATORS: dict[str, Callable[[int], AbstractNTKEstimator]] = {
    "nystrom": Nystrom,
    "sketch": Sketch,
    "exact": lambda references: Exact(),
}


def _space_filling(sampler: AbstractSampler) -> Callable:
    """PDE points by `sampler`, all others uniform, in fixed shares, drawn afresh."""

    def build(space: AugmentedSpace, settings: MethodSettings) -> Method:
        samplers = tuple(
            sampler if component.fills_domain else Uniform()
            for component in space.components
        )
        pool = CandidatePool(_fixed_counts(space, settings), samplers, everywhere=False)
        return _redrawn(space, settings, pool, Constant(), Sampling())

    return build


def _rad(space: AugmentedSpace, settings: MethodSettings) -> Method:
    """RAD of Wu et al. (2023) with k = 2, c = 0: PDE points ∝ R², the rest uniform."""
    return _pde_points_by(lambda pde: ResidualPower(2.0, 0.0), space, settings)


def _causal(space: AugmentedSpace, settings: MethodSettings) -> Method:
    """PDE points where the equation holds at all earlier times, the rest uniform."""
    return _pde_points_by(lambda pde: Causal(Constant(), _time(pde)), space, settings)


def _time(component: Component) -> int:
    axis = component.domain.time_axis
    if axis is None:
        raise ValueError(
            f"`method` 'causal' needs a time, and kind {component.name!r} has none: "
            "choose another method, or make its domain a `SpaceTime`."
        )
    return axis


def _pde_points_by(
    criterion: Callable[[Component], AbstractConvergenceCriterion],
    space: AugmentedSpace,
    settings: MethodSettings,
) -> Method:
    """PDE points ∝ a score, the rest uniform, in fixed shares."""
    counts, sizes = _fixed_counts(space, settings), _redrawn_sizes(space, settings)
    pool = [
        size if component.fills_domain else count
        for component, size, count in zip(space.components, sizes, counts, strict=True)
    ]
    criteria = tuple(
        criterion(component) if component.fills_domain else Constant()
        for component in space.components
    )
    return _in_fixed_shares(space, settings, pool, ByKind(criteria))


def _rad_all(space: AugmentedSpace, settings: MethodSettings) -> Method:
    """RAD for every kind of point, each by its own residual, in fixed shares."""
    sizes = _redrawn_sizes(space, settings)
    return _in_fixed_shares(space, settings, sizes, ResidualPower(2.0, 0.0))


def _leverage(space: AugmentedSpace, settings: MethodSettings) -> Method:
    """Drawn ∝ ridge leverage score with importance weights, in fixed shares."""
    sizes = _redrawn_sizes(space, settings)
    return _in_fixed_shares(space, settings, sizes, Leverage(), Sampling(True))


def _gradient_norm(space: AugmentedSpace, settings: MethodSettings) -> Method:
    """p(z) ∝ 0.8 ‖∇‖/Σ_r‖∇‖ + 0.2/n_r with importance weights.

    ‖∇‖ is the norm of the gradient of ½‖R(z)‖², Σ_r and n_r go over the candidates of
    the kind of z: every kind has the same probability.
    """
    pool = CandidatePool(_pool_sizes(space, settings), Uniform(), everywhere=False)
    norm = Tempered(GradientNorm(), 2.0)  # ‖∇‖² to the power ½
    criterion = MixedWithUniform(norm, 0.2)
    return _redrawn(space, settings, pool, criterion, Sampling(importance=True))


def _in_fixed_shares(space, settings, sizes, criterion, selector=None) -> Method:
    selector = selector or Sampling()
    selector = PerKindQuota(selector, shares(space, settings.pde_share))
    pool = CandidatePool(sizes, Uniform(), everywhere=False)
    return _redrawn(space, settings, pool, criterion, selector)


def _redrawn(
    space: AugmentedSpace,
    settings: MethodSettings,
    pool: CandidatePool,
    criterion: AbstractConvergenceCriterion,
    selector: AbstractSelector,
) -> Method:
    """All points drawn afresh in each round."""
    pipeline = SelectionPipeline(
        space=space,
        pool=pool,
        estimator=_estimator(settings),  # not computed unless the criterion looks at it
        criterion=criterion,
        selector=selector,
        retention=KeepNone(),
        budget=settings.budget,
        experimental_per_round=settings.experimental_per_round,
        experimental_capacity=settings.experimental_capacity,
    )
    return Method(pipeline, _trigger(settings, early=False))


def _trigger(settings: MethodSettings, *, early: bool) -> AbstractTrigger:
    """Every so many steps, and early if the settings or else the method say so."""
    every = EveryN(settings.select_every)
    if not (early if settings.early is None else settings.early):
        return every
    return Either(every, NTKDrift(settings.drift, settings.look_every))


def _pinnacle(
    selector: AbstractSelector,
    ablations: frozenset[str],
    space: AugmentedSpace,
    settings: MethodSettings,
) -> Method:
    """The paper's method, less what the ablations take away."""
    estimator = _estimator(settings)
    retention = RandomRetention(new=settings.new)
    if "-fixed-shares" in ablations:
        selector = PerKindQuota(selector, shares(space, settings.pde_share))
    pipeline = pinnacle_k(
        space,
        budget=settings.budget,
        pool=_pool_sizes(space, settings),
        estimator=NoCross(estimator) if "-no-cross" in ablations else estimator,
        selector=selector,
        retention=KeepNone() if "-no-retention" in ablations else retention,
        experimental_per_round=settings.experimental_per_round,
        experimental_capacity=settings.experimental_capacity,
    )
    return Method(pipeline, _trigger(settings, early="-no-trigger" not in ablations))


_BASELINES: dict[str, Callable[[AugmentedSpace, MethodSettings], Method]] = {
    "uniform": _space_filling(Uniform()),
    "sobol": _space_filling(Sobol()),
    "halton": _space_filling(Halton()),
    "hammersley": _space_filling(Hammersley()),
    "lhs": _space_filling(LatinHypercube()),
    "rad": _rad,
    "rad-all": _rad_all,
    "causal": _causal,
    "gradient-norm": _gradient_norm,
    "leverage": _leverage,
}
_PINNACLE: dict[str, AbstractSelector] = {
    "pinnacle-s": Sampling(),
    "pinnacle-k": KMeansPlusPlus(),
}


def _ablations(name: str, base: str) -> frozenset[str]:
    rest, found = name[len(base) :], set()
    while rest:
        ablation = next((a for a in ABLATIONS if rest.startswith(a)), None)
        if ablation is None:
            raise ValueError(_unknown(name))
        if ablation in found:
            raise ValueError(
                f"`method` {name!r} has the ablation {ablation[1:]!r} twice: name it "
                "once."
            )
        found.add(ablation)
        rest = rest[len(ablation) :]
    return frozenset(found)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, method_names(), n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return (
        f"`method` {name!r} is unknown{hint}: choose one of "
        f"{', '.join(method_names())} (ablations can be combined)."
    )


METHODS: dict[str, str] = {
    "uniform": "uniform at random, fixed shares by kind",
    "sobol": "scrambled Sobol sequence for PDE points, fixed shares",
    "halton": "scrambled Halton sequence for PDE points, fixed shares",
    "hammersley": "shifted Hammersley set for PDE points, fixed shares",
    "lhs": "Latin hypercube for PDE points, fixed shares",
    "rad": "PDE points by their squared residual, the rest uniform, fixed shares",
    "rad-all": "points of every kind by their squared residual, fixed shares",
    "causal": "PDE points where earlier times are solved, the rest uniform, fixed "
    "shares",
    "gradient-norm": "by gradient norm (0.2 of it uniform) with importance weights",
    "leverage": "by leverage on a Gauss–Newton step with importance weights",
    "pinnacle-s": "all kinds at once, sampled by their convergence degree",
    "pinnacle-k": "all kinds at once, by K-means++ on their NTK embedding",
    "…-no-retention": "ablation of a PINNACLE method: all points drawn afresh",
    "…-no-trigger": "ablation: new points at fixed steps only",
    "…-fixed-shares": "ablation: fixed shares by kind",
    "…-no-cross": "ablation: NTK without cross terms between kinds",
}
"""Every method in a line, for people."""
