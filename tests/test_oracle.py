"""Experimental points: oracles, tables, pseudo-labels, and measuring during a run."""

import inspect
import itertools
import re
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from helpers import STRIP, chosen, model, pipeline, same_bits

from pinnacle import (
    PDE,
    RESULTS,
    AbstractOracle,
    AugmentedSpace,
    CandidatePool,
    Component,
    Constant,
    ConvergenceDegree,
    Dirichlet,
    EveryN,
    FiniteSet,
    FunctionOracle,
    GradientNorm,
    Greedy,
    KMeansPlusPlus,
    Noisy,
    Observation,
    PerKindQuota,
    Points,
    RandomRetention,
    ResidualPower,
    TableOracle,
    Tempered,
    TrainingError,
    TrainingInterrupted,
    Uniform,
    fit,
    initial_state,
    load,
    pending,
    resume,
    save,
    select_points,
)
from pinnacle._oracle.labels import measure
from pinnacle._pipeline import looks_at_labels
from pinnacle._training import fit as _fit_function
from pinnacle.testing import check_domain


loop: Any = inspect.getmodule(_fit_function)
ROWS = np.random.default_rng(5).uniform(size=(7, 2))
KEY = jr.key(0)


# ---------------------------------------------------------------- oracles


def at(oracle, x, key=KEY, dtype: Any = np.float32) -> Any:
    return oracle.measure(np.asarray(x, dtype), key=key)


