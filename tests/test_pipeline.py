"""The selection pipeline: one round, and several in a row."""

import itertools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import (
    MEASURED,
    STRIP,
    TRANSPORT,
    Fixed,
    Reaction,
    chosen,
    model,
    pipeline,
    same_bits,
    transport_components,
)

from pinnacle import (
    PDE,
    RESULTS,
    AbstractConvergenceCriterion,
    AbstractNTKEstimator,
    AbstractRetentionPolicy,
    AbstractSampler,
    AbstractSelector,
    AugmentedSpace,
    ByKind,
    CandidatePool,
    Causal,
    Component,
    Constant,
    ConvergenceDegree,
    Either,
    EveryN,
    Exact,
    GradientNorm,
    Greedy,
    KeepAll,
    KeepBest,
    KeepNone,
    KMeansPlusPlus,
    MixedWithUniform,
    Model,
    NoCross,
    Nystrom,
    PerKindQuota,
    Pointwise,
    RandomRetention,
    Sampling,
    Tempered,
    Uniform,
    pinnacle_k,
    select_points,
)
from pinnacle._pipeline import _select
from pinnacle.nn import MLP, Apply


BUDGET, NEW = 12, 5


@pytest.fixture(scope="module")
def paper():
    """PINNACLE-K at tiny size."""
    return pipeline(
        estimator=Nystrom(10),
        criterion=ConvergenceDegree(),
        selector=KMeansPlusPlus(),
        retention=RandomRetention(new=NEW),
        budget=BUDGET,
        min_per_kind=2,
    )


@pytest.fixture(scope="module")
def rounds(paper, quick_compile):
    """Six rounds with moving networks, compiled once: (model, key, state, info)."""
    once = eqx.debug.assert_max_traces(select_points, max_traces=1)
    select, state = eqx.filter_jit(once), paper.init()
    done = []
    for number in range(6):
        u, key = model(seed=number), jr.key(number)
        state, info = select(paper, u, state, key=key)
        done.append((u, key, state, info))
    return done


# ---------------------------------------------------------------- static mistakes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 2}, r"`budget` is 2, but .*3 kinds.*1 point\(s\) each.*at least 3"),
        ({"budget": 12.5}, "`budget` is 12.5"),
        ({"budget": True}, "`budget` is True"),
        ({"budget": 8, "min_per_kind": 3}, "budget of at least 9"),
        ({"min_per_kind": -1}, "`min_per_kind` is -1"),
        (
            {"pool": CandidatePool((20, 0, 6), Uniform())},
            r"0 candidate\(s\) of kind 'ic', but `min_per_kind` is 1",
        ),
        (
            {"pool": CandidatePool((3, 3), Uniform())},
            r"`pool` has sizes for 2 kinds, the space has 3: \['pde', 'ic', 'bc'\]",
        ),
        (
            {"experimental_per_round": 3, "experimental_capacity": 2},
            "`experimental_per_round` is 3 and `experimental_capacity` 2",
        ),
        (
            {"experimental_per_round": 3, "experimental_capacity": 3},
            "no component has group='experimental'",
        ),
        ({"pool": (12, 6, 6)}, r"`pool` is \(12, 6, 6\): give one such as `Candid"),
        ({"criterion": ConvergenceDegree}, "`criterion` is the class Convergence"),
        ({"estimator": "nystrom"}, "`estimator` is 'nystrom': .* of `AbstractNTKEst"),
        ({"selector": Greedy}, "`selector` is the class Greedy itself: give one"),
        ({"retention": 5}, "`retention` is 5: .* `AbstractRetentionPolicy`"),
    ],
)
def test_static_mistakes(changes, message, no_type_checks):
    with pytest.raises(ValueError, match=message):
        pipeline(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pool": CandidatePool((9, 9, 9), Uniform())}, "`pool` is a CandidatePool"),
        ({"pool": {"pde": 9}}, "`sizes` of the pool is {'pde': 9}"),
        ({"budget": "a"}, "`budget` is 'a'"),
        ({"budget": 12.5}, "`budget` is 12.5"),
        ({"new": 2.5}, "`new` is 2.5"),
        ({"space": 3}, "`space` is 3: give one such as `Augmented"),
        ({"new": 13}, "`new` must be at most the budget of 12"),
        (
            {"space": MEASURED, "experimental_capacity": 0},
            "`experimental_capacity` is 0, so nothing would ever be measured",
        ),
    ],
)
def test_mistakes_of_the_paper_methods(changes, message, no_type_checks):
    with pytest.raises(ValueError, match=message):
        pinnacle_k(**{"space": TRANSPORT, "budget": 12, **changes}).init()


