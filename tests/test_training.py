"""Loss, layouts, the training loop and how runs end."""

import dataclasses
import inspect
import logging
import math
from collections.abc import Callable

import equinox as eqx
import hypothesis
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from helpers import (
    POISSON,
    STRIP,
    TRANSPORT,
    X,
    chosen,
    model,
    pipeline,
    same_bits,
)
from hypothesis import strategies as st
from jaxtyping import Array

from pinnacle import (
    PDE,
    RESULTS,
    AbstractResidualOptimiser,
    AbstractTrigger,
    AugmentedSpace,
    CandidatePool,
    Coefficient,
    Component,
    ConvergenceDegree,
    Dirichlet,
    Either,
    EveryN,
    GaussNewton,
    Greedy,
    History,
    Interval,
    Model,
    NTKDrift,
    Nystrom,
    Points,
    Sampling,
    StepInfo,
    TrainingError,
    TrainingInterrupted,
    Uniform,
    fit,
    initial_state,
    lbfgs,
    loss_by_kind,
    residual_rows,
    resume,
    select_points,
)
from pinnacle._training import fit as _fit_function
from pinnacle._training.layout import SLOTS, choose_layout, empty_layouts


RAD = pipeline()
ADAM = optax.adam(1e-2)
TRIGGER = EveryN(10)
loop = inspect.getmodule(_fit_function)


def run(steps, **settings):
    settings = {"key": jr.key(0), "trigger": TRIGGER, **settings}
    method = settings.pop("method", RAD)
    return fit(method, settings.pop("model", model()), ADAM, steps=steps, **settings)


def go_on(result, steps, trigger: AbstractTrigger = TRIGGER, **settings):
    return resume(RAD, result.state, ADAM, steps=steps, trigger=trigger, **settings)


# ---------------------------------------------------------------- the loss


@eqx.filter_jit
def losses(space, u, points, layout):
    blocks = space.split(points, layout)
    return loss_by_kind(space, u, blocks), residual_rows(space, u, blocks)


# û = x² t with known derivatives: no differentiation in the expected values.
CLOSED = Model(lambda x: x[0] ** 2 * x[1])


def some_points():
    rng = np.random.default_rng(3)
    x, weight = rng.uniform(size=(7, 2)), rng.uniform(0.5, 2, size=7)
    kind = np.array([0, 1, 0, 2, 0, 1, 0], np.int32)
    mask = np.array([1, 1, 1, 1, 1, 1, 0], bool)
    label = jnp.zeros((7, 1))
    x, weight = jnp.asarray(x), jnp.asarray(weight)
    return Points(x, jnp.asarray(kind), jnp.asarray(mask), label, weight)


def test_the_loss_by_hand(x64):
    points = some_points()
    got, rows = losses(TRANSPORT, CLOSED, points, (4, 2, 3))
    x, t = np.asarray(points.x).T
    w, kind = np.asarray(points.weight), np.asarray(points.kind)
    live = np.asarray(points.mask)
    residual = [
        x**2 + 2 * x * t,  # u_t + u_x
        x**2 * t - np.sin(2 * np.pi * x),
        x**2 * t - (x + 1) ** 2 * t,
    ]
    for r in range(3):
        here = live & (kind == r)
        wanted = np.sum(w[here] * residual[r][here] ** 2) / (2 * here.sum())
        np.testing.assert_allclose(got[r], wanted, rtol=1e-12)
    np.testing.assert_allclose(0.5 * np.sum(rows**2), got.sum(), rtol=1e-12)


def test_padding_does_not_matter():
    tight, _ = losses(TRANSPORT, model(), some_points(), (3, 2, 1))
    roomy, _ = losses(TRANSPORT, model(), some_points(), (9, 5, 4))
    np.testing.assert_allclose(roomy, tight, rtol=1e-6)


@pytest.mark.parametrize("capacity", [0, 3])
def test_an_empty_kind_is_0_and_so_is_its_gradient(capacity):
    points = some_points()
    points = eqx.tree_at(lambda p: p.mask, points, points.mask & (points.kind != 1))

    @eqx.filter_jit
    def one(u):
        blocks = TRANSPORT.split(points, (4, capacity, 2))
        return loss_by_kind(TRANSPORT, u, blocks)[1]

    value, gradient = eqx.filter_value_and_grad(one)(model())
    assert value == 0
    assert all(not np.any(g) for g in jax.tree.leaves(gradient))


