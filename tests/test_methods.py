"""The paper's methods by name, against their published formulas."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import MEASURED, STRIP, TRANSPORT, chosen, laplace, model, same_bits
from scipy import stats

from pinnacle import (
    PDE,
    AugmentedSpace,
    Box,
    ByKind,
    CandidatePool,
    Candidates,
    Component,
    Constant,
    ConvergenceDegree,
    Dirichlet,
    Either,
    EveryN,
    Exact,
    Halton,
    Hammersley,
    KeepNone,
    KMeansPlusPlus,
    LatinHypercube,
    Leverage,
    NoCross,
    NTKDrift,
    NTKSpectrum,
    Nystrom,
    PerKindQuota,
    PoolInfo,
    RandomRetention,
    ResidualPower,
    Sampling,
    Sketch,
    Sobol,
    Uniform,
    select_points,
)
from pinnacle.experiment import MethodSettings, make_method, method_names
from pinnacle.experiment.methods import ESTIMATORS, shares


SETTINGS = MethodSettings(
    budget=20, new=7, select_every=50, pool=(30, 10), references=9
)
SPACE_FILLING = {
    "uniform": Uniform,
    "sobol": Sobol,
    "halton": Halton,
    "hammersley": Hammersley,
    "lhs": LatinHypercube,
}


def make(name, space=TRANSPORT, settings=SETTINGS):
    return make_method(name, space, settings)


def parts(pipeline):
    return {name: getattr(pipeline, name) for name in pipeline.__dataclass_fields__}


def changed(one, other):
    """The names of the parts in which two methods differ."""
    a, b = parts(one.pipeline), parts(other.pipeline)
    names = {name for name in a if not eqx.tree_equal(a[name], b[name])}
    return names | (
        {"trigger"} if not eqx.tree_equal(one.trigger, other.trigger) else set()
    )


def test_the_names():
    assert set(method_names()) == {
        *SPACE_FILLING,
        "rad",
        "rad-all",
        "causal",
        "gradient-norm",
        "leverage",
        "pinnacle-s",
        "pinnacle-k",
        *(
            f"pinnacle-{form}-{ablation}"
            for form in "sk"
            for ablation in ("no-retention", "no-trigger", "fixed-shares", "no-cross")
        ),
    }
    for name in method_names():
        assert make(name).pipeline.budget == 20


@pytest.mark.parametrize(
    "name",
    ["pinnacle", "radd", "pinnacle-k-no", "pinnacle-kk", "uniform-no-trigger", ""],
)
def test_unknown_names(name):
    with pytest.raises(ValueError, match=rf"`method` '{name}' is unknown.*pinnacle-k"):
        make(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("budget", 60.0), ("budget", 0), ("new", 0), ("select_every", 2.5)),
        *(("pool", 200), ("pool", (200, 60, 60)), ("pool", (200, 2.5))),
        *(("pde_share", 80.0), ("estimator", "nystroem"), ("references", 0)),
    ],
)
def test_numbers_of_a_method_out_of_range(name, value, no_type_checks):
    settings = {"budget": 60, "new": 20, "select_every": 10, "pool": (80, 20)}
    with pytest.raises(ValueError, match=rf"`{name}` is .*: (give|choose)"):
        MethodSettings(**{**settings, name: value})


# ---------------------------------------------------------------- shares


def test_shares():
    assert shares(TRANSPORT, 0.8) == pytest.approx((0.8, 0.1, 0.1))
    assert shares(MEASURED, 0.5) == pytest.approx((0.5, 0.25, 0.25, 0))
    alone = AugmentedSpace([Component("pde", STRIP, PDE(laplace))])
    assert shares(alone, 0.8) == (1.0,)
    conditions = AugmentedSpace(TRANSPORT.components[1:])
    assert shares(conditions, 0.8) == (0.5, 0.5)
    whole = Component("bc", STRIP.boundary(), Dirichlet())
    assert shares(AugmentedSpace([*alone.components, whole]), 0.8) == pytest.approx(
        (0.8, 0.2)
    )


@pytest.mark.parametrize("budget", range(5, 40))
def test_counts_add_up_to_the_budget(budget):
    settings = MethodSettings(budget=budget, new=1, select_every=1, pool=(50, 50))
    sizes = make("uniform", settings=settings).pipeline.pool.sizes
    assert sum(sizes) == budget
    exact = np.array([0.8, 0.1, 0.1]) * budget
    if exact.min() < 1:  # every kind has a point
        exact = np.array([budget - 2, 1, 1])
    assert np.all(np.abs(np.array(sizes) - exact) < 1)


# ---------------------------------------------------------------- space filling


@pytest.mark.parametrize("name", SPACE_FILLING)
def test_space_filling(name):
    method = make(name)
    pool = method.pipeline.pool
    assert pool.sizes == (16, 2, 2)
    assert not pool.everywhere
    assert isinstance(pool.sampler, tuple)
    assert [type(s) for s in pool.sampler] == [SPACE_FILLING[name], Uniform, Uniform]
    assert isinstance(method.pipeline.criterion, Constant)
    assert isinstance(method.pipeline.retention, KeepNone)
    assert eqx.tree_equal(method.trigger, EveryN(50))


def test_the_points_of_a_space_filling_method_are_the_samplers():
    pipeline = make("sobol").pipeline
    state, key = pipeline.init(), jr.key(5)
    drawn = []
    for number in range(2):
        state, info = select_points(
            pipeline, model(), state, key=jr.fold_in(key, number)
        )
        assert info.counts.tolist() == info.new_counts.tolist() == [16, 2, 2]
        drawn.append(chosen(TRANSPORT, state.points))
    assert not drawn[0] & drawn[1], "drawn afresh"
    # A scrambled Sobol set of 16 points has one in each of the 4 × 4 squares.
    x = np.array([row[1:] for row in drawn[1] if row[0] == "pde"])
    squares = {tuple(square) for square in np.floor(4 * x).astype(int).tolist()}
    assert squares == set(itertools.product(range(4), range(4)))


# ---------------------------------------------------------------- RAD


def pool_info(residual, kind):
    n = len(residual)
    nothing = NTKSpectrum(jnp.zeros(0), jnp.zeros((n, 1, 0)))
    return PoolInfo(
        kind=jnp.asarray(kind, jnp.int32),
        mask=jnp.ones(n, bool),
        x=jnp.zeros((n, 1)),
        residual=jnp.asarray(residual)[:, None],
        gradient_norm=jnp.zeros(n),
        spectrum=nothing,
    )


@pytest.mark.parametrize("name", ["rad", "rad-all", "causal", "leverage"])
def test_methods_that_redraw_all_points_have_more_candidates_than_points(name):
    # Navier–Stokes in the paper: 1000 points, 800 candidates.
    small = dataclasses.replace(SETTINGS, pool=(10, 10))
    sizes = make(name, settings=small).pipeline.pool.sizes
    assert sizes[0] == 2 * 16  # 0.8 of the budget of 20
    assert make("pinnacle-k", settings=small).pipeline.pool.sizes[0] == 10


def test_causal_is_uniform_up_to_the_front():
    # Kind 0 is the PDE on (0, 1) × (0, 1), time last; its residual is 0 up to t = 0.3.
    time = np.linspace(0, 0.9, 10)
    residual, kind = np.where(time < 0.35, 0, 3.0), np.zeros(10, int)
    kind[-1] = 1  # an initial value
    info = pool_info(residual, kind)
    info = dataclasses.replace(info, x=jnp.stack([jnp.zeros(10), time], axis=1))
    pipeline = make("causal").pipeline
    score = np.sum(np.asarray(pipeline.criterion(info)) ** 2, axis=1)
    np.testing.assert_allclose(score[:5], 1)  # the first unsolved one included
    wanted = np.exp(-60 * np.arange(1, 5) / 4)  # as far as float32 goes
    np.testing.assert_allclose(score[5:-1], wanted, rtol=1e-4)
    assert score[-1] == 1
    assert changed(make("causal"), make("rad")) == {"criterion"}


def test_causal_needs_a_time():
    square = Box((0, 0), (1, 1))
    stationary = AugmentedSpace([Component("pde", square, PDE(laplace))])
    with pytest.raises(ValueError, match="'causal' needs a time, and kind 'pde' has"):
        make("causal", stationary)


def test_rad_scores_are_squared_residuals_over_their_mean():
    residual, kind = np.array([0.5, -2.0, 3.0, 0.1, -4.0]), [0, 0, 0, 1, 2]
    embedding = make("rad-all").pipeline.criterion(pool_info(residual, kind))
    wanted = residual**2 / np.mean(residual**2)
    np.testing.assert_allclose(np.sum(embedding**2, axis=1), wanted, rtol=1e-5)

    embedding = make("rad").pipeline.criterion(pool_info(residual, kind))
    wanted = np.append(residual[:3] ** 2 / np.mean(residual[:3] ** 2), [1, 1])
    np.testing.assert_allclose(np.sum(embedding**2, axis=1), wanted, rtol=1e-5)


def test_the_pools_of_rad():
    settings = dataclasses.replace(SETTINGS, pool=(40, 10))
    rad, everything = (make(name, settings=settings) for name in ("rad", "rad-all"))
    assert rad.pipeline.pool.sizes == (40, 2, 2), "conditions: no choice, so uniform"
    assert everything.pipeline.pool.sizes == (40, 10, 10)
    assert changed(rad, everything) == {"pool", "criterion"}
    residual = ResidualPower(2.0, 0.0)
    only_pde = ByKind((residual, Constant(), Constant()))
    assert eqx.tree_equal(rad.pipeline.criterion, only_pde)
    assert eqx.tree_equal(everything.pipeline.criterion, residual)
    for method in (rad, everything):
        assert isinstance(method.pipeline.selector, PerKindQuota)
        assert isinstance(method.pipeline.selector.selector, Sampling)
        assert isinstance(method.pipeline.retention, KeepNone)
        assert not method.pipeline.pool.everywhere
        assert eqx.tree_equal(method.trigger, EveryN(50))


def all_candidates(embedding, kind, *, quota, minimum):
    """Everything may be chosen, nothing is kept from before."""
    n = kind.shape[0]
    return Candidates(
        embedding=embedding,
        kind=kind,
        group=jnp.zeros(n, jnp.int32),
        available=jnp.ones(n, bool),
        quota=jnp.asarray([quota, 0], jnp.int32),
        minimum=jnp.full(3, minimum, jnp.int32),
        retained_embedding=jnp.zeros((quota, 1)),
        retained_mask=jnp.zeros(quota, bool),
        retained_kind=jnp.zeros(quota, jnp.int32),
    )


def test_rad_chooses_in_proportion_to_the_squared_residual():
    """4000 draws of one PDE point and one of each condition."""
    residual = np.array([1.0, 2.0, 3.0, 4.0, 1.0, 1.0, 1.0, 5.0])
    kind = jnp.asarray([0, 0, 0, 0, 1, 1, 2, 2], jnp.int32)
    settings = MethodSettings(3, 1, 1, (4, 2), pde_share=1 / 3)
    pipeline = make("rad-all", settings=settings).pipeline
    info = pool_info(residual, kind)
    candidates = all_candidates(pipeline.criterion(info), kind, quota=3, minimum=0)
    draw = jax.jit(jax.vmap(lambda k: pipeline.selector(candidates, 3, key=k)))
    selection = draw(jr.split(jr.key(0), 4000))
    assert np.asarray(selection.mask).all()
    times = np.bincount(np.asarray(selection.index).ravel(), minlength=8)
    for rows in ([0, 1, 2, 3], [4, 5], [6, 7]):
        weight = residual[rows] ** 2
        assert times[rows].sum() == 4000, "one of each kind in every draw"
        p = stats.chisquare(times[rows], 4000 * weight / weight.sum()).pvalue
        assert p > 1e-4


# ---------------------------------------------------------------- not in the paper


def test_gradient_norm():
    """0.8 of a kind's probability ∝ gradient norm, 0.2 even; every kind alike."""
    norm, kind = np.array([1.0, 3.0, 4.0, 0.0, 0.0, 5e-30]), [0, 0, 0, 1, 1, 2]
    info = eqx.tree_at(
        lambda i: i.gradient_norm, pool_info(np.ones(6), kind), jnp.asarray(norm)
    )
    method = make("gradient-norm")
    score = np.sum(np.square(method.pipeline.criterion(info)), axis=1)
    of_pde = 0.8 * norm[:3] / 8 + 0.2 / 3
    np.testing.assert_allclose(score, [*of_pde, 0.5, 0.5, 1], rtol=1e-5)
    assert eqx.tree_equal(method.pipeline.selector, Sampling(importance=True))
    assert isinstance(method.pipeline.retention, KeepNone)
    assert method.pipeline.pool.sizes == (30, 10, 10)


