"""Gauss–Newton and its rivals: error over time, one run or a whole table.

One run prints its course:

    python tests/benchmarks/second_order.py run kdv uniform --seconds 60

A table runs every (problem, method, seed) that its folder does not hold yet, writes one
CSV file a run, and prints medians in Markdown; it can be stopped and started again.
Runs with other options (`--seconds`, `--every`, …) need a folder of their own:

    python tests/benchmarks/second_order.py table results/ --seeds 5

Times are those of the fit alone, without compiling, as wall and CPU seconds of one
thread. Run it on a quiet core, `taskset -c 0`, with
XLA_FLAGS=--xla_cpu_multi_thread_eigen=false: the seconds of what is compiled on the way
are wall seconds.
"""

import argparse
import csv
import dataclasses
import functools
import math
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax

import pinnacle as pn
from pinnacle import nn, problems
from pinnacle._selector._budget import group_of_kind
from pinnacle._selector.kmeans import _draw, _Progress
from pinnacle._training.clock import CompileClock
from pinnacle.experiment import MethodSettings, make_method


@dataclasses.dataclass(frozen=True)
class Preset:
    """A problem with the network and the numbers that it is run with."""

    problem: Callable[[], problems.Problem]
    points: int
    width: int | None = None
    optimiser: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    pde_share: float = 0.8
    pool: tuple[int, int] = (1200, 300)


def failure_case(periodic: str = "network") -> problems.Problem:
    """u_t + 30 u_x = 0, u0 = sin x on (0, 2π) × (0, 1), on which Adam fails.

    Written in x/2π and 2t, the coordinates of the catalogue's advection problem.
    """
    speed = 15 / (2 * math.pi)
    return problems.advection(speed, problems.Sine(), periodic=periodic)


def periodic(make: Callable[..., problems.Problem]) -> Callable[[], problems.Problem]:
    """With a network that is periodic by construction."""
    return functools.partial(make, periodic="network")


# Networks of four hidden layers, diffusion's of two.
PRESETS = {
    "kdv": Preset(problems.kdv, 300),
    "kdv-periodic": Preset(periodic(problems.kdv), 300),
    "diffusion": Preset(problems.diffusion, 100),
    "burgers": Preset(problems.burgers, 300, 64),
    "burgers-periodic": Preset(periodic(problems.burgers), 300, 32),
    "burgers-periodic-64": Preset(periodic(problems.burgers), 300, 64),
    "advection": Preset(periodic(problems.advection), 500, 64),
    "advection-30": Preset(failure_case, 300, 32),
}

METHODS = (
    *("uniform", "hammersley", "rad", "causal"),
    *("pinnacle-s", "pinnacle-k", "leverage", "leverage-k", "leverage-volume"),
    *("pinnacle-s-no-retention", "pinnacle-k-no-retention"),
)
REFERENCES = {"nystrom": 300, "sketch": 64}
OPTIMISERS = ("gauss-newton", "gauss-newton-last", "adam", "lbfgs", "optimistix")
COLUMNS = ("step", "wall", "cpu", "relative_l2", "mse", "loss")


def pipeline(
    preset: Preset, problem, method: str, estimator: str = "nystrom"
) -> pn.SelectionPipeline:
    """The method by name. With retention it replaces a third of its points.

    `leverage-k` and `leverage-volume` choose by K-means++ and by volume on the features
    whose squared norm is the leverage.
    """
    settings = MethodSettings(
        budget=preset.points,
        new=preset.points // 3,
        select_every=1,
        pool=preset.pool,
        pde_share=preset.pde_share,
        estimator=estimator,
        references=REFERENCES[estimator],
    )
    name = "leverage" if method in ON_LEVERAGE else method
    by_name = make_method(name, problem.space, settings).pipeline
    if method not in ON_LEVERAGE:
        return by_name
    # Inside of the fixed shares by kind.
    return eqx.tree_at(lambda p: p.selector.selector, by_name, ON_LEVERAGE[method])


