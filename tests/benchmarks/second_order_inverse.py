"""Unknown coefficients by Gauss–Newton: which selection, how soon, how well.

    python tests/benchmarks/second_order_inverse.py results/ --problem kdv-inverse \\
        --methods uniform hammersley --steps 200

makes every run that the folder does not hold yet, one CSV file each, and prints for
each when all coefficients are first within 1 %, from when on they stay there, and their
errors at the end (medians of the last five reports). Seconds are of training and
selecting, without compiling. Runs with other options need a folder of their own.
"""

import argparse
import csv
import pathlib
import statistics

import jax
import jax.random as jr
import optax
from second_order import write

import pinnacle as pn
from pinnacle import nn, problems
from pinnacle.experiment import MethodSettings, make_method


PROBLEMS = {
    "kdv-inverse": problems.kdv_inverse,
    "navier-stokes-inverse": problems.navier_stokes_inverse,
}
OPTIMISERS = {
    "adam": lambda: optax.adam(1e-3),
    "gauss-newton": lambda: pn.Averaged(pn.GaussNewton()),
}


def run(method: str, seed: int, arguments: argparse.Namespace) -> list[dict]:
    """The rows of the history that a run reports, until its time is up."""
    problem = PROBLEMS[arguments.problem]()
    reference = problem.solve()
    settings = MethodSettings(
        budget=arguments.points,
        new=arguments.points // 3,
        select_every=arguments.every,
        pool=tuple(arguments.pool),
        estimator="sketch",
        references=64,
        experimental_per_round=arguments.measurements,
        experimental_capacity=arguments.capacity or arguments.measurements,
        experimental_pool=arguments.measurements + 100,
    )
    chosen = make_method(method, problem.space, settings)
    rows = []

    def record(progress: pn.Progress) -> bool:
        if progress.selection is not None:
            return False
        row = dict(progress.row)
        seconds = (row[f"seconds_{c}"] for c in ("training", "selecting"))
        row["s"] = sum(seconds) - row["seconds_compiling"]
        rows.append(row)
        return row["s"] > arguments.seconds

    done = pn.fit(
        chosen.pipeline,
        model(problem, arguments, key=jr.key(seed)),
        OPTIMISERS[arguments.optimiser](),
        steps=arguments.steps,
        key=jr.key(seed + 1000),
        trigger=chosen.trigger,
        oracle=problem.oracles(reference),
        metrics=problem.metrics(reference),
        report_every=arguments.report_every,
        callbacks=[record],
        throw=False,
    )
    if done.message:
        print(done.message)
    return rows


def model(problem, arguments: argparse.Namespace, *, key) -> pn.Model:
    """The problem's own network, in the size asked for."""
    network = problem.network(key)
    if arguments.width:
        network = nn.MLP(
            network.weights[0].shape[1],
            network.weights[-1].shape[0],
            arguments.width,
            arguments.depth,
            activation=network.activations[0],
            key=key,
        )
    return pn.Model(network, problem.coefficients)


def line(path: pathlib.Path) -> str:
    """One run: when within 1 %, first and to stay, and how it ends."""
    with path.open(newline="") as file:
        rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    names = [name for name in rows[0] if name.startswith("coefficient_error/")]
    within = [all(row[name] <= 0.01 for name in names) for row in rows]
    first = next((row for row, near in zip(rows, within, strict=True) if near), None)
    away = [i for i, near in enumerate(within) if not near]
    since = away[-1] + 1 if away else 0
    stays = rows[since] if since < len(rows) else None
    end = {
        name: statistics.median(row[name] for row in rows[-5:])
        for name in (*names, "relative_l2")
    }
    cells = [
        path.stem,
        *(_when(row) for row in (first, stays, rows[-1])),
        *(f"{100 * end[name]:.2f} %" for name in names),
        f"{end['relative_l2']:.1e}",
    ]
    return f"| {' | '.join(cells)} |"


def _when(row: dict | None) -> str:
    return f"{row['step']:.0f} ({row['s']:.1f} s)" if row else "–"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Unknown coefficients.")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--problem", choices=PROBLEMS, default="kdv-inverse")
    parser.add_argument("--methods", nargs="+", default=["uniform"])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--optimiser", choices=OPTIMISERS, default="gauss-newton")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--every", type=int, default=2, help="steps on the same points")
    parser.add_argument("--report-every", type=int, default=5)
    parser.add_argument("--points", type=int, default=300)
    parser.add_argument("--pool", type=int, nargs=2, default=(800, 200))
    parser.add_argument("--measurements", type=int, default=100, help="in a round")
    parser.add_argument("--capacity", type=int, help="in all; default: of one round")
    parser.add_argument("--width", type=int)
    parser.add_argument("--depth", type=int, default=5)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    jax.config.update("jax_enable_x64", True)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for method in arguments.methods:
        for seed in arguments.seeds:
            name = f"{arguments.problem}_{arguments.optimiser}_{method}_{seed}.csv"
            path = arguments.folder / name
            if not path.exists():
                write(path, run(method, seed, arguments))
            print(line(path), flush=True)
        jax.clear_caches()


if __name__ == "__main__":
    main()