@pytest.mark.parametrize(
    ("part", "arguments", "message"),
    [
        (Pointwise, [GradientNorm], "`criterion` is the class GradientNorm"),
        (Tempered, ["rad", 2], "`criterion` is 'rad': give one such as"),
        (MixedWithUniform, [None], "`criterion` is None"),
        (Causal, [1.0], "`criterion` is 1.0"),
        (ByKind, [(Constant(), Constant)], r"`criteria\[1\]` is the class Constant"),
        (ByKind, [Constant()], r"`criteria` is Constant\(\): give one criterion"),
        (PerKindQuota, [Greedy], "`selector` is the class Greedy itself"),
        (NoCross, ["nystrom"], "`estimator` is 'nystrom'"),
        (Either, [EveryN(5), 100], "`second` is 100: .* `AbstractTrigger`"),
    ],
)
def test_mistakes_of_parts_inside_of_parts(part, arguments, message, no_type_checks):
    with pytest.raises(ValueError, match=message):
        part(*arguments)


def test_mistakes_of_a_round(paper, no_type_checks):
    key, state = jr.key(0), paper.init()
    with pytest.raises(ValueError, match="`key` is 0"):
        select_points(paper, model(), state, key=0)  # pyright: ignore
    with pytest.raises(ValueError, match=r"`state` is None.*`pipeline.init\(\)`"):
        select_points(paper, model(), None, key=key)  # pyright: ignore
    with pytest.raises(ValueError, match="point of 2 coordinates"):
        select_points(paper, Model(MLP(3, 1, 4, 1, key=key)), state, key=key)
    half = model(dtype=jnp.bfloat16)
    with pytest.raises(ValueError, match="parameters of `model` are bfloat16"):
        select_points(paper, half, paper.init(), key=key)
    with pytest.raises(ValueError, match=r"`criterion` Flat returned shape \(\d+,\)"):
        select_points(pipeline(criterion=Flat()), model(), state, key=key)
    crowd = pipeline(pool=CandidatePool((12, 6, 6), Crowd()))
    with pytest.raises(ValueError, match=r"`Crowd.unit` returned shape \(13, 2\)"):
        select_points(crowd, model(), crowd.init(), key=key)


class Flat(AbstractConvergenceCriterion):
    """One number a candidate, where one row is asked for."""

    def __call__(self, info):
        return info.residual[:, 0]


class Crowd(AbstractSampler):
    """One point too many."""

    def unit(self, n, dim, *, key):
        return Uniform().unit(n + 1, dim, key=key)


# ---------------------------------------------------------------- many rounds


def test_the_split_among_kinds_moves_and_the_budget_is_kept(rounds):
    counts = np.array([info.counts for *_, info in rounds])
    assert len({tuple(row) for row in counts.tolist()}) > 1, "or nothing is tested"
    assert (counts.sum(axis=1) == BUDGET).all()
    assert (counts >= 2).all(), "min_per_kind"
    for number, (*_, state, info) in enumerate(rounds):
        assert state.points.mask.all()
        assert state.round == number + 1
        assert info.result == RESULTS.successful
        assert info.new_counts.sum() == (BUDGET if number == 0 else NEW)