class Volume(pn.AbstractSelector):
    """Draws each next point ∝ ‖φ(z)‖² beside the span of those chosen before.

    Source: Deshpande, Rademacher, Vempala and Wang 2006, "Matrix approximation and
    projective clustering via volume sampling", section 3. Where the chosen points span
    all others it begins anew.
    """

    def __call__(self, candidates, size, *, key):
        progress, steps = _Progress.start(candidates, size)
        group = group_of_kind(candidates)

        def step(i, carry):
            progress, beside = carry
            allowed = progress.allowed(candidates, group)
            spent = jnp.max(_squares(beside), where=allowed, initial=0) <= negligible
            beside = jnp.where(spent, candidates.embedding, beside)
            z = _draw(_squares(beside), allowed, jr.fold_in(key, i))
            unit = beside[z] / jnp.maximum(jnp.linalg.norm(beside[z]), 1e-30)
            beside = beside - jnp.outer(beside @ unit, unit)
            return progress.choose(candidates, z, i), beside

        negligible = 1e-9 * jnp.max(_squares(candidates.embedding))
        start = progress, candidates.embedding
        progress, _ = jax.lax.fori_loop(0, steps, step, start)
        mask = jnp.arange(size) < steps
        return pn.Selection(progress.index, mask, jnp.ones(size))


def _squares(rows):
    return jnp.sum(rows**2, axis=1)


ON_LEVERAGE = {"leverage-k": pn.KMeansPlusPlus(), "leverage-volume": Volume()}


class LevenbergMarquardt(pn.AbstractResidualOptimiser):
    """`optimistix.LevenbergMarquardt`, so many of its steps on each set of points.

    Its Jacobian row by row and its solve by Cholesky: both several times faster here
    than what it does by default (columns, QR of rows + parameters).
    """

    steps: int = 10

    def init(self, parameters):
        return None

    def step(self, rows, parameters, state):
        import lineax as lx
        import optimistix as optx

        cholesky = lx.Normal(lx.Cholesky())
        found = optx.least_squares(
            lambda p, _: rows(p),
            optx.LevenbergMarquardt(rtol=1e-9, atol=1e-12, linear_solver=cholesky),
            parameters,
            options={"jac": "bwd"},
            max_steps=self.steps,
            throw=False,
        )
        loss = 0.5 * jnp.sum(rows(parameters) ** 2)
        return found.value, state, pn.StepInfo(loss, jnp.zeros((), bool), {})


def make_optimiser(name: str, preset: Preset, options: Mapping[str, Any]):
    gauss_newton = pn.GaussNewton(**{**preset.optimiser, **options})
    return {
        "gauss-newton": pn.Averaged(gauss_newton),
        "gauss-newton-last": gauss_newton,
        "adam": optax.adam(1e-3),
        "lbfgs": pn.lbfgs(),
        "optimistix": LevenbergMarquardt(),
    }[name]


def make_model(preset: Preset, problem, *, key) -> pn.Model:
    """The problem's own network, with the width of the preset."""
    network, width = problem.network(key), preset.width
    if width is None:
        return problem.model(key=key)

    def resized(part):
        if not isinstance(part, nn.MLP):
            return part
        inputs = part.weights[0].shape[1]
        return nn.MLP(inputs, 1, width, 4, key=key)

    leaf = lambda part: isinstance(part, nn.MLP)  # noqa: E731
    return pn.Model(jax.tree.map(resized, network, is_leaf=leaf))


@functools.cache
def made(name: str):
    """A problem and its errors, once: runs on it share their compiled functions."""
    problem = PRESETS[name].problem()
    return problem, problem.metrics(problem.solve())


@functools.cache
def _warm(name: str, method: str, optimiser: str) -> list[None]:
    del name, method, optimiser
    return []


def run(name: str, method: str, arguments: argparse.Namespace, seed: int) -> list[dict]:
    """One run until its time is up: rows of COLUMNS, and what the optimiser reports.

    Compiling is done before, in a run of one report.
    """
    preset = PRESETS[name]
    if arguments.points:
        preset = dataclasses.replace(preset, points=arguments.points)
    problem, metrics = made(name)
    options = {"damping": arguments.damping, "floor": arguments.floor}
    options |= {"momentum": arguments.momentum}
    options = {k: v for k, v in options.items() if v is not None}
    clock = {"wall": time.perf_counter, "cpu": time.process_time}
    rows, begin, compiling = [], {}, CompileClock()

    def record(progress: pn.Progress) -> bool:
        if progress.selection is not None:
            return False
        times = {c: read() - begin[c] - compiling.seconds for c, read in clock.items()}
        rows.append({**progress.row, **times, "compiling": compiling.seconds})
        if not arguments.quiet:
            print("  ".join(f"{k} {rows[-1][k]:.4g}" for k in COLUMNS), flush=True)
        return times[arguments.clock] > arguments.seconds

    def train(steps: int, callbacks) -> None:
        begin.update({c: read() for c, read in clock.items()})
        pn.fit(
            pipeline(preset, problem, method, arguments.estimator),
            make_model(preset, problem, key=jr.key(seed)),
            make_optimiser(arguments.optimiser, preset, options),
            steps=steps,
            key=jr.key(seed + 1000),
            trigger=pn.EveryN(arguments.every),
            metrics=metrics,
            report_every=arguments.report_every,
            callbacks=callbacks,
            throw=False,
        )

    if not (warm := _warm(name, method, arguments.optimiser)):
        train(max(arguments.report_every, arguments.every + 1), [])
        warm.append(None)
    with compiling:
        train(10**7, [record])
    return rows


