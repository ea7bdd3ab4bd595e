"""When points are selected again."""

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import TRANSPORT, model, same_bits

from pinnacle import (
    AbstractTrigger,
    CandidatePool,
    Either,
    EveryN,
    Model,
    NTKDrift,
    Uniform,
)
from pinnacle.nn import Apply
from pinnacle.testing import check_trigger


BEFORE, AFTER = model(seed=0), model(seed=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EveryN(0), "`n` is 0"),
        (lambda: EveryN(2.5), "`n` is 2.5"),  # pyright: ignore
        (lambda: EveryN(True), "`n` is True"),
        (lambda: NTKDrift(every=0), "`every` is 0"),
        (lambda: NTKDrift(points=0), "`points` is 0"),
        (lambda: NTKDrift(delta=-0.5), "`delta`"),
    ],
)
def test_static_mistakes(make, message, no_type_checks):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "trigger",
    [
        EveryN(1),
        EveryN(7),
        NTKDrift(0.5, every=5, points=3),
        Either(EveryN(7), NTKDrift(0.5, every=5, points=3)),
    ],
    ids=["every-1", "every-7", "drift", "either"],
)
def test_laws(trigger):
    check_trigger(trigger)


class Hasty(AbstractTrigger):
    """Looks at the same step for ever."""

    def init(self, space, model, *, key):
        return key

    def next_look(self, steps):
        return steps

    def __call__(self, state, space, model, steps):
        return False, jnp.asarray(jnp.nan)


def test_the_laws_find_a_trigger_that_never_moves_on():
    with pytest.raises(AssertionError, match="not ahead"):
        check_trigger(Hasty())


def ask(trigger, u, steps, start=BEFORE):
    state = trigger.init(TRANSPORT, start, key=jr.key(0))
    due, drift = trigger(state, TRANSPORT, u, steps)
    return due, float(drift)


def test_every_n():
    trigger = EveryN(7)
    looks = [trigger.next_look(steps) for steps in (0, 6, 7, 13, 14)]
    assert looks == [7, 7, 14, 14, 21]
    assert ask(trigger, BEFORE, 7)[0]
    assert not ask(trigger, BEFORE, 6)[0]
    assert np.isnan(ask(trigger, BEFORE, 7)[1])
    assert EveryN(1).next_look(0) == 1


def dense_kernel(u, points, key):
    """Θ by one Jacobian of all residuals at once, on the trigger's check points."""
    pool = CandidatePool((points,) * 3, Uniform(), everywhere=False)
    blocks = pool.draw(TRANSPORT, jnp.float32, key=key)
    parameters, rest = eqx.partition(u, eqx.is_inexact_array)
    flat, unravel = jax.flatten_util.ravel_pytree(parameters)

    def residuals(flat):
        u = eqx.combine(unravel(flat), rest)
        points = zip(TRANSPORT.components, blocks, strict=True)
        return jnp.concatenate(
            [jax.vmap(lambda x, c=c: c.residual(u, x, x))(b.x)[:, 0] for c, b in points]
        )

    J = np.asarray(jax.jit(jax.jacfwd(residuals))(flat), np.float64)
    return J @ J.T


def test_the_drift_is_the_relative_frobenius_distance_of_the_kernels():
    trigger = NTKDrift(0.5, every=10, points=4)
    key, _ = trigger.init(TRANSPORT, BEFORE, key=jr.key(0))
    before, after = (dense_kernel(u, 4, key) for u in (BEFORE, AFTER))
    wanted = np.linalg.norm(after - before) / np.linalg.norm(before)
    due, drift = ask(trigger, AFTER, 10)
    np.testing.assert_allclose(drift, wanted, rtol=1e-4)
    assert bool(due) == (wanted >= 0.5)
    for delta, expected in ((wanted * 0.99, "drift"), (wanted * 1.01, False)):
        assert ask(NTKDrift(delta, 10, 4), AFTER, 10)[0] == expected
    assert ask(trigger, BEFORE, 10) == (False, 0.0)


def test_check_points_are_drawn_anew_for_each_phase():
    trigger = NTKDrift(points=4)
    one = trigger.init(TRANSPORT, BEFORE, key=jr.key(0))
    assert same_bits(one, trigger.init(TRANSPORT, BEFORE, key=jr.key(0)))
    assert not same_bits(one, trigger.init(TRANSPORT, BEFORE, key=jr.key(1)))


def test_either_asks_each_of_the_two_at_its_own_looks():
    drifting = NTKDrift(1e-6, every=10, points=4)
    both = Either(EveryN(25), drifting)
    assert [both.next_look(s) for s in (0, 10, 20, 25)] == [10, 20, 25, 30]
    due, drift = ask(both, AFTER, 10)
    assert due == "drift"
    assert drift > 0
    assert ask(both, BEFORE, 10) == (False, 0.0)
    due, drift = ask(both, BEFORE, 25)
    assert due, "the period has ended"
    assert np.isnan(drift), "nobody looked at the kernel"
    flipped = Either(drifting, EveryN(25))
    assert ask(flipped, AFTER, 10)[0]
    assert flipped.next_look(20) == 25
    still = Either(NTKDrift(1e9, 5, 4), EveryN(25))
    assert ask(still, AFTER, 25)[0], "both look, the second fires"
    assert ask(still, AFTER, 25)[1] > 0


def test_a_kernel_that_is_zero_does_not_divide_by_zero():
    # Nothing depends on the parameters: Θ = 0.
    u = Model(Apply(jnp.ones(3), lambda params, x: 0 * params[0] + x[0]))
    assert ask(NTKDrift(points=4), u, 1000, start=u) == (False, 0.0)


def test_a_network_without_parameters():
    u = Model(lambda x: x[0], coefficients={"unknown": 1.0})
    with pytest.raises(ValueError, match=r"floating-point.*coefficients=True"):
        ask(NTKDrift(points=4), u, 1000, start=u)