def test_counts_are_those_of_the_points(rounds):
    split = eqx.filter_jit(TRANSPORT.split)
    for *_, state, info in rounds:
        kinds, new = np.asarray(state.points.kind), np.asarray(info.new)
        assert info.counts.tolist() == np.bincount(kinds, minlength=3).tolist()
        assert info.new_counts.tolist() == np.bincount(kinds[new], minlength=3).tolist()
        np.testing.assert_allclose(info.score_share.sum(), 1, rtol=1e-5)
        assert (np.diff(info.eigenvalues) <= 0).all()
        for component, block in zip(
            TRANSPORT.components,
            split(state.points, (12, 12, 12)),
            strict=True,
        ):
            assert component.domain.contains(block.x).all()


def test_rows_that_stay_keep_everything_they_have(rounds):
    for (*_, before, _), (*_, after, info) in itertools.pairwise(rounds):
        rows = [_rows(before.points), _rows(after.points)]
        stayed = {
            row for row, new in zip(rows[1], info.new.tolist(), strict=True) if not new
        }
        assert len(stayed) == BUDGET - NEW
        assert stayed <= set(rows[0])


def _rows(points):
    """Each row's x, kind, label and weight as bytes (a NaN equals itself)."""
    leaves = [points.x, points.kind, points.label, points.weight]
    return [
        b"".join(np.asarray(leaf)[i].tobytes() for leaf in leaves)
        for i in range(points.size)
    ]


def test_new_points_are_candidates_of_the_round(paper, rounds):
    @jax.jit
    def pool(key):
        pool_key = jr.split(key, 4)[0]
        return TRANSPORT.join(paper.pool.draw(TRANSPORT, jnp.float32, key=pool_key))

    _, key, state, info = rounds[3]
    new = chosen(TRANSPORT, state.points, info.new)
    assert len(new) == NEW
    assert new <= chosen(TRANSPORT, pool(key))


def test_jit_changes_nothing_and_the_key_decides(paper, rounds):
    u, key, state, info = rounds[0]
    again, again_info = select_points(paper, u, paper.init(), key=key)
    assert chosen(TRANSPORT, again.points) == chosen(TRANSPORT, state.points)
    assert again_info.counts.tolist() == info.counts.tolist()
    same = select_points(paper, u, paper.init(), key=key)
    assert same_bits(same, (again, again_info))
    other, _ = select_points(paper, u, paper.init(), key=jr.key(99))
    assert not chosen(TRANSPORT, other.points) & chosen(TRANSPORT, again.points)


def test_a_nonfinite_residual(paper, rounds):
    bias = lambda m: m.network.biases[0]  # noqa: E731
    u = eqx.tree_at(bias, model(), replace_fn=lambda b: b * jnp.nan)
    with pytest.raises(eqx.EquinoxRuntimeError, match="residual is NaN or infinite"):
        select_points(paper, u, paper.init(), key=jr.key(0))
    _, info = select_points(paper, u, paper.init(), key=jr.key(0), throw=False)
    assert info.result == RESULTS.nonfinite_residual


def test_an_exhausted_pool():
    short = pipeline(pool=CandidatePool((5, 1, 1), Uniform(), everywhere=False))
    with pytest.raises(
        eqx.EquinoxRuntimeError, match="fewer candidates could be chosen"
    ):
        select_points(short, model(), short.init(), key=jr.key(0))
    state, info = select_points(
        short, model(), short.init(), key=jr.key(0), throw=False
    )
    assert info.result == RESULTS.pool_exhausted
    assert info.counts.tolist() == [5, 1, 1]
    assert state.points.mask.sum() == 7


# ---------------------------------------------------------------- symmetries


def deterministic(space, fixed, **changes):
    """The same candidates in every round, whatever the order of the kinds."""
    samplers = tuple(Fixed(fixed[name]) for name in space.names)
    sizes = tuple(10 if c.fills_domain else 6 for c in space.components)
    parts = {
        "pool": CandidatePool(sizes, samplers),
        "estimator": Exact(),
        "criterion": ConvergenceDegree(),
        "selector": Greedy(),
        "retention": KeepNone(),
        "min_per_kind": 0,
    }
    return pipeline(space, **{**parts, **changes})