def table(arguments: argparse.Namespace) -> None:
    """All runs that are still missing, one CSV file each; then the medians."""
    folder = pathlib.Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    arguments.quiet = True
    for name in arguments.problems:
        for method in arguments.methods:
            for seed in range(arguments.seeds):
                path = folder / f"{name}_{arguments.optimiser}_{method}_{seed}.csv"
                if not path.exists():
                    write(path, run(name, method, arguments, seed))
            # Of hundreds of compiled functions the process would run out of mappings.
            _warm.cache_clear()
            jax.clear_caches()
    summary(arguments, folder)


def write(path: pathlib.Path, rows: list[dict]) -> None:
    """Under another name first: a file that exists is complete."""
    partial = path.with_suffix(".partial")
    names = dict.fromkeys(name for row in rows for name in row)
    with partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(names))
        writer.writeheader()
        writer.writerows(rows)
    partial.rename(path)


def summary(arguments: argparse.Namespace, folder: pathlib.Path) -> None:
    print("| problem | method | seeds | median L2, end | best | worst | s to 1 % |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.problems:
        for method in arguments.methods:
            pattern = f"{name}_{arguments.optimiser}_{method}_*.csv"
            runs = [read(path) for path in sorted(folder.glob(pattern))]
            if runs:
                print(line(name, method, runs, arguments.clock))


def read(path: pathlib.Path) -> list[dict[str, float]]:
    with path.open(newline="") as file:
        return [
            {k: float(row[k]) for k in COLUMNS if row[k]}
            for row in csv.DictReader(file)
        ]


def line(name: str, method: str, runs: list[list[dict]], clock: str) -> str:
    """A run's error is the median of its last five reports, as it fluctuates."""
    errors = [statistics.median(r["relative_l2"] for r in rows[-5:]) for rows in runs]
    reached = [
        next((r[clock] for r in rows if r["relative_l2"] <= 0.01), float("inf"))
        for rows in runs
    ]
    return (
        f"| {name} | {method} | {len(runs)} | {statistics.median(errors):.2e} "
        f"| {min(errors):.2e} | {max(errors):.2e} | {statistics.median(reached):.1f} |"
    )


def parse() -> argparse.Namespace:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--seconds", type=float, default=60.0)
    common.add_argument("--clock", choices=("wall", "cpu"), default="cpu")
    common.add_argument("--optimiser", choices=OPTIMISERS, default=OPTIMISERS[0])
    common.add_argument("--points", type=int, help="of a step; default: the preset's")
    common.add_argument("--every", type=int, default=1, help="steps on the same points")
    common.add_argument(
        "--estimator", choices=REFERENCES, default="nystrom", help="of the NTK"
    )
    common.add_argument("--report-every", type=int, default=20)
    for number in ("--damping", "--floor", "--momentum"):
        common.add_argument(number, type=float, help="default: the preset's")
    common.add_argument("--float32", action="store_true")
    common.add_argument("--quiet", action="store_true")
    parser = argparse.ArgumentParser(description="Gauss–Newton: error over time.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", parents=[common])
    one.add_argument("problem", choices=PRESETS)
    one.add_argument("method", choices=METHODS)
    one.add_argument("--seeds", type=int, default=1)
    many = commands.add_parser("table", parents=[common])
    many.add_argument("folder")
    many.add_argument("--problems", nargs="+", choices=PRESETS, default=list(PRESETS))
    many.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    many.add_argument("--seeds", type=int, default=5)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    jax.config.update("jax_enable_x64", not arguments.float32)
    if arguments.command == "table":
        return table(arguments)
    for seed in range(arguments.seeds):
        run(arguments.problem, arguments.method, arguments, seed)
    return None


if __name__ == "__main__":
    main()
