"""One program of `peers.py` in its own process: prepare, then a timed run a line.

python peers_worker.py MODULE MODE PROBLEM STEPS

Answers are JSON, one a line: the preparation's result, then the seconds of each run.
"""

import importlib
import json
import os
import sys
import time

from peers_problem import Problem


def private_stdout():
    """A stream to the parent; whatever the programs print goes to stderr instead."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return stream


def one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def main(module: str, mode: str, file: str, steps: str) -> None:
    answers = private_stdout()
    one_core()

    def answer(**message) -> None:
        print(json.dumps(message), file=answers, flush=True)

    try:
        program = importlib.import_module(module)
    except ImportError as error:
        return answer(problem=f"not importable ({error})")
    try:
        versions, loss, run = program.prepare(Problem.load(file), mode, int(steps))
        run()
    except Exception as error:
        return answer(problem=f"failed: {type(error).__name__}: {error}")
    answer(versions=versions, loss=float(loss))
    for _ in sys.stdin:
        start = time.process_time()
        run()
        answer(seconds=time.process_time() - start)
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