def test_a_function_is_an_oracle():
    assert at(FunctionOracle(lambda x: 2 * x[0]), [3, 1]) == 6
    assert at(Noisy(lambda x: x, 0.0), [3, 1]).tolist() == [3, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_table_knows_its_rows_and_no_other_point(dtype):
    oracle = TableOracle(ROWS, np.arange(7))
    for i, row in enumerate(ROWS):
        assert at(oracle, row, dtype=dtype).tolist() == [i]
    near = ROWS[3].astype(dtype)
    near[0] = np.nextafter(near[0], 2, dtype=dtype)
    place = re.escape(", ".join(map(str, near)))
    with pytest.raises(LookupError, match=rf"no row .* at \({place}\).*nearest"):
        at(oracle, near, dtype=dtype)
    guess = TableOracle(ROWS, np.arange(7), nearest=True)
    assert at(guess, near, dtype=dtype).tolist() == [3]
    assert at(guess, ROWS[5] + 1e-3, dtype=dtype).tolist() == [5]


@pytest.mark.parametrize("nearest", [False, True])
def test_a_table_of_another_dimension(nearest):
    oracle = TableOracle([[0.1], [0.9]], [1.0, 2.0], nearest)
    with pytest.raises(ValueError, match=r"1 column.*, but a point has 2 coordinates"):
        at(oracle, [0.1, 0.1])


@pytest.mark.parametrize("nearest", [False, True])
def test_a_table_without_rows(nearest):
    with pytest.raises(LookupError, match="no row of the table lies at"):
        at(TableOracle(np.zeros((0, 2)), np.zeros((0, 1)), nearest), ROWS[0])


def test_rows_at_one_place():
    twice = np.concatenate([ROWS, ROWS[2:3]])
    values = np.arange(16.0).reshape(8, 2)
    with pytest.raises(ValueError, match=r"rows 2 and 7 .*\[4.0, 5.0\] and \[14.0"):
        TableOracle(twice, values)
    values[7] = values[2]
    assert at(TableOracle(twice, values), ROWS[2]).tolist() == [4, 5]


def test_rows_that_only_a_higher_precision_tells_apart():
    x = np.array([[0.5, 0.25], [0.5, 0.25 + 1e-12], [0.5, 0.75]])
    oracle = TableOracle(x, [1, 2, 3])
    assert at(oracle, x[1], dtype=np.float64).tolist() == [2]
    assert at(oracle, x[2]).tolist() == [3]
    with pytest.raises(ValueError, match="rows 0 and 1 of the table both lie at"):
        at(oracle, x[1])


@pytest.mark.parametrize(
    ("x", "values", "message"),
    [
        (ROWS, np.arange(6), "`x` has 7 rows, `values` has 6"),
        (ROWS[:, 0], np.arange(7), r"`x` has shape \(7,\)"),
        (ROWS, [0, 1, np.nan, 3, 4, 5, 6], r"row 2 of `values` is \[nan\]"),
        (np.where(ROWS[4] == ROWS, np.inf, ROWS), np.arange(7), "row 4 of `x` is"),
        (ROWS, list("abcdefg"), "`values` holds <U1: give real numbers"),
    ],
)
def test_tables_that_make_no_sense(x, values, message):
    with pytest.raises(ValueError, match=message):
        TableOracle(x, values)


def test_noise():
    oracle = Noisy(TableOracle(ROWS, np.ones((7, 2))), [0.5, 0.0])
    keys = jr.split(jr.key(1), 60)
    values = np.array([at(oracle, ROWS[0], key) for key in keys])
    assert same_bits(at(oracle, ROWS[0], keys[7]), values[7])
    assert (values[:, 1] == 1).all()
    # Standard errors: 0.5/√60 = 0.065 of the mean, 0.5/√120 = 0.046 of the deviation.
    assert abs(values[:, 0].mean() - 1) < 3 * 0.065
    assert abs(values[:, 0].std() - 0.5) < 3 * 0.046
    assert len(set(values[:, 0].tolist())) == 60
    twice = Noisy(Noisy(lambda x: 0.0, 3.0), 4.0)
    values = np.array([at(twice, ROWS[0], key) for key in keys])
    assert abs(values.std() - 5) < 3 * 5 / np.sqrt(120)


@pytest.mark.parametrize("std", [-1.0, np.nan, [[1.0]]])
def test_noise_that_makes_no_sense(std):
    with pytest.raises(ValueError, match=r"`std` is .* standard deviation"):
        Noisy(lambda x: 0.0, std)


# ---------------------------------------------------------------- finite sets


def test_a_finite_set_is_a_domain(both_precisions):
    domain = FiniteSet(ROWS)
    dtype = np.float64 if both_precisions else np.float32
    rows = ROWS.astype(dtype)
    assert (domain.dim, domain.dof, domain.measure) == (2, 1, 7.0)
    assert domain.bounds == (tuple(ROWS.min(0).tolist()), tuple(ROWS.max(0).tolist()))
    assert domain.time_axis is None
    assert domain.fixed_axes == ()
    assert FiniteSet(ROWS * [1, 0]).fixed_axes == (1,)
    unit = (np.arange(70, dtype=dtype) + dtype(0.5)) / 70
    unit = np.append(unit, np.nextafter(1, 0, dtype=dtype))[:, None]
    x = np.asarray(eqx.filter_jit(domain.from_unit)(jnp.asarray(unit)))
    assert x.dtype == dtype
    np.testing.assert_array_equal(x[:-1], np.repeat(rows, 10, axis=0))
    np.testing.assert_array_equal(x[-1], rows[-1])
    contains = eqx.filter_jit(domain.contains)
    assert contains(jnp.asarray(x)).all()
    assert not contains(jnp.asarray(x + dtype(1e-3))).any()
    assert not contains(jnp.asarray(x[:, ::-1])).any()


def test_a_finite_set_keeps_its_digits():
    domain = FiniteSet(ROWS)  # made in float32
    with jax.enable_x64(True):
        np.testing.assert_array_equal(domain.locations, ROWS)
    check_domain(domain)


def test_a_table_of_collocation_points_fills_no_domain():
    data = Component("data", FiniteSet(ROWS), Dirichlet(), lambda x: x[0])
    assert not data.fills_domain


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (ROWS[:, 0], r"`x` has shape \(7,\).*None"),
        (ROWS[:0], r"`x` has shape \(0, 2\)"),
        (np.where(ROWS[4] == ROWS, np.nan, ROWS), r"row 4 of `x` is \[nan, nan\]"),
        (np.concatenate([ROWS, ROWS[1:3]]), "2 row.s. of `x` repeat.*row 1: give"),
        (ROWS[[0, 0]] + [[0], [1e-12]], "1 row.s. of `x` repeat.*row 0"),
    ],
)
def test_sets_that_make_no_sense(x, message):
    with pytest.raises(ValueError, match=message):
        FiniteSet(x)


# ---------------------------------------------------------------- the pool


TRACES = []


def first_is_x(u, x):
    TRACES.append(x)
    return u(x)[0] - x[0]