def selected(method, u, key=0):
    state, info = select_points(method, u, method.init(u.dtype), key=jr.key(key))
    return chosen(method.space, state.points), info


def test_scaling_an_equation_and_the_order_of_the_kinds_change_nothing(x64):
    fixed = {"pde": 0, "ic": 1, "bc": 2}
    plain = AugmentedSpace(transport_components())
    here, info = selected(deterministic(plain, fixed), model())
    for scale in (1000.0, 0.01):
        space = AugmentedSpace(transport_components(scale, 1 / scale**2))
        there, other = selected(deterministic(space, fixed), model())
        assert there == here
        assert other.counts.tolist() == info.counts.tolist()
        np.testing.assert_allclose(other.score_share, info.score_share, rtol=1e-8)
        top = float(info.eigenvalues[0])
        np.testing.assert_allclose(other.eigenvalues, info.eigenvalues, atol=1e-8 * top)

    permuted = AugmentedSpace([plain.components[i] for i in (2, 0, 1)])
    there, other = selected(deterministic(permuted, fixed), model())
    assert there == here
    order = jnp.asarray([2, 0, 1])
    assert other.counts.tolist() == info.counts[order].tolist()
    np.testing.assert_allclose(other.score_share, info.score_share[order], rtol=1e-8)


def reaction(order):
    start = Component("ic", STRIP.initial(), PDE(lambda u, x: u(x), rows=2), [1.0, 0.5])
    pde = Component("pde", STRIP, PDE(Reaction(order), rows=2))
    return AugmentedSpace([pde, start])


REACTION = [reaction([0, 1])]
REACTION.append(
    eqx.tree_at(
        lambda s: s.components[0].operator.fn.order, REACTION[0], jnp.asarray([1, 0])
    )
)


@pytest.mark.parametrize("selector", [KMeansPlusPlus(), Sampling()], ids=["k", "s"])
def test_the_order_of_the_equations_does_not_matter(selector, x64):
    u = model(2)
    plain, swapped = (
        deterministic(space, {"pde": 0, "ic": 1}, selector=selector)
        for space in REACTION
    )
    for key in range(5):
        assert selected(plain, u, key)[0] == selected(swapped, u, key)[0]


# ---------------------------------------------------------------- keys and order


KEYS = []


def _note(*keys):
    for key in keys:
        jax.debug.callback(lambda k: KEYS.append(tuple(k.tolist())), jr.key_data(key))


class NotedSampler(AbstractSampler):
    def unit(self, n, dim, *, key):
        _note(key)
        return jr.uniform(key, (n, dim))


class NotedEstimator(AbstractNTKEstimator):
    inner: Nystrom = Nystrom(8)

    def basis(self, space, model, pool, *, key):
        _note(key, *jr.split(key, len(pool)))
        return self.inner.basis(space, model, pool, key=key)

    def spectrum(self, space, model, points, basis):
        return self.inner.spectrum(space, model, points, basis)


class NotedRetention(AbstractRetentionPolicy):
    inner: KeepNone = KeepNone()

    def init(self, budget):
        return self.inner.init(budget)

    def retain(self, old, budget, state, *, key):
        _note(key)
        return self.inner.retain(old, budget, state, key=key)


class NotedSelector(AbstractSelector):
    def __call__(self, candidates, size, *, key):
        _note(key)
        return Greedy()(candidates, size, key=key)


def test_no_part_is_given_the_key_of_another():
    method = pipeline(
        pool=CandidatePool((12, 6, 6), NotedSampler()),
        estimator=NotedEstimator(),
        retention=NotedRetention(),
        selector=NotedSelector(),
    )
    key = jr.key(0)
    select_points(method, model(), method.init(), key=key)
    jax.effects_barrier()
    # 3 kinds of the pool, the estimator's own and its split by kind, 2 more parts.
    assert len(KEYS) == 3 + 4 + 2
    assert len({*KEYS, tuple(jr.key_data(key).tolist())}) == len(KEYS) + 1


