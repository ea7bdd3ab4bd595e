"""The library's training step against those of jinns and DeepXDE.

The cases of `training_step.py`: 240 + 30 + 30 fixed points in full batch, float32,
Adam. Each program runs in its own process, started from the same network, on one core,
and must have the same loss after 20 steps. Runs of many warm steps alternate between
them; times are of the processor, without compilation. How each program states the
problem is at the head of `peers_library.py`, `peers_jinns.py` and `peers_deepxde.py`.

    python tests/benchmarks/peers.py --python PYTHON_WITH_JINNS_AND_DEEPXDE

DeepXDE needs torch for one of its backends, jax, flax and optax for the other.
Programs that cannot be imported are left out with a message.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from derivatives import CASES, Case, points
from peers_problem import CHECKED_STEPS, Problem

import pinnacle as pin


HERE = Path(__file__).parent
TARGET = 1.9
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class Program(NamedTuple):
    """What runs in a process: module, kind of derivatives, DeepXDE's backend."""

    name: str
    module: str
    mode: str
    backend: str = ""


OURS = Program("pinnacle", "peers_library", "streams")
PEERS = (
    Program("jinns, reverse", "peers_jinns", "reverse"),
    Program("jinns, forward", "peers_jinns", "forward"),
    Program("DeepXDE JAX, reverse", "peers_deepxde", "reverse", "jax"),
    Program("DeepXDE JAX, forward", "peers_deepxde", "forward", "jax"),
    Program("DeepXDE PyTorch, reverse", "peers_deepxde", "reverse", "pytorch"),
    Program("DeepXDE PyTorch, forward", "peers_deepxde", "forward", "pytorch"),
)


class Worker:
    """A process that answers each line with the seconds of one run."""

    def __init__(self, program: Program, python: str, problem: Path, steps: int):
        self.name = program.name
        command = [python, str(HERE / "peers_worker.py"), program.module, program.mode]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [*command, str(problem), str(steps)],
            env=environment(program),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self.ready = self.answer()

    def answer(self) -> dict:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.log.seek(0)
        return {"problem": f"ended: {self.log.read().strip()[-300:]}"}

    def seconds(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        answer = self.answer()
        if "seconds" not in answer:
            raise RuntimeError(f"{self.name} {answer['problem']}")
        return answer["seconds"]

    def close(self) -> None:
        self.process.communicate()
        self.log.close()


def environment(program: Program) -> dict[str, str]:
    """One thread everywhere; the package importable from the working tree."""
    path = [str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "DDE_BACKEND": program.backend,
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "XLA_FLAGS": ONE_THREAD,
    }


def problem_of(case: Case) -> Problem:
    inside, initial, periodic = map(np.asarray, points(jax.random.key(0)))
    network = pin.nn.MLP(2, 1, case.width, case.depth, key=jax.random.key(1))
    return Problem(
        case.name,
        case.order,
        float(case.coefficient),
        inside,
        initial,
        periodic,
        list(map(np.asarray, network.weights)),
        list(map(np.asarray, network.biases)),
    )


def complaint(worker: Worker, loss: float) -> str | None:
    """Why the times of a program would mean nothing."""
    if "problem" in worker.ready:
        return worker.ready["problem"]
    own = worker.ready["loss"]
    if not abs(own - loss) < 1e-3 * loss:
        return f"different mathematics: loss {own:.6g}, ours {loss:.6g}"
    return None


def line(worker: Worker, times: list[float], ours: list[float], steps: int) -> str:
    ratios = sorted(a / b for a, b in zip(times, ours, strict=True))
    return (
        f"  {worker.name:25s} {statistics.median(times) / steps * 1e6:8.0f} µs, ratio "
        f"{statistics.median(ratios):6.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})   "
        f"{worker.ready['versions']}"
    )


def measure(case: Case, peers, python: str, steps: int, repeats: int) -> None:
    print(f"\n{case.name}, {case.depth}x{case.width}", flush=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        file = Path(folder) / "problem.npz"
        problem_of(case).save(file)
        workers: list[Worker] = []
        for program in (OURS, *peers):
            own = sys.executable if program is OURS else python
            worker = Worker(program, own, file, steps)
            stack.callback(worker.close)
            loss = workers[0].ready["loss"] if workers else worker.ready.get("loss", 0)
            if reason := complaint(worker, loss):
                print(f"  {worker.name:25s} left out: {reason}", flush=True)
            else:
                workers.append(worker)
            if not workers:
                raise SystemExit(1)
        runs = [[worker.seconds() for worker in workers] for _ in range(repeats)]
        ours, *_ = times = [list(column) for column in zip(*runs, strict=True)]
        for worker, column in zip(workers, times, strict=True):
            print(line(worker, column, ours, steps), flush=True)
    others = [statistics.median(column) for column in times[1:]]
    if others:
        best = min(others) / statistics.median(ours)
        print(f"  best of the others: {best:.2f} × ours, target {TARGET}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="has the peers")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--case", default="", help="cases whose name has this text")
    parser.add_argument("--only", default="", help="peers whose name has this text")
    arguments = parser.parse_args()
    if arguments.steps <= CHECKED_STEPS:
        parser.error(f"--steps must be more than {CHECKED_STEPS}")
    peers = [peer for peer in PEERS if arguments.only in peer.name]
    for case in CASES:
        if arguments.case not in case.name:
            continue
        measure(case, peers, arguments.python, arguments.steps, arguments.repeats)


if __name__ == "__main__":
    main()