COMPONENTS = [
    Component("pde", STRIP, PDE(first_is_x)),
    Component("ic", STRIP.initial(), Dirichlet(), 0.5),
    Component("probe", STRIP, Observation((1, 0)), None, group="experimental"),
    Component("table", FiniteSet(ROWS), Observation(1), None, group="experimental"),
]
SPACE = AugmentedSpace(COMPONENTS)
U = model(2)


DRAWN = AugmentedSpace([COMPONENTS[0], COMPONENTS[3]])


@eqx.filter_jit
def draw(size, taken, key):
    pool = CandidatePool((3, size), Uniform())
    return pool.draw(DRAWN, jnp.float32, key=key, taken=taken)


def as_set(x):
    return set(map(tuple, np.asarray(x).tolist()))


TABLE = as_set(ROWS.astype(np.float32))


def test_a_table_is_drawn_without_replacement():
    seen = set()
    for key in jr.split(KEY, 12):
        _, table = draw(4, None, key)
        assert table.mask.all()
        assert len(as_set(table.x)) == 4
        assert as_set(table.x) <= TABLE
        seen.add(frozenset(as_set(table.x)))
    assert len(seen) > 4, "at random"
    assert set.union(*map(set, seen)) == TABLE
    _, table = draw(9, None, KEY)
    assert table.mask.tolist() == [True] * 7 + [False] * 2
    assert as_set(table.x[:7]) == TABLE


def test_rows_that_were_measured_are_not_offered():
    taken = Points(
        jnp.asarray(ROWS[1:6], jnp.float32),
        jnp.array([1, 1, 0, 1, 1]),
        jnp.array([True, True, True, False, True]),
    )
    left = as_set(ROWS[[0, 3, 4, 6]].astype(np.float32))
    for key in jr.split(KEY, 4):
        pde, table = draw(6, taken, key)
        assert table.mask.tolist() == [True] * 4 + [False] * 2
        assert as_set(table.x[:4]) == left
        assert as_set(table.x) <= TABLE, "padding has a valid place"
        assert same_bits(pde.x[3:7], table.x[:4])
        assert pde.mask.tolist() == [True] * 7 + [False] * 2
        _, table = draw(2, taken, key)
        assert table.mask.all()
        assert as_set(table.x) <= left


# ---------------------------------------------------------------- pseudo-labels


ASK, CAPACITY = 4, 8
PARTS = {
    "pool": CandidatePool((6, 4, 6, 6), Uniform()),
    "budget": 6,
    "experimental_per_round": ASK,
    "experimental_capacity": CAPACITY,
}
# Greedy RAD-All in equal shares: the layouts of its training sets never move.
METHOD = pipeline(
    SPACE,
    **PARTS,
    criterion=ResidualPower(2, 0),
    selector=PerKindQuota(Greedy()),
)


@eqx.filter_jit
def candidates(method, key):
    pool_key = jr.split(key, 4)[0]
    return method.pool.draw(SPACE, jnp.float32, key=pool_key)


def test_candidates_are_compared_with_the_future():
    future, key = model(2, seed=1), jr.key(3)
    state, info = select_points(METHOD, U, METHOD.init(), key=key, future=future)
    *_, probe, table = candidates(METHOD, key)
    outputs = jax.jit(jax.vmap(lambda x: U(x) - future(x)))
    best = set()
    for name, block, rows in (("probe", probe, [1, 0]), ("table", table, [1])):
        size = np.sum(np.asarray(outputs(block.x))[:, rows] ** 2, axis=1)
        largest = np.argsort(size)[-2:]
        best |= {(name, *x) for x in np.asarray(block.x)[largest].tolist()}
    new = {row for row in chosen(SPACE, state.points) if row[0] in ("probe", "table")}
    assert new == best, "those of the largest pseudo-residuals"
    assert np.isnan(state.points.label[6:10]).all(), "pseudo-labels are no labels"
    assert (state.points.label[:6] == 0).all()
    waiting = [False] * 6 + [True] * 4 + [False] * 4
    assert pending(SPACE, state.points).tolist() == waiting

    measured = state.points.label.at[6:8].set(7.0)
    half = eqx.tree_at(lambda s: s.points.label, state, measured)
    again, info = select_points(METHOD, U, half, key=jr.key(4), future=future)
    assert info.result == RESULTS.successful, "some are still to be measured"
    assert (again.points.label[6:8] == 7).all()
    assert np.isnan(again.points.label[8:]).all()