def test_the_loss_of_gradient_norm_is_unbiased():
    """Its weights turn the mean over chosen points into the mean over the pool."""
    rng = np.random.default_rng(3)
    kind = np.repeat([0, 1, 2], [30, 10, 10])
    norm, f = rng.exponential(size=50), rng.normal(size=50)
    values = jnp.asarray(f)
    info = eqx.tree_at(
        lambda i: i.gradient_norm, pool_info(np.ones(50), kind), jnp.asarray(norm)
    )
    pipeline = make("gradient-norm").pipeline
    embedding = pipeline.criterion(info)
    candidates = all_candidates(embedding, info.kind, quota=20, minimum=1)

    @jax.jit
    @jax.vmap
    def means(key):
        chosen = pipeline.selector(candidates, 20, key=key)
        here = info.kind[chosen.index][None] == jnp.arange(3)[:, None]
        terms = jnp.where(here, (chosen.weight * values[chosen.index])[None], 0)
        return jnp.sum(terms, axis=1) / jnp.sum(here, axis=1)

    drawn = np.asarray(means(jr.split(jr.key(0), 4000)))
    wanted = [f[kind == r].mean() for r in range(3)]
    error = drawn.std(axis=0) / np.sqrt(4000)
    assert np.all(np.abs(drawn.mean(axis=0) - wanted) < 4 * error)