# ---------------------------------------------------------------- layouts


BUDGET = 60


@hypothesis.given(
    st.lists(st.tuples(*[st.integers(0, 30)] * 2), min_size=1, max_size=60)
)
@hypothesis.settings(deadline=None, max_examples=200)
def test_layouts(splits):
    layouts, used = empty_layouts(3), set()
    largest, measured = np.full(3, BUDGET, np.int32), np.zeros(3, bool)
    for round, (first, second) in enumerate(splits):
        counts = np.array([first, second, BUDGET - first - second], np.int32)
        before = [tuple(row) for row in layouts.tolist() if any(row)]
        layout, layouts = choose_layout(layouts, counts, largest, measured, round)
        used.add(layout)
        assert np.all(np.asarray(layout) >= counts), "every point has a row"
        assert np.all(np.asarray(layout) <= BUDGET)
        fits = [sum(row) for row in before if np.all(np.asarray(row) >= counts)]
        if fits:
            assert sum(layout) <= min(fits), "never looser than what there is"
            if min(fits) <= 1.1 * BUDGET:
                assert layout in before, "a tight one is used again"
        assert layouts.dtype == np.int32
        assert len(used) <= SLOTS + max(0, (round - 20) // 10)
    made = [tuple(row) for row in layouts.tolist() if any(row)]
    assert len(set(made)) == len(made), "no layout is made twice"


def test_the_first_layout_fits_closely():
    counts, none = np.array([7, 0, 240], np.int32), np.zeros(3, bool)
    largest = np.full(3, 300, np.int32)
    layout, layouts = choose_layout(empty_layouts(3), counts, largest, none, 0)
    assert layout == (8, 0, 240)
    assert choose_layout(layouts, counts, largest, none, 1)[0] == layout


@pytest.mark.parametrize("rounds", [20, 100])
def test_a_split_that_drifts_costs_few_empty_rows(rounds):
    """From conditions to the equation and back to one of them, as on advection."""
    largest, none = np.full(3, 1000, np.int32), np.zeros(3, bool)
    wasted = []
    for seed in range(10):
        rng, layouts, rows = np.random.default_rng(seed), empty_layouts(3), 0
        for round in range(rounds):
            late = 1 - np.exp(-round / 5)
            share = np.array([0.58, 0.38, 0.04]) * (1 - late)
            share = share + np.array([0.75, 0.1, 0.15]) * late
            counts = rng.multinomial(1000, share).astype(np.int32)
            layout, layouts = choose_layout(layouts, counts, largest, none, round)
            rows += sum(layout)
        wasted.append(rows / (1000 * rounds) - 1)
    assert np.median(wasted) < 0.3


def test_layouts_grow_with_measured_points():
    """1,000 points beside up to 3,000 measured ones, 150 more in each round."""
    largest, measured = np.array([1000, 3000], np.int32), np.array([False, True])
    layouts, rows = empty_layouts(2), []
    rounds = np.arange(150, 3001, 150)
    for round, labels in enumerate(rounds):
        counts = np.array([1000, labels], np.int32)
        layout, layouts = choose_layout(layouts, counts, largest, measured, round)
        assert np.all(np.asarray(layout) >= counts)
        rows.append(sum(layout))
    assert len(set(rows)) <= SLOTS
    assert sum(rows) < 1.2 * (1000 + rounds).sum()


def counting(monkeypatch, **limits):
    """Count the compilations of `fit`; the limits hold."""
    traces = dict.fromkeys(limits, 0)
    for name, limit in limits.items():
        plain = getattr(loop, name).__wrapped__

        def counted(*args, _plain=plain, _name=name, **kwargs):
            traces[_name] += 1
            return _plain(*args, **kwargs)

        once = eqx.debug.assert_max_traces(counted, max_traces=limit)
        monkeypatch.setattr(loop, name, eqx.filter_jit(once))
    return traces


def test_compilations_of_a_run_of_20_rounds(monkeypatch):
    traces = counting(monkeypatch, _select=1, train=6)
    free = pipeline(
        selector=Sampling(), budget=24, pool=CandidatePool((20, 20, 20), Uniform())
    )
    done = fit(free, model(), ADAM, steps=40, key=jr.key(0), trigger=EveryN(2))
    assert done.history.rounds["round"].tolist() == list(range(1, 21))
    split = {
        tuple(done.history.rounds[f"count/{n}"][i] for n in TRANSPORT.names)
        for i in range(20)
    }
    assert len(split) > 6, "or nothing is tested"
    assert traces["_select"] == 1
    assert 1 < traces["train"] <= 6


# ---------------------------------------------------------------- histories


@pytest.fixture(scope="module")
def thirty(quick_compile):
    return run(30, report_every=10)


def test_the_history_is_complete():
    unknown = Coefficient(jnp.log(0.5), jnp.exp)
    pair = Coefficient(jnp.array([1.0, 2.0]))
    u = model(coefficients={"speed": unknown, "pair": pair})

    def residual(u, x):
        return u["speed"] * u(x)[0] + u["pair"][1]

    space = AugmentedSpace(
        [
            Component("pde", STRIP, PDE(residual)),
            Component("ic", STRIP.initial(), Dirichlet(), lambda x: x[X]),
        ]
    )
    done = run(
        15,
        method=pipeline(space),
        model=u,
        report_every=4,
        metrics=lambda u: {"error": jnp.abs(u(jnp.ones(2))[0])},
    )
    training, rounds = done.history.training, done.history.rounds
    assert set(training) == {
        "step", "seconds_training", "seconds_selecting", "seconds_compiling", "loss",
        "loss/pde", "loss/ic", "error", "coefficient/speed", "coefficient/pair/0",
        "coefficient/pair/1",
    }  # fmt: skip
    assert set(rounds) == {
        "round", "step", "reason", "drift", "seconds", "count/pde", "count/ic",
        "new/pde", "new/ic", "share/pde", "share/ic",
    }  # fmt: skip
    assert training["step"].tolist() == [4, 8, 12, 15]
    assert rounds["step"].tolist() == [0, 10]
    assert rounds["reason"].tolist() == ["first", "period"]
    np.testing.assert_allclose(
        training["loss"], training["loss/pde"] + training["loss/ic"], rtol=1e-5
    )
    assert training["coefficient/speed"][-1] == done.model["speed"]
    assert training["coefficient/pair/1"][-1] == done.model["pair"][1] != 2
    moved = training["coefficient/speed"][-1] - 0.5
    assert abs(moved) > 1e-3, "unknown numbers are trained"
    assert (np.diff(training["seconds_training"]) > 0).all()
    compiling = training["seconds_compiling"]
    both = training["seconds_training"] + training["seconds_selecting"]
    assert (compiling > 0).all()
    assert (compiling < both).all()
    assert len(done.history.points) == 2
    assert same_bits(done.history.points[-1], done.state.selection.points)


def test_the_last_losses_are_those_of_the_model_returned(thirty):
    space, layout = TRANSPORT, (12, 12, 12)
    wanted, _ = losses(space, thirty.model, thirty.state.selection.points, layout)
    got = [thirty.history.training[f"loss/{name}"][-1] for name in space.names]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    before, _ = losses(space, model(), thirty.state.selection.points, layout)
    assert wanted.sum() < before.sum()


def test_every_round_brings_points_of_its_own(thirty):
    rounds = thirty.history.rounds
    sets = [chosen(TRANSPORT, points) for points in thirty.history.points]
    assert len(sets) == 3
    for number, points in enumerate(sets[1:], 1):
        new = sum(rounds[f"new/{name}"][number] for name in TRANSPORT.names)
        assert len(points - set.union(*sets[:number])) == new == 6


class Remembers(AbstractTrigger):
    """Selects every 10 steps, and keeps what it is given at the start of a phase."""

    def init(self, space, model, *, key):
        return model, key

    def next_look(self, steps):
        return (steps // 10 + 1) * 10

    def __call__(self, state, space, model, steps):
        return True, jnp.asarray(jnp.nan)


def test_the_trigger_starts_every_phase_from_the_model_of_the_selection():
    states = []

    def watch(progress):
        if progress.selection is not None:
            states.append(progress.state)

    run(25, trigger=Remembers(), callbacks=[watch])
    models, keys = zip(*(state.trigger for state in states), strict=True)
    assert same_bits(models, tuple(state.model for state in states))
    assert not same_bits(models[0], models[1])
    assert len({tuple(jr.key_data(key).tolist()) for key in keys}) == 3
    # The points of the round were not drawn with the trigger's key.
    other, _ = select_points(RAD, models[0], RAD.init(), key=keys[0])
    assert not same_bits(other.points, states[0].selection.points)


def test_the_same_key_gives_the_same_bits(thirty):
    assert same_bits(run(30, report_every=10).state, thirty.state)
    other = run(30, report_every=10, key=jr.key(1))
    same = set(map(tuple, np.asarray(other.history.points[0].x).tolist()))
    assert not same & set(map(tuple, thirty.history.points[0].x.tolist()))


@pytest.mark.parametrize("report_every", [1, 7, 1000, None])
def test_looking_changes_nothing(report_every, thirty):
    done = run(
        30, report_every=report_every, metrics=lambda u: {"a": u(jnp.ones(2))[0]}
    )
    assert same_bits(done.state, thirty.state)


@pytest.mark.parametrize("first", [1, 10, 17, 20])
def test_stopping_and_going_on_changes_nothing(first, thirty):
    start = run(first)
    done = go_on(start, 30 - first, report_every=10)
    assert same_bits(done.state, thirty.state)
    rounds = (start.history + done.history).rounds
    clock = (start.history + done.history).training["seconds_training"]
    assert (np.diff(clock) > 0).all()
    for name in set(rounds) - {"seconds"}:
        np.testing.assert_array_equal(rounds[name], thirty.history.rounds[name])


def test_going_on_with_the_drift_trigger():
    trigger = Either(EveryN(20), NTKDrift(0.02, every=5, points=4))
    whole = run(30, trigger=trigger)
    start = run(12, trigger=trigger)
    done = go_on(start, 18, trigger)
    assert same_bits(done.state, whole.state)
    rounds = whole.history.rounds
    np.testing.assert_array_equal(
        (start.history + done.history).rounds["drift"], rounds["drift"]
    )
    assert len(rounds["step"]) > 2, "it fires before the period ends"
    assert (rounds["step"] % 5 == 0).all()
    fired = rounds["drift"][1:][np.diff(rounds["step"]) < 20]
    assert (fired >= 0.02).all()


def test_a_result_prints_as_one_line(thirty):
    loss, last = thirty.history.training["loss"][-1], thirty.history.last()
    assert last["step"] == 30
    assert last["loss"] == loss
    assert repr(thirty) == f"FitResult(step=30, loss={loss:.4g}, successful)"
    assert repr(thirty.history).startswith("History(3 reports of step, ")
    early = dataclasses.replace(
        thirty,
        history=History({}, {}, []),
        result=RESULTS.oracle_failed,
        message="a\nlong story",
    )
    assert repr(early) == "FitResult(ended early at step 30: a long story)"
    assert early.history.last() == {}


def test_one_step():
    done = run(1)
    assert done.history.training["step"].tolist() == [1]
    assert int(done.state.step) == 1
    assert not same_bits(done.model, model())


# ---------------------------------------------------------------- how runs end


def test_static_mistakes(no_type_checks):
    with pytest.raises(ValueError, match="`steps` is 0"):
        run(0)
    with pytest.raises(ValueError, match="`report_every` is 0"):
        run(5, report_every=0)
    for name in ("steps", "report_every", "pseudo_steps"):
        for value in (2.5, True, "3"):
            settings = {"steps": 5, name: value}
            with pytest.raises(ValueError, match=f"`{name}` is {value!r}"):
                run(**settings)
    for trigger in (5, EveryN):
        with pytest.raises(ValueError, match=r"`trigger` is .*: give one such as"):
            run(5, trigger=trigger)
    for metrics, message in (
        (lambda u: 1.0, "`metrics` returns 1.0"),
        (lambda u: {"error": u(jnp.ones(2))}, r"shape \(1,\) as 'error'"),
        (lambda u: {"loss": 1.0}, "'loss', which is a column"),
        (lambda u: {"coefficient/a": 1.0}, "'coefficient/a', which is a column"),
    ):
        with pytest.raises(ValueError, match=message):
            run(5, metrics=metrics)
    with pytest.raises(TypeError) as caught:
        run(5, metrics=lambda u: {"error": float(u(jnp.ones(2))[0])})
    assert any("`metrics`, which is compiled" in n for n in caught.value.__notes__)
    with pytest.raises(ValueError, match="`key` is 0"):
        fit(RAD, model(), ADAM, steps=1, key=0)  # pyright: ignore
    with pytest.raises(ValueError, match=r"`pipeline` is .*make_method\(...\)"):
        fit("rad", model(), ADAM, steps=1, key=jr.key(0))  # pyright: ignore
    with pytest.raises(ValueError, match=r"`pipeline` is .*make_method\(...\)"):
        resume(RAD.criterion, None, ADAM, steps=1)  # pyright: ignore
    with pytest.raises(ValueError, match="`state` is None"):
        resume(RAD, None, ADAM, steps=1)  # pyright: ignore
    with pytest.raises(ValueError, match=r"`optimiser` is 0.001: give an optax"):
        fit(RAD, model(), 1e-3, steps=1, key=jr.key(0))
    with pytest.raises(ValueError, match=r"`model` is MLP: wrap the network in `Model"):
        fit(RAD, model().network, ADAM, steps=1, key=jr.key(0))
    wrong = pipeline(
        AugmentedSpace([Component("pde", STRIP, PDE(lambda u, x: u(x), rows=2))])
    )
    with pytest.raises(ValueError, match="returned 1 rows, but `rows` is 2"):
        fit(wrong, model(), ADAM, steps=1, key=jr.key(0))
    with pytest.raises(TypeError, match="key"):
        fit(RAD, model(), ADAM, steps=1)  # pyright: ignore


def test_a_metric_that_the_optimiser_reports_already():
    metrics = lambda u: {"damping": jnp.ones(())}  # noqa: E731
    with pytest.raises(ValueError, match="'damping', which is a column"):
        fit(RAD, model(), GaussNewton(), steps=1, key=jr.key(0), metrics=metrics)


WIDER = AugmentedSpace([*TRANSPORT.components, Component("all", STRIP, Dirichlet())])
ROD = AugmentedSpace(
    [Component(name, Interval(0, 1), Dirichlet()) for name in TRANSPORT.names]
)
MATRIX = AugmentedSpace(
    [
        *TRANSPORT.components[:2],
        Component("two", STRIP, PDE(lambda u, x: (u(x), u(x)), rows=2)),
    ]
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"pipeline": pipeline(budget=9)},
            r"`budget` \+ .* is 12, not 9",
        ),
        ({"pipeline": pipeline(budget=15)}, "`budget` .* is 12, not 15"),
        ({"pipeline": pipeline(WIDER)}, "its number of kinds is 3, not 4"),
        ({"pipeline": pipeline(ROD)}, "its dimension is 2, not 1"),
        ({"pipeline": pipeline(MATRIX)}, "its rows a point is 1, not 2"),
        (
            {"optimiser": optax.sgd(0.1)},
            "its kind of optimiser is another",
        ),
        ({"trigger": NTKDrift(0.5, 2, 3)}, "its kind of trigger is another"),
    ],
)
def test_a_state_of_another_run_is_refused(changes, message):
    state = initial_state(RAD, model(), ADAM, key=jr.key(0))
    settings = {"pipeline": RAD, "state": state, "optimiser": ADAM, "steps": 1}
    with pytest.raises(ValueError, match=f"`state` does not fit .*{message}"):
        resume(**{**settings, **changes})


