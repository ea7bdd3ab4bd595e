"""jinns' natural gradient on the problems of `second_order.py`: error over time.

    PYTHONPATH=. PYTHON_WITH_JINNS tests/benchmarks/second_order_jinns.py \\
        kdv --seconds 200 --out results/kdv_jinns-ngd_uniform_0.csv

`jinns.solve` with `jinns.optimizers.vanilla_ngd`, in chunks of some steps. The problem,
the first network, the number of points of each kind and the errors are those of
`second_order.py`; residuals are written with `jax.jvp`, as in `peers_jinns.py`. Each
chunk has a new `CubicMeshPDENonStatio`, large enough for every step to have new points.
The state of the optimiser goes from chunk to chunk.

Rows of the file are those of `second_order.py` (its `summary` reads them), one a chunk.
Times are those of `solve`, without compiling, drawing points and measuring errors.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import jinns  # pyright: ignore[reportMissingImports]
import optax
from peers_jinns import ForwardMode, Periodic
from peers_problem import T, X
from second_order import COLUMNS, PRESETS, Preset, made, make_model, pipeline, write

import pinnacle as pn


class Heat(jinns.loss.PDENonStatio):
    """u_t − u_xx − f, with f such that u = e^{−2t} sin 4πx."""

    def equation(self, t_x, u, params):
        e_t, e_x = jnp.eye(2)

        def slope(z):
            return jax.jvp(lambda y: u(y, params), (z,), (e_x,))[1]

        (_, u_t), (_, u_xx) = (
            jax.jvp(lambda y: u(y, params), (t_x,), (e_t,)),
            jax.jvp(slope, (t_x,), (e_x,)),
        )
        k = 4 * jnp.pi
        source = (k**2 - 2) * jnp.exp(-2 * t_x[T]) * jnp.sin(k * t_x[X])
        return u_t - u_xx - source


# ν and the order of u_t + u u_x = ν ∂u^order/∂x^order.
TRANSPORT = {"kdv": (-0.0025, 3), "burgers": (0.02 / jnp.pi, 2)}
NAMES = [name for name in PRESETS if name.split("-")[0] in {"diffusion", *TRANSPORT}]


class Solution(eqx.Module):
    """The trained function of (x, t), as the library's errors ask for it."""

    u: Any
    params: Any

    def __call__(self, x):
        return self.u(x[::-1], self.params)


def make_loss(problem, name: str, network):
    """The loss and its first parameters. jinns' points are (t, x)."""
    equation = name.split("-")[0]
    nu, order = TRANSPORT.get(equation, (1.0, 0))
    u = jinns.nn.PINN(
        eq_type="PDENonStatio",
        eqx_network=network,
        input_transform=lambda t_x, _: t_x[::-1],
    )
    params = jinns.parameters.Params(
        nn_params=u.init_params, eq_params={"nu": jnp.asarray(nu)}
    )
    kinds = {component.name: component for component in problem.space.components}
    conditions, weights = {}, {"dyn_loss": 1.0}
    if "ic" in kinds:
        initial = kinds["ic"].target
        conditions["initial_condition_fun"] = lambda x: initial(jnp.append(x, 0.0))[
            None
        ]
        weights["initial_condition"] = 1.0
    if "bc" in kinds:
        conditions["boundary_condition"] = Periodic()
        weights["boundary_loss"] = 1.0
    loss = jinns.loss.LossPDENonStatio(
        u=u,
        dynamic_loss=ForwardMode(order=order) if order else Heat(),
        loss_weights=jinns.loss.LossWeightsPDENonStatio(**weights),
        params=params,
        **conditions,
    )
    return loss, params


def counts(preset: Preset, problem) -> dict[str, int]:
    """Points of each kind in a step, those of `second_order.py`."""
    names = [component.name for component in problem.space.components]
    sizes = pipeline(preset, problem, "uniform").pool.sizes
    return dict(zip(names, sizes, strict=True))