def test_leverage():
    method = make("leverage")
    assert eqx.tree_equal(method.pipeline.criterion, Leverage())
    fixed = PerKindQuota(Sampling(importance=True), shares(TRANSPORT, 0.8))
    assert eqx.tree_equal(method.pipeline.selector, fixed)
    assert isinstance(method.pipeline.retention, KeepNone)
    assert eqx.tree_equal(method.pipeline.estimator, Nystrom(9))


# ---------------------------------------------------------------- settings


def with_settings(**changes):
    return dataclasses.replace(SETTINGS, **changes)


@pytest.mark.parametrize("name", ["uniform", "pinnacle-k", "pinnacle-k-no-trigger"])
def test_the_settings_decide_over_the_trigger(name):
    drift = Either(EveryN(50), NTKDrift(0.5, 1000, 200))
    early = make(name, settings=with_settings(early=True))
    assert eqx.tree_equal(early.trigger, drift)
    never = make(name, settings=with_settings(early=False))
    assert eqx.tree_equal(never.trigger, EveryN(50))


def test_estimators():
    wanted = {"nystrom": Nystrom(9), "sketch": Sketch(9), "exact": Exact()}
    assert set(ESTIMATORS) == set(wanted)
    for name, estimator in wanted.items():
        settings = with_settings(estimator=name)
        whole = make("pinnacle-k", settings=settings).pipeline.estimator
        assert eqx.tree_equal(whole, estimator)
        no_cross = make("pinnacle-k-no-cross", settings=settings).pipeline.estimator
        assert eqx.tree_equal(no_cross, NoCross(estimator))