def finite(u):
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(u.partition()[0]))


@pytest.mark.parametrize("report_every", [1, 100])
def test_a_loss_that_explodes(report_every):
    def explode(step):
        return jnp.where(step < 13, 1e-2, 1e30)

    settings = {
        "steps": 100,
        "key": jr.key(0),
        "trigger": TRIGGER,
        "report_every": report_every,
    }
    optimiser = optax.sgd(explode)
    with pytest.raises(TrainingError, match="loss became NaN or infinite") as caught:
        fit(RAD, model(), optimiser, **settings)
    done = caught.value.fit
    assert done.result == RESULTS.nonfinite_loss
    assert int(done.state.step) == 13
    assert finite(done.model)
    value, _ = losses(TRANSPORT, done.model, done.state.selection.points, (12, 12, 12))
    assert np.isfinite(value).all()
    assert len(done.history.rounds["round"]) == 2
    if report_every == 1:
        assert done.history.training["step"].tolist() == list(range(1, 14))
    same = fit(RAD, model(), optimiser, throw=False, **settings)
    assert same_bits(same.state, done.state)


def test_a_residual_that_is_not_finite():
    bias = lambda m: m.network.biases[0]  # noqa: E731
    bad = eqx.tree_at(bias, model(), replace_fn=lambda b: b * jnp.nan)
    with pytest.raises(TrainingError, match="residual is NaN or infinite") as caught:
        run(10, model=bad)
    done = caught.value.fit
    assert done.result == RESULTS.nonfinite_residual
    assert "Not finite: 24 candidate(s) of 'pde', 6" in done.message
    assert int(done.state.step) == 0
    assert run(10, model=bad, throw=False).result == RESULTS.nonfinite_residual


