"""Memory that a compiled selection round plans."""

import jax
from helpers import model, pipeline

from pinnacle import CandidatePool, ConvergenceDegree, KMeansPlusPlus, Nystrom, Uniform
from pinnacle._pipeline import _select


OPTIMISED = True  # as users compile


def test_a_round_holds_the_eigenfunctions_once():
    """Of an array of candidates × directions there is no second one: kinds are written
    into one, which the embedding overwrites and the selector reads."""
    candidates, directions = 20_000, 100
    method = pipeline(
        pool=CandidatePool((candidates, 6, 6), Uniform()),
        estimator=Nystrom(directions, chunk=64),
        criterion=ConvergenceDegree(),
        selector=KMeansPlusPlus(),
    )
    lower = _select.lower  # pyright: ignore[reportFunctionMemberAccess]
    lowered = lower(method, model(), method.init(), jax.random.key(0))
    planned = lowered.compile().compiled.memory_analysis().temp_size_in_bytes
    assert candidates * directions * 4 < planned < 1.5 * candidates * directions * 4