@pytest.mark.parametrize("name", method_names())
def test_measurements(name):
    settings = with_settings(
        experimental_per_round=3, experimental_capacity=9, experimental_pool=25
    )
    pipeline = make(name, MEASURED, settings).pipeline
    assert pipeline.experimental_per_round == 3
    assert pipeline.experimental_capacity == 9
    assert pipeline.pool.sizes[-1] == 25
    assert sum(pipeline.pool.sizes[:-1]) >= 20


# ---------------------------------------------------------------- PINNACLE


@pytest.mark.parametrize("form", ["s", "k"])
def test_pinnacle(form):
    method = make(f"pinnacle-{form}")
    pipeline, trigger = method.pipeline, method.trigger
    assert isinstance(pipeline.criterion, ConvergenceDegree)
    assert isinstance(pipeline.selector, {"s": Sampling, "k": KMeansPlusPlus}[form])
    assert eqx.tree_equal(pipeline.estimator, Nystrom(9))
    assert eqx.tree_equal(pipeline.retention, RandomRetention(new=7))
    assert eqx.tree_equal(pipeline.pool, CandidatePool((30, 10, 10), Uniform()))
    assert pipeline.pool.everywhere
    assert pipeline.min_per_kind == 1
    assert isinstance(trigger, Either)
    assert eqx.tree_equal(trigger.first, EveryN(50))
    assert eqx.tree_equal(trigger.second, NTKDrift(0.5, 1000, 200))