class Kink(eqx.Module):
    """√(û(x) − û(x) + max(x − edge, 0))²: without a derivative below the edge."""

    edge: Array

    def __call__(self, u, x):
        rest = u(x) - jax.lax.stop_gradient(u(x))
        return jnp.sqrt((rest + jax.nn.relu(x[:1] - self.edge)) ** 2)


def kinked(edge):
    space = AugmentedSpace(
        [
            Component("pde", STRIP, PDE(Kink(jnp.asarray(edge)))),
            Component("ic", STRIP.initial(), Dirichlet(), 1.0),
        ]
    )
    return pipeline(space, criterion=ConvergenceDegree(), selector=Sampling())


def test_a_kind_whose_jacobian_is_not_finite(caplog):
    with pytest.raises(TrainingError, match=r"infinite embedding.*18 .* of 'pde'"):
        run(5, method=kinked(2.0))
    method = kinked(2.0)
    with pytest.raises(eqx.EquinoxRuntimeError, match=r"kind 'pde': .*embedding"):
        select_points(method, model(), method.init(), key=jr.key(0))
    with caplog.at_level(logging.WARNING, "pinnacle"):
        done = run(5, method=kinked(0.5))  # single points without it are passed over
    assert done.result == RESULTS.successful
    assert "candidates of kind 'pde' had no finite embedding" in caplog.text


