"""A warm selection round, in units of the training step it feeds; and peak memory.

Each case runs in a process of its own:

    taskset -c 0 env XLA_FLAGS="--xla_cpu_multi_thread_eigen=false \
intra_op_parallelism_threads=1" python tests/benchmarks/selection.py
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import pinnacle as pin
from pinnacle import problems
from pinnacle._training.steps import train
from pinnacle.experiment import MethodSettings, make_method


def paper(problem, method: str = "pinnacle-k", **changes):
    """A method at the paper's settings, some of them changed."""
    s = problem.settings
    settings = {"budget": s.budget, "new": s.new, "pool": s.pool} | changes
    settings = MethodSettings(select_every=s.select_every, **settings)
    return make_method(method, problem.space, settings).pipeline


def sketch(problem):
    """K-means++ on a random projection of the gradients to 64 directions."""
    pipeline = paper(problem)
    return eqx.tree_at(lambda p: p.estimator, pipeline, pin.Sketch(64))


def gradient_norm(problem):
    """Sampling ∝ ‖∂R²/∂θ‖², no NTK at all."""
    pipeline = paper(problem, "pinnacle-s")
    return eqx.tree_at(lambda p: p.criterion, pipeline, pin.GradientNorm())


def million(problem):
    """A pool of a million candidates, one round of it: that is about memory."""
    return paper(problem, pool=(1_000_000, 500), references=300)


CASES = {
    "kdv, Nyström 300, K-means++ of 100": (problems.kdv, paper, 10),
    "kdv, sketch 64, K-means++ of 100": (problems.kdv, sketch, 10),
    "kdv, gradient norm, sampling": (problems.kdv, gradient_norm, 10),
    "advection 8x128, pool 4000": (problems.advection, paper, 3),
    "burgers 4x128, pool 1,000,000": (problems.burgers, million, 0),
}


def measure(name: str) -> None:
    factory, build, repeats = CASES[name]
    problem = factory()
    pipeline, model = build(problem), problem.model(key=jax.random.key(0))
    state, layout, rounds = pipeline.init(model.dtype), (), []
    for r in range(repeats + 1):
        start = time.perf_counter()
        state, info = pin.select_points(pipeline, model, state, key=jax.random.key(r))
        jax.block_until_ready(state)
        rounds.append(time.perf_counter() - start)
        layout = tuple(info.counts.tolist())
    rounds = rounds[1:] or rounds  # the first one compiles
    selection = statistics.median(rounds)
    step = training_step(problem, model, state, layout)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{name:38s} {selection * 1e3:9.0f} ms ({min(rounds) * 1e3:.0f}–"
        f"{max(rounds) * 1e3:.0f}), step {step * 1e3:6.2f} ms, "
        f"{selection / step:6.0f} steps, peak {memory:.2f} GiB",
        flush=True,
    )


def training_step(problem, model, state, layout) -> float:
    """Seconds of one Adam step on the selected points."""
    optimiser = pin.Gradient(optax.adam(1e-3))
    start_state = optimiser.init(model.partition()[0])
    steps = 50 if model.network.weights[0].shape[0] > 64 else 1000

    def call(n):
        begin = time.perf_counter()
        out = train(
            problem.space,
            optimiser,
            model,
            start_state,
            state.points,
            jnp.asarray(n, jnp.int32),
            layout=layout,
        )
        jax.block_until_ready(out)
        return time.perf_counter() - begin

    call(1)
    return statistics.median(call(steps) for _ in range(5)) / steps


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="*", help="a part of a case's name; default all")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    chosen = [
        case
        for case in CASES
        if not arguments.case or any(part in case for part in arguments.case)
    ]
    for case in chosen:
        if arguments.inside:
            measure(case)
        else:
            command = [sys.executable, __file__, "--inside", case]
            subprocess.run(command, check=True)