def test_the_score_of_pinnacle_is_the_convergence_degree():
    rng = np.random.default_rng(0)
    values = np.array([3.0, 1.0, 0.2])
    functions, residual = rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 2))
    info = eqx.tree_at(
        lambda i: (i.spectrum, i.residual),
        pool_info(np.zeros(5), np.zeros(5)),
        (
            NTKSpectrum(jnp.asarray(values), jnp.asarray(functions)),
            jnp.asarray(residual),
        ),
    )
    embedding = make("pinnacle-s").pipeline.criterion(info)
    rows = functions.reshape(10, 3)
    kernel = ((rows * values) @ rows.T).reshape(5, 2, 5, 2)
    wanted = [residual[i] @ kernel[i, :, i] @ residual[i] for i in range(5)]
    np.testing.assert_allclose(np.sum(embedding**2, axis=1), wanted, rtol=1e-4)


@pytest.mark.parametrize("form", ["s", "k"])
@pytest.mark.parametrize(
    ("ablation", "part"),
    [
        ("no-retention", "retention"),
        ("no-trigger", "trigger"),
        ("fixed-shares", "selector"),
        ("no-cross", "estimator"),
    ],
)
def test_an_ablation_changes_one_part(form, ablation, part):
    whole, less = make(f"pinnacle-{form}"), make(f"pinnacle-{form}-{ablation}")
    assert changed(whole, less) == {part}


def test_what_the_ablations_put_in_place():
    name = "pinnacle-k-no-retention-no-trigger-fixed-shares-no-cross"
    method = make(name)
    assert isinstance(method.pipeline.retention, KeepNone)
    assert eqx.tree_equal(method.trigger, EveryN(50))
    assert eqx.tree_equal(method.pipeline.estimator, NoCross(Nystrom(9)))
    fixed = PerKindQuota(KMeansPlusPlus(), shares(TRANSPORT, 0.8))
    assert eqx.tree_equal(method.pipeline.selector, fixed)


def test_methods_of_the_same_name_are_the_same():
    for name in method_names():
        assert same_bits(make(name).pipeline, make(name).pipeline)
        assert changed(make(name), make(name)) == set()