class Tired(AbstractResidualOptimiser):
    """Moves nothing, and refuses every third step on the same points."""

    def init(self, parameters):
        return jnp.zeros((), jnp.int32)

    def step(self, rows, parameters, state):
        loss = 0.5 * jnp.sum(rows(parameters) ** 2)
        return parameters, state + 1, StepInfo(loss, state == 2, {})

    def points_changed(self, parameters, state):
        return self.init(parameters)


def test_an_optimiser_that_refuses_gets_other_points():
    settings = {"key": jr.key(0), "trigger": EveryN(5)}
    done = fit(RAD, model(), Tired(), steps=7, **settings)
    assert done.result == RESULTS.successful
    assert done.history.rounds["step"].tolist() == [0, 3, 6]
    assert done.history.rounds["reason"].tolist() == ["first", "refused", "refused"]
    begun = fit(RAD, model(), Tired(), steps=3, **settings)
    later = resume(RAD, begun.state, Tired(), steps=4, trigger=EveryN(5))
    assert later.history.rounds["reason"].tolist() == ["refused", "refused"]
    assert same_bits(later.state, done.state)


def test_an_exhausted_pool():
    short = pipeline(pool=CandidatePool((5, 1, 1), Uniform(), everywhere=False))
    with pytest.raises(TrainingError, match="fewer candidates could be chosen"):
        run(10, method=short)
    done = run(10, method=short, throw=False)
    assert done.result == RESULTS.pool_exhausted
    assert same_bits(done.model, model())


