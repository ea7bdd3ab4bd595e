"""The laws of triggers."""

import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from .._geometry import Interval, SpaceTime
from .._model import Model
from .._operator import Dirichlet
from .._space import AugmentedSpace, Component
from ..nn import MLP


def check_trigger(
    trigger,
    space: AugmentedSpace | None = None,
    model: Model | None = None,
    *,
    looks: int = 5,
    seed: int = 0,
) -> None:
    """Put a trigger through the laws that all of them keep.

    The next look lies ahead, and looking is idempotent: between two looks the answer
    to "when next" stays the same. The state of a phase keeps its structure, shapes and
    dtypes from phase to phase, and is the same for the same key. Asked at a look, the
    trigger gives a truth value and one number, NaN or at least 0, and the same ones
    when it is asked again.

    **Arguments:**

    - `trigger`: an `AbstractTrigger`.
    - `space`, `model`: what it looks at; by default a condition on an interval in time
      and a network of one hidden layer.
    - `looks`: how many looks of a phase are checked.
    - `seed`: of the keys.

    **Raises:** `AssertionError`, saying which law does not hold.
    """
    space = _small_space() if space is None else space
    key = jr.key(seed)
    model = Model(MLP(space.dim, 1, 4, 1, key=key)) if model is None else model
    state = trigger.init(space, model, key=key)
    _check_state(trigger, space, model, state, key)
    step = 0
    for _ in range(looks):
        look = trigger.next_look(step)
        assert look > step, f"at step {step} the next look is at {look}: not ahead"
        between = (step + look) // 2
        assert trigger.next_look(between) == look, (
            f"the next look is {look} seen from step {step}, but "
            f"{trigger.next_look(between)} seen from step {between}"
        )
        _check_answer(trigger, state, space, model, look)
        step = look


def _check_state(trigger, space, model, state, key) -> None:
    again = trigger.init(space, model, key=key)
    same = [np.array_equal(a, b) for a, b in _pairs(state, again)]
    assert all(same), "the same key gives another state"
    later = trigger.init(space, model, key=jr.fold_in(key, 1))
    assert _structure(later) == _structure(state), (
        "the state must keep its structure, shapes and dtypes from phase to phase: "
        f"{_structure(state)} became {_structure(later)}"
    )


def _check_answer(trigger, state, space, model, step: int) -> None:
    due, drift = trigger(state, space, model, step)
    again, drift_again = trigger(state, space, model, step)
    assert bool(due) == bool(again), "asked twice, it gives two answers"
    assert jnp.shape(drift) == (), f"the drift must be one number, got {drift}"
    assert math.isnan(drift) or drift >= 0, f"the drift must be ≥ 0 or NaN, got {drift}"
    same = float(drift) == float(drift_again) or math.isnan(drift)
    assert same, "asked twice, it gives two drifts"


def _pairs(a, b):
    def plain(leaf):
        is_key = jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key)
        return np.asarray(jr.key_data(leaf) if is_key else leaf)

    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return [(plain(x), plain(y)) for x, y in leaves]


def _structure(state) -> tuple:
    leaves, tree = jax.tree.flatten(state)
    return tree, [(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves]


def _small_space() -> AugmentedSpace:
    domain = SpaceTime(Interval(0, 1), 0, 1)
    return AugmentedSpace([Component("value", domain, Dirichlet())])