def test_without_a_future_measurements_are_spread_at_random():
    chances = {}
    for key in jr.split(KEY, 20):
        state, info = select_points(METHOD, U, METHOD.init(), key=key)
        assert info.score_share[2:].sum() == 0
        assert info.counts.tolist() == [3, 3, 2, 2]
        for row in chosen(SPACE, state.points):
            chances[row] = chances.get(row, 0) + 1
    table = [n for row, n in chances.items() if row[0] == "table"]
    assert len(table) == 7, "each row now and then"
    assert max(table) < 16


def test_all_kinds_are_chosen_together_each_group_to_its_own_budget():
    """By one K-means++ over all candidates, until the table has no more rows."""
    few = FiniteSet(ROWS[:3])
    table = Component("t", few, Dirichlet(1), None, group="experimental")
    method = pipeline(
        AugmentedSpace([COMPONENTS[0], COMPONENTS[1], table]),
        pool=CandidatePool((8, 6, 3), Uniform()),
        criterion=ConvergenceDegree(),
        selector=KMeansPlusPlus(),
        retention=RandomRetention(new=4),
        budget=6,
        experimental_per_round=2,
        experimental_capacity=6,
    )
    state, future, splits = method.init(), model(2, seed=1), set()
    for number, measured in enumerate((2, 3, 3)):
        u, key = model(2, seed=9 + number), jr.key(number)
        state, info = select_points(method, u, state, key=key, future=future)
        assert info.result == RESULTS.successful
        assert info.counts[:2].sum() == 6
        assert info.counts[2] == measured
        assert info.new_counts[:2].sum() == (4 if number else 6)
        splits.add(tuple(info.counts.tolist()[:2]))
        points = jax.tree.map(np.asarray, state.points)
        assert as_set(points.x[6 : 6 + measured]) <= TABLE
        assert len(as_set(points.x[6 : 6 + measured])) == measured, "no row twice"
        labels = jnp.nan_to_num(state.points.label)
        state = eqx.tree_at(lambda s: s.points.label, state, labels)
    assert len(splits) > 1


def test_who_looks_at_labels():
    def looks(criterion, space=SPACE):
        return looks_at_labels(pipeline(space, **PARTS, criterion=criterion))

    assert looks(ResidualPower())
    assert looks(ConvergenceDegree())
    assert looks(Tempered(GradientNorm(), 2.0))
    assert not looks(Constant())
    assert not looks_at_labels(pipeline())
    known = eqx.tree_at(
        lambda s: [c.target for c in s.components[2:]],
        SPACE,
        [jnp.zeros(2), jnp.zeros(1)],
        is_leaf=lambda t: t is None,
    )
    assert not looks(ResidualPower(), known)


def test_static_mistakes_in_the_pipeline():
    parts = {**PARTS, "pool": CandidatePool((6, 4, 1, 2), Uniform())}
    with pytest.raises(ValueError, match="draws 3 candidates for measurements"):
        pipeline(SPACE, **parts)


# ---------------------------------------------------------------- measuring in a run


def truth(x):
    """A label that only this place has: no two places could be mixed up."""
    return 1 + x[0] + 10 * x[1]


class Watched(AbstractOracle):
    """Remembers what it is asked for, and at some call does something else."""

    outputs: int
    calls: list
    special: dict

    def measure(self, x, *, key):
        number = len(self.calls)
        self.calls.append(tuple(x.tolist()))
        if number in self.special:
            return self.special[number](x)
        noise = np.asarray(jr.normal(key, (self.outputs,)))
        return truth(x) + 0.01 * noise


def watched(**special):
    """Oracles of both kinds; `probe2=f` does f at the third call of that kind."""
    pick = lambda name: {int(k[5:]): f for k, f in special.items() if name == k[:5]}  # noqa: E731
    return {
        "probe": Watched(2, [], pick("probe")),
        "table": Watched(1, [], pick("table")),
    }


ADAM = optax.adam(1e-2)
SETTINGS = {"trigger": EveryN(4), "pseudo_steps": 5}