def residual_sizes(points, u):
    """|R| of the rows of a training set, one by one."""
    by_kind = [
        jax.jit(jax.vmap(lambda x, label, c=c: c.residual(u, x, label)[0]))
        for c in TRANSPORT.components
    ]
    residual = np.stack([R(points.x, points.label) for R in by_kind])
    return np.abs(residual[points.kind, np.arange(points.size)])


def test_the_rows_of_largest_residual_stay():
    """Old points, mixed by kind, are scored row by row, by the model of the round."""
    method = pipeline(retention=KeepBest(new=6))
    before, _ = select_points(method, model(seed=0), method.init(), key=jr.key(0))
    after, info = select_points(method, model(seed=1), before, key=jr.key(1))
    size = residual_sizes(before.points, model(seed=1))
    best = np.isin(np.arange(BUDGET), np.argsort(size)[-6:])
    stayed = chosen(TRANSPORT, after.points, after.points.mask & ~info.new)
    assert stayed == chosen(TRANSPORT, before.points, best)


RETAINED = []


class Onlooker(AbstractSelector):
    """Notes what it is told of the rows that stay."""

    def __call__(self, candidates, size, *, key):
        jax.debug.callback(
            lambda *told: RETAINED.append(told),
            candidates.retained_mask,
            candidates.retained_kind,
            candidates.retained_embedding,
        )
        return Sampling()(candidates, size, key=key)


class Changed(AbstractSelector):
    """What `Sampling` chooses, changed."""

    change: Callable = eqx.field(static=True)

    def __call__(self, candidates, size, *, key):
        return self.change(Sampling()(candidates, size, key=key))


def field(name, change):
    return lambda s: eqx.tree_at(lambda s: getattr(s, name), s, replace_fn=change)


@pytest.mark.parametrize(
    "change",
    [
        field("index", lambda i: i.at[1].set(i[0])),
        field("index", lambda i: i + 1000),
        field("index", lambda i: i - 1000),
        field("mask", lambda m: m.at[0].set(False)),
        field("weight", lambda w: w.at[0].set(jnp.nan)),
        field("weight", lambda w: -w),
    ],
    ids=["twice", "beyond", "negative", "too few", "weight NaN", "weight negative"],
)
def test_a_selector_that_breaks_its_laws(change):
    method = pipeline(selector=Changed(change))
    with pytest.raises(eqx.EquinoxRuntimeError, match="the selector chose"):
        select_points(method, model(), method.init(), key=jr.key(0))
    lawful = pipeline(selector=Changed(lambda s: s))
    select_points(lawful, model(), lawful.init(), key=jr.key(0))


def test_what_is_no_selection(no_type_checks):
    longer = lambda s: jax.tree.map(lambda a: jnp.append(a, a[-1:]), s)  # noqa: E731
    for change in (lambda s: None, lambda s: s.index, longer):
        method = pipeline(selector=Changed(change))
        with pytest.raises(ValueError, match=r"`selector` Changed returned .* rows"):
            select_points(method, model(), method.init(), key=jr.key(0))


def test_the_selector_is_told_of_the_rows_that_stay():
    method = pipeline(selector=Onlooker())
    before, _ = select_points(method, model(seed=0), method.init(), key=jr.key(0))
    after, info = select_points(method, model(seed=1), before, key=jr.key(1))
    jax.effects_barrier()
    first, (mask, kind, embedding) = RETAINED
    assert not first[0].any()
    stayed = chosen(TRANSPORT, after.points, after.points.mask & ~info.new)
    assert len(stayed) == 6
    assert chosen(TRANSPORT, before.points, mask) == stayed
    assert np.array_equal(kind[mask], before.points.kind[mask])
    # The embedding of RAD is |R| over a mean of the pool.
    size = residual_sizes(before.points, model(seed=1))[mask]
    ratio = embedding[mask][:, 0] / size
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)


