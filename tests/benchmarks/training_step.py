"""The library's training step against a hand-written scan of the same mathematics.

Three forms of 300-point Adam steps in float32, alternating in one process:
by hand (nested `jax.grad`, points already split by kind), the library's `train` with
the same nested residual, and the library's `train` with `pinnacle.derivatives`.

    taskset -c 0 env XLA_FLAGS="--xla_cpu_multi_thread_eigen=false \
intra_op_parallelism_threads=1" python tests/benchmarks/training_step.py
"""

import argparse
import statistics

import jax
import jax.numpy as jnp
import optax
from derivatives import (
    CASES,
    Case,
    T,
    X,
    by_hand,
    compiled,
    initial_value,
    matrix_flops,
    peak,
    points,
    seconds,
)

import pinnacle as pin
from pinnacle._training.steps import train


def nested(case: Case):
    """u_t + u u_x − c ∂^k u/∂x^k, as a user of plain JAX writes it."""

    def residual(u, x):
        def value(t, s):
            return u(jnp.stack([t, s]))[0]

        top = jax.grad(value, 1)
        for _ in range(case.order - 1):
            top = jax.grad(top, 1)
        t, s = x
        advection = value(t, s) * jax.grad(value, 1)(t, s)
        return jax.grad(value, 0)(t, s) + advection - case.coefficient * top(t, s)

    return residual


def helped(case: Case):
    """The same through `pinnacle.derivatives`."""

    def residual(u, x):
        value, u_t, u_x, u_top = pin.derivatives(u, x, (), T, X, (X,) * case.order)
        return u_t + value * u_x - case.coefficient * u_top

    return residual


def library(case: Case, residual, network, data, steps: int):
    """`steps` steps of the library's compiled training phase."""
    domain = pin.Box((0, -1), (1, 1))
    sides = domain.periodic(X)
    # Weights of 2 make the library's ½‖R‖²/N the mean square of the hand-written loss.
    space = pin.AugmentedSpace(
        [
            pin.Component("pde", domain, pin.PDE(residual), weight=2.0),
            pin.Component(
                "ic",
                domain.boundary(axis=T, side="lower"),
                pin.Dirichlet(),
                initial_value,
                weight=2.0,
            ),
            pin.Component("bc", sides, pin.Periodic(X, 2.0), weight=2.0),
        ]
    )
    kinds = jnp.repeat(jnp.arange(3), jnp.array([len(part) for part in data]))
    training_set = pin.Points(jnp.concatenate(data), kinds)
    optimiser = pin.Gradient(optax.adam(1e-3))
    model = pin.Model(network)
    state = optimiser.init(model.partition()[0])
    layout = tuple(len(part) for part in data)
    count = jnp.asarray(steps, jnp.int32)

    def call():
        out = train(space, optimiser, model, state, training_set, count, layout=layout)
        return jax.block_until_ready(out)

    call()
    return call


def measure(case: Case, steps: int, repeats: int) -> None:
    data = points(jax.random.key(0))
    network = pin.nn.MLP(2, 1, case.width, case.depth, key=jax.random.key(1))
    parameters = list(zip(network.weights, network.biases, strict=True))
    calls = {
        "by hand": compiled(by_hand(case), parameters, data, steps),
        "nested": library(case, nested(case), network, data, steps),
        "helper": library(case, helped(case), network, data, steps),
    }
    last = float(calls["by hand"]()[-1])
    for name in ("nested", "helper"):
        ours = float(calls[name]()[2].info.loss)
        assert abs(ours - last) < 1e-2 * last, f"{name}: different mathematics"
    runs = [
        {name: seconds(call) for name, call in calls.items()} for _ in range(repeats)
    ]
    best = max(peak() for _ in range(3))
    hand = statistics.median(run["by hand"] for run in runs) / steps
    print(
        f"\n{case.name}, {case.depth}x{case.width}: by hand {hand * 1e6:.0f} µs a step"
    )
    for name in ("nested", "helper"):
        ratios = sorted(run[name] / run["by hand"] for run in runs)
        own = statistics.median(run[name] for run in runs) / steps
        print(
            f"  train, {name:7s} {own * 1e6:7.0f} µs, ratio "
            f"{statistics.median(ratios):.3f} ({ratios[0]:.3f}–{ratios[-1]:.3f})"
        )
    share = matrix_flops(case) / own / best
    print(f"  products at {share:.0%} of {best / 1e9:.0f} Gflop/s (one core)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    for a_case in CASES:
        measure(a_case, arguments.steps, arguments.repeats)