def run(oracle, steps=12, **settings):
    settings = {"key": KEY, **SETTINGS, **settings}
    return fit(METHOD, U, ADAM, steps=steps, oracle=oracle, **settings)


def go_on(state, oracle, steps, **settings):
    return resume(
        METHOD, state, ADAM, steps=steps, oracle=oracle, **{**SETTINGS, **settings}
    )


@pytest.fixture(scope="module")
def whole(quick_compile):
    run(watched(), pseudo_steps=0)
    oracle, compiled = watched(), len(TRACES)
    done = run(oracle)
    # `fit` itself looks at every residual once, abstractly.
    return done, oracle, len(TRACES) - compiled - 1


def measured(points):
    """(kind, x, label) of the experimental rows, as plain numbers."""
    points = jax.tree.map(np.asarray, points)
    rows = [i for i in range(6, 14) if points.mask[i]]
    return [
        (SPACE.names[points.kind[i]], tuple(points.x[i].tolist()), points.label[i])
        for i in rows
    ]


def test_labels_stay_with_their_points(whole):
    done, oracle, _ = whole
    assert len(done.history.rounds["round"]) == 3
    for number, points in enumerate(done.history.points):
        rows = measured(points)
        assert len(rows) == min(4 * (number + 1), 8)
        for name, x, label in rows:
            outputs = oracle[name].outputs
            assert x in oracle[name].calls
            np.testing.assert_allclose(label[:outputs], truth(x), atol=0.05)
            assert (label[outputs:] == 0).all()
    last = {(name, x): label for name, x, label in measured(done.history.points[-1])}
    for name, x, label in measured(done.history.points[0]):
        assert same_bits(last[name, x], label), "and are never measured again"
    calls = oracle["probe"].calls + oracle["table"].calls
    assert len(calls) == len(set(calls)) == 8


def test_only_observed_outputs_count(whole):
    """The loss of the table is that of output 1 alone, of the probe that of both."""
    done, *_ = whole
    residual = {"probe": [], "table": []}
    for name, x, label in measured(done.state.selection.points):
        u = np.asarray(done.model(jnp.asarray(x)))
        outputs = [1, 0] if name == "probe" else [1]
        residual[name].append(np.sum((u[outputs] - label[: len(outputs)]) ** 2))
    for name, squares in residual.items():
        got = done.history.training[f"loss/{name}"][-1]
        np.testing.assert_allclose(got, np.mean(squares) / 2, rtol=1e-5)


@pytest.mark.parametrize("first", [1, 4, 7])
def test_a_run_from_a_checkpoint_is_the_same_bit_for_bit(first, whole, tmp_path):
    start, oracle = run(watched(), first), watched()
    save(tmp_path / "state", start.state)
    like = initial_state(METHOD, U, ADAM, key=KEY, trigger=EveryN(4))
    done = go_on(load(tmp_path / "state", like), oracle, 12 - first)
    assert same_bits(done.state, whole[0].state)
    asked = len(oracle["probe"].calls + oracle["table"].calls)
    assert asked == (0 if first > 4 else 4)


def boom(x):
    raise ConnectionError("the line is dead")