def test_ctrl_c_keeps_what_there_is(thirty):
    def press(progress):
        if progress.selection is None and progress.step == 14:
            raise KeyboardInterrupt

    with pytest.raises(TrainingInterrupted) as caught:
        run(30, report_every=7, callbacks=[press])
    start = caught.value.fit
    assert start.result == RESULTS.interrupted
    assert start.history.training["step"].tolist() == [7, 14]
    assert same_bits(go_on(start, 16).state, thirty.state)


def test_what_a_callback_raises_comes_out_and_loses_nothing(thirty):
    def fail(progress):
        if progress.selection is None and progress.step == 14:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        run(30, report_every=7, callbacks=[fail])
    assert "error.fit" in " ".join(caught.value.__notes__)
    start = vars(caught.value)["fit"]
    assert start.history.training["step"].tolist() == [7, 14]
    assert same_bits(go_on(start, 16).state, thirty.state)


@pytest.mark.parametrize("callbacks", [print, [print, None]])
def test_callbacks_are_a_list_of_functions(callbacks, no_type_checks):
    with pytest.raises(ValueError, match=r"`callbacks` is .*give a list of functions"):
        run(30, callbacks=callbacks)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"a": "hello"}, "'hello' as 'a': return one real number"),
        ({"a": None}, "None as 'a': return one real number"),
        ({"a": jnp.asarray(1j)}, "complex64 as 'a': return one real number"),
        ({1: 1.0}, "named 1: give it a string"),
        (None, "`metrics` returns None: return numbers by name"),
    ],
)
def test_metrics_are_numbers_by_name(metrics, message, no_type_checks):
    with pytest.raises(ValueError, match=message):
        run(30, metrics=lambda u: metrics)


