"""A training step with the derivative helper, against nested `jax.grad` by hand.

Both are one `lax.scan` of Adam steps in float32 on the same points, already split by
kind, with networks that start from the same parameters. They alternate in one process;
times are CPU time of the process, so that waiting for a busy core does not count.

    taskset -c 0 env XLA_FLAGS="--xla_cpu_multi_thread_eigen=false \
intra_op_parallelism_threads=1" python tests/benchmarks/derivatives.py
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from pinnacle._model import Model
from pinnacle._operator import PDE, Dirichlet, Periodic, derivatives
from pinnacle.nn import MLP


T, X = 0, 1


class Case(NamedTuple):
    """One equation: u_t + u u_x = diffusion · u_xx − dispersion · u_xxx."""

    name: str
    width: int
    depth: int
    order: int
    coefficient: float
    target: float


CASES = (
    Case("kdv", 32, 4, 3, -0.0025, 0.70),
    Case("burgers", 128, 4, 2, 0.02 / jnp.pi, 0.62),
)


def points(key):
    """240 points of the equation, 30 initial, 30 periodic; rows are (t, x)."""
    keys = jax.random.split(key, 3)
    inside = jax.random.uniform(keys[0], (240, 2)) * 2 - jnp.array([[0.0, 1.0]])
    initial = jax.random.uniform(keys[1], (30, 2)) * 2 - 1
    periodic = jax.random.uniform(keys[2], (30, 2))
    return inside, initial.at[:, T].set(0.0), periodic.at[:, X].set(-1.0)


def initial_value(x):
    return jnp.cos(jnp.pi * x[X])


def by_hand(case: Case):
    """Loss of (weights, biases), the residual written with nested `jax.grad`."""

    def u(parameters, t, x):
        *hidden, (weight, bias) = parameters
        h = jnp.stack([t, x])
        for w, b in hidden:
            h = jnp.tanh(w @ h + b)
        return (weight @ h + bias)[0]

    u_t = jax.grad(u, 1)
    u_x = jax.grad(u, 2)
    u_top = u_x
    for _ in range(case.order - 1):
        u_top = jax.grad(u_top, 2)

    def residual(p, z):
        t, x = z
        return (
            u_t(p, t, x) + u(p, t, x) * u_x(p, t, x) - case.coefficient * u_top(p, t, x)
        )

    def loss(p, data):
        inside, initial, periodic = data
        r = jax.vmap(lambda z: residual(p, z))(inside)
        i = jax.vmap(lambda z: u(p, z[T], z[X]) - initial_value(z))(initial)
        b = jax.vmap(lambda z: u(p, z[T], z[X]) - u(p, z[T], z[X] + 2.0))(periodic)
        return jnp.mean(r**2) + jnp.mean(i**2) + jnp.mean(b**2)

    return loss


def with_helper(case: Case):
    """Loss of a `Model`, the residual written with `derivatives`."""

    def residual(u, x):
        value, u_t, u_x, u_top = derivatives(u, x, (), T, X, (X,) * case.order)
        return u_t + value * u_x - case.coefficient * u_top

    equation, start, wrap = PDE(residual), Dirichlet(), Periodic(X, 2.0)

    def loss(u, data):
        inside, initial, periodic = data
        r = jax.vmap(lambda z: equation(u, z))(inside)
        i = jax.vmap(lambda z: start(u, z) - initial_value(z))(initial)
        b = jax.vmap(lambda z: wrap(u, z))(periodic)
        return jnp.mean(r**2) + jnp.mean(i**2) + jnp.mean(b**2)

    return loss


def compiled(loss: Callable, parameters, data, steps: int):
    """`steps` Adam steps in one compiled scan; returns the losses."""
    optimiser = optax.adam(1e-3)

    def step(carry, _):
        p, state = carry
        value, gradient = jax.value_and_grad(loss)(p, data)
        updates, state = optimiser.update(gradient, state, p)
        return (optax.apply_updates(p, updates), state), value

    def run(p, state, data):
        return jax.lax.scan(step, (p, state), None, length=steps)[1]

    state = optimiser.init(parameters)
    call = jax.jit(run).lower(parameters, state, data).compile()
    return lambda: jax.block_until_ready(call(parameters, state, data))


def seconds(call) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def peak(size: int = 1024, repeats: int = 5) -> float:
    """Best rate of a float32 matrix product, in flop/s."""
    a = jnp.ones((size, size))
    product = jax.jit(jnp.matmul)
    jax.block_until_ready(product(a, a))
    best = min(
        seconds(lambda: jax.block_until_ready(product(a, a))) for _ in range(repeats)
    )
    return 2 * size**3 / best


def matrix_flops(case: Case) -> float:
    """Products of the hidden layers in one step: forward, and twice that backward."""
    rows = 240 * (case.order + 2) + 30 + 60
    return 3 * rows * (case.depth - 1) * 2 * case.width**2


def measure(case: Case, steps: int, repeats: int):
    data = points(jax.random.key(0))
    network = MLP(2, 1, case.width, case.depth, key=jax.random.key(1))
    parameters = list(zip(network.weights, network.biases, strict=True))
    hand = compiled(by_hand(case), parameters, data, steps)
    helper = compiled(with_helper(case), Model(network), data, steps)
    assert jnp.allclose(hand()[:20], helper()[:20], rtol=1e-3), "different mathematics"
    times = [(seconds(hand), seconds(helper)) for _ in range(repeats)]
    ratios = sorted(b / a for a, b in times)
    top = max(peak() for _ in range(3))
    ours = statistics.median(b for _, b in times) / steps
    theirs = statistics.median(a for a, _ in times) / steps
    print(
        f"{case.name:8s} {case.depth}x{case.width}: by hand {theirs * 1e6:7.1f} us, "
        f"helper {ours * 1e6:7.1f} us a step; ratio {statistics.median(ratios):.3f} "
        f"({ratios[0]:.3f} to {ratios[-1]:.3f}), target {case.target}; hidden layers' "
        f"products at {matrix_flops(case) / ours / top:.0%} of {top / 1e9:.0f} Gflop/s"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    for a_case in CASES:
        measure(a_case, arguments.steps, arguments.repeats)