FAILURES = {
    "raises": ("probe1", boom, "raised ConnectionError: the line is dead"),
    "nan": ("probe1", lambda x: [np.nan, 1.0], r"returned \[nan, 1.0\].*not finite"),
    "infinite": ("table0", lambda x: np.inf, "returned inf, which is not finite"),
    "too large": ("table1", lambda x: 1e300, "returned 1e.300, which is not finite"),
    "shape": ("probe0", lambda x: np.ones((2, 1)), r"of shape \(2, 1\): return 2"),
    "one number": ("probe0", lambda x: 3.0, r"of shape \(\): return 2 number"),
    "words": ("table1", lambda x: "high", "returned 'high', which is not made of"),
    "nothing": ("table1", lambda x: None, "returned None, which is not made of"),
    "ragged": ("probe1", lambda x: [[1.0], [1.0, 2.0]], "raised ValueError"),
    "second round": ("table3", boom, "raised ConnectionError"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_an_oracle_that_fails(case, whole):
    where, how, message = FAILURES[case]
    oracle = watched(**{where: how})
    with pytest.raises(TrainingError, match=message) as caught:
        run(oracle)
    name, done = where[:5], caught.value.fit
    words = str(caught.value)
    assert f"the oracle of {name!r}" in words
    for number in np.asarray(oracle[name].calls[-1], np.float32):
        assert str(number) in words, "it says where"
    assert "`resume`" in words, "and what to do"
    raised = isinstance(caught.value.__cause__, ConnectionError)
    assert raised == (how is boom)
    assert done.result == RESULTS.oracle_failed
    assert done.message == words

    asked = len(oracle["probe"].calls + oracle["table"].calls)
    rows = measured(done.state.selection.points)
    labelled = [row for row in rows if not np.isnan(row[2]).any()]
    assert len(labelled) == asked - 1, "all that was measured is there"
    later = watched()
    end = go_on(done.state, later, 12 - int(done.state.step))
    again = len(later["probe"].calls + later["table"].calls)
    assert asked - 1 + again == 8, "only what was missing is asked for"
    assert same_bits(end.state, whole[0].state)


def test_an_oracle_that_fails_without_throw():
    done = run(watched(probe1=boom), throw=False)
    assert done.result == RESULTS.oracle_failed
    assert "ConnectionError" in done.message
    assert np.isnan(done.history.points[-1].label).any()


def test_ctrl_c_while_measuring(whole):
    def press(x):
        raise KeyboardInterrupt

    oracle = watched(table1=press)
    with pytest.raises(TrainingInterrupted) as caught:
        run(oracle)
    done, later = caught.value.fit, watched()
    asked = len(oracle["probe"].calls + oracle["table"].calls)
    assert pending(SPACE, done.state.selection.points).sum() == 4 - (asked - 1)
    end = go_on(done.state, later, 12)
    assert len(later["probe"].calls + later["table"].calls) == 8 - (asked - 1)
    assert same_bits(end.state, whole[0].state)


def test_measuring_days_later_on_another_machine(tmp_path):
    stop = run(watched(), callbacks=[lambda p: p.selection is not None])
    assert stop.result == RESULTS.successful
    assert int(stop.state.step) == 0
    save(tmp_path / "state", stop.state)

    like = initial_state(METHOD, U, ADAM, key=jr.key(99), trigger=EveryN(4))
    state = load(tmp_path / "state", like)
    wanted = pending(SPACE, state.selection.points)
    assert wanted.tolist() == [False] * 6 + [True] * 4 + [False] * 4
    x, kind = (
        np.asarray(state.selection.points.x)[wanted],
        np.asarray(state.selection.points.kind)[wanted],
    )
    values = np.array([truth(row) for row in x])
    tables = {
        "probe": TableOracle(x[kind == 2], values[kind == 2, None] * [1, 2]),
        "table": TableOracle(x[kind == 3], values[kind == 3]),
    }
    done = go_on(state, tables, 4)
    rows = measured(done.state.selection.points)
    assert len(rows) == 4
    for name, x, label in rows:
        wanted = truth(np.asarray(x, np.float32)) * np.array(
            [1, 2 if name == "probe" else 0]
        )
        np.testing.assert_allclose(label, wanted, rtol=1e-6)


def test_a_place_is_not_measured_twice():
    a, b, c = ROWS[:3].astype(np.float32)
    beside = np.array([a[0], c[1]])
    points = Points(
        jnp.array([a, b, a, a, c, b, c, beside]),
        jnp.array([2, 2, 2, 3, 3, 2, 0, 2]),
        jnp.array([True] * 8),
        jnp.array([[np.nan] * 2] * 5 + [[8.0, 9.0], [0.0, 0.0], [np.nan] * 2]),
    )
    assert pending(SPACE, points).tolist() == [True] * 5 + [False] * 2 + [True]
    oracle = watched()
    steps = [np.asarray(labels) for labels in measure(SPACE, oracle, points, key=KEY)]
    assert oracle["probe"].calls == as_tuples([a, beside]), (
        "and b has been measured before"
    )
    assert oracle["table"].calls == as_tuples([a, c]), "another kind, another label"
    last = steps[-1]
    assert same_bits(last[0], last[2])
    assert last[1].tolist() == [8, 9]
    assert last[3, 0] != last[0, 0]
    missing = [int(np.isnan(labels).any(axis=1).sum()) for labels in steps]
    assert missing == [5, 4, 3, 2, 1, 0]
    for before, after in itertools.pairwise(steps):
        known = ~np.isnan(before)
        assert same_bits(before[known], after[known])


def as_tuples(rows):
    return [tuple(row.tolist()) for row in rows]


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        (None, r"missing for the kind\(s\) \['probe', 'table'\]: pass `oracle="),
        ({"probe": truth}, r"missing for the kind\(s\) \['table'\].*target"),
        ({"ic": truth}, r"names \['ic'\], but .* are \['probe', 'table'\]"),
        (truth, r"one oracle, but 2 kinds are measured, \['probe', 'table'\]"),
        ({"probe": truth, "table": 3.0}, "`oracle` is 3.0: give a function"),
    ],
)
def test_oracles_that_do_not_fit(oracle, message, no_type_checks):
    with pytest.raises(ValueError, match=message):
        run(oracle)
    state = initial_state(METHOD, U, ADAM, key=KEY, trigger=EveryN(4))
    with pytest.raises(ValueError, match=message):
        go_on(state, oracle, 1)