def draw(problem, sizes: dict[str, int], steps: int, *, key):
    """So many batches of new points, and two more.

    `solve` takes a batch before its first step, and at its end an epoch repeats the
    last one.
    """
    (x_min, t_min), (x_max, t_max) = problem.space.components[0].domain.bounds
    conditions = {}
    epoch = steps + 2
    if boundary := sizes.get("bc"):
        conditions |= {"nb": 2 * epoch * boundary, "border_batch_size": boundary}
    if initial := sizes.get("ic"):
        conditions["initial_batch_size"] = initial
    return jinns.data.CubicMeshPDENonStatio(
        key=key,
        n=epoch * sizes["pde"],
        domain_batch_size=sizes["pde"],
        ni=epoch * sizes.get("ic", 1),
        dim=1,
        min_pts=(x_min,),
        max_pts=(x_max,),
        tmin=t_min,
        tmax=t_max,
        **conditions,
    )


def make_optimiser(arguments: argparse.Namespace):
    """`vanilla_ngd`'s default line search, without its messages."""
    search = optax.scale_by_backtracking_linesearch(max_backtracking_steps=15)
    return jinns.optimizers.vanilla_ngd(
        gram_reg=arguments.gram_reg, sgd_learning_rate=arguments.rate, linesearch=search
    )


def train(params, state, data, loss, optimiser, steps: int):
    """`solve`: the new parameters and state, and the loss at each step."""
    params, losses, _, _, _, state, *_ = jinns.solve(
        n_iter=steps,
        init_params=params,
        data=data,
        loss=loss,
        optimizer=optimiser,
        opt_state=state,
        verbose=False,
        ahead_of_time=False,
    )
    return params, state, losses


def run(arguments: argparse.Namespace) -> list[dict]:
    """One run until its time is up, or its error at the target."""
    preset, (problem, metrics) = PRESETS[arguments.problem], made(arguments.problem)
    network = make_model(preset, problem, key=jr.key(arguments.seed)).network
    loss, start = make_loss(problem, arguments.problem, network)
    optimiser, sizes = make_optimiser(arguments), counts(preset, problem)
    # Arrays with a dtype of their own, as `solve` returns them: it compiles once.
    as_array = lambda leaf: jnp.array(leaf, jnp.result_type(leaf))  # noqa: E731
    params, state = start, jax.tree.map(as_array, optimiser.init(start))
    keys = iter(jr.split(jr.PRNGKey(arguments.seed + 1000), 10**5))
    new_points = lambda: draw(problem, sizes, arguments.chunk, key=next(keys))  # noqa: E731
    fixed = loss, optimiser, arguments.chunk
    jitted: Any = eqx.filter_jit(train)
    compiled = jitted.lower(params, state, new_points(), *fixed).compile()
    clock = {"wall": time.perf_counter, "cpu": time.process_time}
    spent, steps, rows = dict.fromkeys(clock, 0.0), 0, []
    while spent["cpu"] < arguments.seconds:
        data = new_points()
        before = {c: read() for c, read in clock.items()}
        found = compiled(params, state, data, *fixed)
        params, state, losses = jax.block_until_ready(found)
        for c, read in clock.items():
            spent[c] += read() - before[c]
        # `solve` ends at parameters that are not finite and gives the last that were.
        done = int(jnp.count_nonzero(losses))
        steps += done
        errors = metrics(pn.Model(Solution(loss.u, params)))
        length = state.tx_state[-1].learning_rate
        row = {"step": steps, "loss": losses[done - 1] / 2, "step_length": length}
        rows.append({k: float(v) for k, v in {**row, **errors, **spent}.items()})
        print("  ".join(f"{k} {rows[-1][k]:.4g}" for k in COLUMNS), flush=True)
        if done < arguments.chunk or rows[-1]["relative_l2"] <= arguments.target:
            break
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="jinns' natural gradient.")
    parser.add_argument("problem", choices=NAMES)
    parser.add_argument("--seconds", type=float, default=200.0, help="of the processor")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chunk", type=int, default=5, help="steps between reports")
    parser.add_argument("--gram-reg", type=float, default=1e-5)
    parser.add_argument("--rate", type=float, default=1.0, help="sgd_learning_rate")
    parser.add_argument("--target", type=float, default=0.01, help="ends the run")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows = run(arguments)
    if arguments.out:
        write(arguments.out, rows)


if __name__ == "__main__":
    main()
