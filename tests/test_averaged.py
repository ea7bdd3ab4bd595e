"""The moving average of iterates, against its recursion in numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import model, pipeline, same_bits
from jax.flatten_util import ravel_pytree

import pinnacle as pn


OPTIONS = {"steps": 12, "trigger": pn.EveryN(5), "report_every": 1}


def flat(u):
    return np.asarray(ravel_pytree(u.partition()[0])[0])


def course(optimiser, **options):
    """The iterates and the answers of a run, and the run."""
    iterates, answers = [], []

    def look(progress):
        if progress.selection is None:
            iterates.append(flat(progress.state.model))
            answers.append(flat(progress.model))

    done = pn.fit(
        pipeline(),
        model(),
        optimiser,
        key=jax.random.key(1),
        callbacks=[look],
        **{**OPTIONS, **options},
    )
    return iterates, answers, done


def first_weight(u):
    return {"first": jnp.ravel(u.network.weights[0])[0]}


@pytest.mark.parametrize("decay", [0.5, 0.97])
def test_answers_are_averages_of_the_iterates(decay):
    iterates, answers, done = course(
        pn.Averaged(optax.adam(1e-2), decay), metrics=first_weight
    )
    alone, same, _ = course(optax.adam(1e-2))
    np.testing.assert_array_equal(iterates, alone)
    np.testing.assert_array_equal(same, alone)
    mean = flat(model())
    for t, (now, answer) in enumerate(zip(iterates, answers, strict=True), start=1):
        a = min(decay, t / (19 + t))
        mean = a * mean + (1 - a) * now
        np.testing.assert_allclose(answer, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(flat(done.model), answers[-1])
    first = np.ravel(done.model.network.weights[0])[0]
    assert done.history.training["first"][-1] == pytest.approx(first)


def test_it_goes_on_from_its_state_and_its_points_may_change():
    optimiser = pn.Averaged(pn.lbfgs(), 0.9)
    *_, whole = course(optimiser)
    *_, half = course(optimiser, steps=7)
    options = {**OPTIONS, "steps": 5}
    rest = pn.resume(pipeline(), half.state, optimiser, **options)
    np.testing.assert_array_equal(flat(rest.model), flat(whole.model))


def test_its_optimiser_hears_that_the_points_changed():
    inner = pn.lbfgs()
    optimiser = pn.Averaged(inner, 0.9)
    scale, start = jnp.array([1.0, 2, 3]), jnp.ones(3)
    step = jax.jit(lambda p, s: optimiser.step(lambda q: scale * q, p, s)[:2])
    parameters, state = step(start, optimiser.init(start))
    changed = optimiser.points_changed(parameters, state)
    fresh = inner.init(parameters)
    assert same_bits(changed.inner, fresh)
    assert not same_bits(state.inner, fresh), "or nothing is tested"
    assert same_bits((changed.average, changed.steps), (state.average, state.steps))


def test_gauss_newton_reports_its_details():
    done = course(pn.Averaged(pn.GaussNewton()), steps=2)[2]
    assert "damping" in done.history.training


@pytest.mark.parametrize("decay", [1.0, -0.1, float("nan")])
def test_decays_outside_the_range_are_refused(decay):
    with pytest.raises(ValueError, match="`decay` must be"):
        pn.Averaged(optax.sgd(0.1), decay)