def test_an_oracle_for_nothing():
    with pytest.raises(ValueError, match="`oracle` is given, but nothing is measured"):
        fit(pipeline(), model(), ADAM, steps=1, key=KEY, oracle=truth)


def test_a_run_that_needs_no_oracle(whole):
    done = go_on(whole[0].state, None, 1)
    assert done.result == RESULTS.successful, "all places have been measured"
    with pytest.raises(ValueError, match="`pseudo_steps` is -1"):
        run(watched(), pseudo_steps=-1)


# ---------------------------------------------------------------- looking ahead


def test_looking_ahead_is_as_many_steps_that_leave_no_trace(monkeypatch, whole):
    futures, phases = [], []
    select, train = loop._select, loop.train

    def watch_select(method, u, state, key, future):
        futures.append((u, future))
        return select(method, u, state, key, future)

    def watch_train(space, optimiser, u, state, points, steps, *, layout):
        phases.append((u, state, int(steps)))
        return train(space, optimiser, u, state, points, steps, layout=layout)

    monkeypatch.setattr(loop, "_select", watch_select)
    monkeypatch.setattr(loop, "train", watch_train)
    done = run(watched(), report_every=100)
    assert same_bits(done.state, whole[0].state)
    assert whole[2] == 0, "it compiles nothing"

    assert [steps for *_, steps in phases] == [4, 5, 4, 4], "none once all is measured"
    first, second, third = futures
    assert same_bits(*first), "nothing to train on yet"
    assert same_bits(*third)
    _, ahead, after, _ = phases
    assert same_bits(ahead[0], second[0])
    assert same_bits(ahead[:2], after[:2]), "model and optimiser go on as they were"
    # Five steps further on the first training set are those of a run that never stops.
    straight = run(watched(), 9, trigger=EveryN(100))
    assert same_bits(second[1], straight.model)


def test_a_future_that_explodes(monkeypatch):
    """The last model with a finite loss stands in for it."""
    train, select, steps, futures = loop.train, loop._select, [], []

    def explode(*args, layout):
        steps.append(int(args[-1]))
        u, state, report = train(*args, layout=layout)
        if steps[-1] == 5:
            broken = (np.int32(3), np.bool_(False))
            report = eqx.tree_at(lambda r: (r.done, r.finite), report, broken)
        return u, state, report

    def watch(*args):
        futures.append(args[-1])
        return select(*args)

    monkeypatch.setattr(loop, "train", explode)
    monkeypatch.setattr(loop, "_select", watch)
    done = run(watched(), 6, report_every=100)
    assert done.result == RESULTS.successful
    assert steps == [4, 5, 2, 2]
    straight = run(watched(), 6, trigger=EveryN(100), report_every=100)
    assert same_bits(futures[1], straight.model)


def test_a_method_that_looks_at_no_label_does_not_pay_for_it(monkeypatch):
    train, steps = loop.train, []

    def count(*args, layout):
        steps.append(int(args[-1]))
        return train(*args, layout=layout)

    monkeypatch.setattr(loop, "train", count)
    monkeypatch.setattr(loop, "looks_at_labels", lambda pipeline: False)
    run(watched(), 8, report_every=100)
    assert steps == [4, 4]