class Numbered(AbstractSelector):
    """Gives the n-th candidate the weight 1 + n."""

    def __call__(self, candidates, size, *, key):
        selection = Sampling()(candidates, size, key=key)
        return eqx.tree_at(lambda s: s.weight, selection, 1.0 + selection.index)


def test_weights_follow_their_points():
    pool = CandidatePool((12, 6, 6), Fixed(0))
    method = pipeline(pool=pool, selector=Numbered())
    state = method.init()
    candidates = TRANSPORT.join(pool.draw(TRANSPORT, jnp.float32, key=jr.key(0)))
    for number in range(2):
        state, info = select_points(method, model(), state, key=jr.key(number))
        row = state.points.weight.astype(int) - 1
        assert np.array_equal(state.points.x, candidates.x[row])
        assert np.array_equal(state.points.kind, candidates.kind[row])
        assert number == 0 or info.new.sum() == 6, "or nothing is tested"


# ---------------------------------------------------------------- measurements


def test_measurements_are_asked_for_and_never_lost():
    method = pipeline(
        MEASURED,
        selector=Sampling(),
        experimental_per_round=2,
        experimental_capacity=5,
        retention=RandomRetention(fraction=0.0),
    )
    state = method.init()
    assert state.points.size == BUDGET + 5
    asked = []
    for number in range(4):
        state, info = select_points(method, model(), state, key=jr.key(number))
        points = jax.tree.map(np.asarray, state.points)
        live = points.mask[BUDGET:].sum()
        assert live == min(2 * (number + 1), 5)
        assert points.mask[:BUDGET].all()
        assert info.counts.tolist()[3] == live
        assert (points.kind[:BUDGET] != 3).all()
        assert (points.kind[BUDGET:][:live] == 3).all()
        sensor = points.x[BUDGET:][:live]
        label = points.label[BUDGET:][:live, 0]
        old = len(asked)
        assert np.array_equal(label[:old], np.arange(old)), "measured values stay"
        assert np.isnan(label[old:]).all(), "new ones are not measured yet"
        assert np.array_equal(sensor[:old], np.reshape(asked, (old, 2)))
        asked = sensor.tolist()
        measured = state.points.label.at[BUDGET : BUDGET + live, 0].set(
            np.arange(live, dtype=np.float32)
        )
        state = eqx.tree_at(lambda s: s.points.label, state, measured)


# ---------------------------------------------------------------- what is not paid for


def test_a_method_that_does_not_look_at_the_ntk_does_not_pay_for_it(paper):
    def compiled(method):
        lowered = _select.lower(  # pyright: ignore[reportFunctionMemberAccess]
            method, model(), method.init(), jr.key(0)
        )
        return str(lowered.compile().compiled.as_text())

    assert "lapack" in compiled(paper), "or nothing is tested"
    assert "lapack" not in compiled(pipeline())


def test_a_growing_set():
    method = pipeline(retention=KeepAll(initial=4, new=3))
    state, counts = method.init(), []
    for number in range(4):
        state, info = select_points(method, model(), state, key=jr.key(number))
        counts.append(int(info.counts.sum()))
    assert counts == [4, 7, 10, 12]


def test_parameters_from_elsewhere():
    u = model()
    weights, biases = u.network.weights, u.network.biases

    def apply(params, x):
        *hidden, (last, bias) = zip(*params, strict=True)
        for weight, b in hidden:
            x = jnp.tanh(weight @ x + b)
        return last @ x + bias

    foreign = Model(Apply((weights, biases), apply))
    method = pipeline()
    own, _ = select_points(method, u, method.init(), key=jr.key(0))
    other, _ = select_points(method, foreign, method.init(), key=jr.key(0))
    assert chosen(TRANSPORT, own.points) == chosen(TRANSPORT, other.points)
