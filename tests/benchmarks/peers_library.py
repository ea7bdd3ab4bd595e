"""The library's `train` for `peers.py`, the residual written with `derivatives`."""

import equinox as eqx
import jax
import jax.numpy as jnp
from derivatives import CASES
from peers_problem import CHECKED_STEPS, Problem
from training_step import helped, library

import pinnacle as pin


def prepare(problem: Problem, mode: str, steps: int):
    case = next(case for case in CASES if case.name == problem.name)
    data = tuple(
        jnp.asarray(part)
        for part in (problem.inside, problem.initial, problem.periodic)
    )
    layers = [
        tuple(map(jnp.asarray, kind)) for kind in (problem.weights, problem.biases)
    ]
    network = eqx.tree_at(
        lambda mlp: [mlp.weights, mlp.biases],
        pin.nn.MLP(2, 1, case.width, case.depth, key=jax.random.key(0)),
        layers,
    )
    residual = helped(case)
    _, _, report = library(case, residual, network, data, CHECKED_STEPS + 1)()
    run = library(case, residual, network, data, steps)
    return f"JAX {jax.__version__}", report.info.loss, run