def test_a_callback_ends_the_run_and_sees_everything():
    seen = []

    def watch(progress):
        seen.append(progress)

    def stop(progress):
        return progress.step >= 20 and progress.selection is not None

    done = run(30, report_every=5, callbacks=[stop, watch])
    assert done.result == RESULTS.successful
    assert [p.step for p in seen] == [0, 5, 10, 10, 15, 20, 20]
    assert [p.selection is not None for p in seen] == [1, 0, 0, 1, 0, 0, 1]
    assert all(p.steps == 30 for p in seen)
    assert seen[1].row["loss"] == done.history.training["loss"][0]
    assert same_bits(seen[-1].state, done.state)


# ---------------------------------------------------------------- an empty kind


def test_a_kind_without_points(caplog):
    # Of the left side only one candidate, and Greedy takes what moves the model most.
    method = pipeline(
        POISSON,
        pool=CandidatePool((10, 6, 6, 10), Uniform(), everywhere=False),
        selector=Greedy(),
        budget=8,
        min_per_kind=0,
    )
    # û(0, y) = 0: nothing to learn on the left.
    u = Model(Hard(model().network))
    with caplog.at_level(logging.WARNING, "pinnacle"):
        done = run(20, method=method, model=u, report_every=10)
    rounds, training = done.history.rounds, done.history.training
    assert rounds["count/left"].tolist() == [0, 0]
    total = np.sum([rounds[f"count/{name}"] for name in POISSON.names], axis=0)
    assert total.tolist() == [8, 8]
    assert training["loss/left"].tolist() == [0, 0]
    assert np.isfinite(training["loss"]).all()
    for points in done.history.points:
        for kind, component in enumerate(POISSON.components):
            here = points.x[points.kind == kind]
            assert component.domain.contains(jnp.asarray(here)).all()
    assert "no training point of kind 'left'" in caplog.text
    assert "min_per_kind" in caplog.text


def test_min_per_kind_prevents_it(caplog):
    method = pipeline(
        POISSON,
        pool=CandidatePool((10, 6, 6, 10), Uniform(), everywhere=False),
        selector=Greedy(),
        budget=8,
        min_per_kind=1,
    )
    with caplog.at_level(logging.WARNING, "pinnacle"):
        done = run(20, method=method, model=Model(Hard(model().network)))
    assert all((done.history.rounds[f"count/{n}"] >= 1).all() for n in POISSON.names)
    assert not caplog.text


class Hard(eqx.Module):
    """x · N(x, y)."""

    network: Callable

    def __call__(self, x):
        return x[0] * self.network(x)


# ---------------------------------------------------------------- optimisers


def test_lbfgs_starts_anew_when_the_points_change():
    optimiser = lbfgs(memory_size=3)
    after = []

    def watch(progress):
        if progress.selection is not None:
            after.append(progress.state)

    done = fit(
        RAD,
        model(),
        optimiser,
        steps=6,
        key=jr.key(0),
        trigger=EveryN(3),
        callbacks=[watch],
    )
    assert done.history.training["loss"][-1] < done.history.training["loss"][0]
    fresh = [optimiser.init(state.model.partition()[0]) for state in after]
    assert len(after) == 2
    assert same_bits([state.optimiser for state in after], fresh)
    assert not same_bits(done.state.optimiser, fresh[-1])


def test_adam_goes_on_when_the_points_change(thirty):
    (moments, *_) = [
        s
        for s in jax.tree.leaves(thirty.state.optimiser, is_leaf=_is_adam)
        if _is_adam(s)
    ]
    assert int(moments.count) == 30


def _is_adam(state):
    return isinstance(state, optax.ScaleByAdamState)


def test_a_step_is_the_optax_step(thirty):
    start = run(10)
    points = start.state.selection.points
    assert int(start.state.phase_steps) == 10
    parameters, rest = model().partition()
    state = ADAM.init(parameters)  # pyright: ignore

    @jax.jit
    def step(parameters, state):
        def loss(parameters):
            u = eqx.combine(parameters, rest)
            return jnp.sum(
                loss_by_kind(TRANSPORT, u, TRANSPORT.split(points, (12,) * 3))
            )

        updates, new = ADAM.update(jax.grad(loss)(parameters), state)
        return eqx.apply_updates(parameters, updates), new

    for _ in range(10):
        parameters, state = step(parameters, state)
    for a, b in zip(
        jax.tree.leaves(parameters),
        jax.tree.leaves(start.model.partition()[0]),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


# ---------------------------------------------------------------- precisions


class Descent(AbstractResidualOptimiser):
    """Gradient descent on ½‖rows‖², an optimiser that remembers nothing."""

    def init(self, parameters):
        return None

    def step(self, rows, parameters, state):
        def loss(p):
            return 0.5 * jnp.sum(rows(p) ** 2)

        value, gradient = jax.value_and_grad(loss)(parameters)
        moved = jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient)
        return moved, state, StepInfo(value, jnp.zeros((), bool), {})


def test_an_optimiser_without_a_state_is_the_optax_one():
    options = {"steps": 6, "key": jr.key(1), "trigger": EveryN(4), "report_every": 3}
    done = fit(pipeline(), model(), Descent(), **options)
    wanted = fit(pipeline(), model(), optax.sgd(0.1), **options)
    for ours, theirs in zip(
        jax.tree.leaves(eqx.filter(done.model, eqx.is_array)),
        jax.tree.leaves(eqx.filter(wanted.model, eqx.is_array)),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    assert done.state.optimiser is None
    assert int(done.state.step) == 6


def test_coefficients_take_the_networks_dtype_and_mixtures_are_refused(x64):
    u = model(dtype="float32", coefficients={"a": 0.5, "b": Coefficient(0.5)})
    assert u.dtypes == ("float32",)
    mixed = eqx.tree_at(lambda u: u.coefficients["a"].raw, u, jnp.ones(()))
    with pytest.raises(ValueError, match="are float32 and float64: convert them all"):
        fit(RAD, mixed, ADAM, steps=1, key=jr.key(0))


@pytest.mark.parametrize("name", ["k/0", "", 0])
def test_names_of_coefficients(name):
    with pytest.raises(ValueError, match=f"`coefficients` names one {name!r}: give"):
        model(coefficients={"k": jnp.ones(2), name: 1.0})


def test_double_precision_needs_jax_to_have_it():
    with jax.enable_x64(True):
        u = model(dtype=jnp.float64)
    with pytest.raises(ValueError, match=r"are float64, .*jax_enable_x64"):
        fit(RAD, u, ADAM, steps=1, key=jr.key(0))


def test_a_coefficient_does_not_hide_half_precision():
    u = model(dtype=jnp.bfloat16, coefficients={"a": 0.5})
    with pytest.raises(ValueError, match="are bfloat16: convert them all"):
        fit(RAD, u, ADAM, steps=1, key=jr.key(0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_whole_pipeline_follows_the_models_dtype(dtype, x64):
    method = pipeline(estimator=Nystrom(6), criterion=ConvergenceDegree())
    trigger = Either(EveryN(4), NTKDrift(0.5, 2, 3))
    done = run(8, method=method, model=model(dtype=dtype), trigger=trigger)
    state = done.state
    arrays = [state.model, state.optimiser, state.selection, state.trigger]
    kinds = {
        str(leaf.dtype)
        for leaf in jax.tree.leaves(arrays)
        if eqx.is_inexact_array(leaf)
    }
    assert kinds == {dtype}
    assert state.selection.points.kind.dtype == jnp.int32
    assert math.isfinite(done.history.training["loss"][-1])


def test_float32_is_the_default():
    assert model().dtype == jnp.float32
    assert RAD.init().points.x.dtype == jnp.float32
