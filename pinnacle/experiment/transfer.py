"""Problems that begin with a network trained on another problem.

The first network is trained once, by the paper's method, and kept in the cache; it is
the same for every method and seed.
"""

import dataclasses
import hashlib
import json
import pathlib
import time
from collections.abc import Callable

from .._checkpoint import load
from .._model import Model
from .._results import RESULTS
from ..problems import Problem, Settings
from .cache import cache_folder
from .config import RunConfig
from .folder import RunFolder
from .lock import Taken, claim
from .ongoing import PROGRESS, finish
from .record import flat, unflat
from .run import Experiment, Shared, assemble


_WAIT = 1.0  # seconds between two looks at a network that another process trains
_DONE = "trained.json"


def first_model(experiment: Experiment) -> Callable[[], Model] | None:
    """What the training of a transfer problem begins with; `None` for other problems.

    **Returns:**

    A function that loads the trained network, after training it if nobody has yet, and
    puts it together with the problem's own coefficients. It raises `RuntimeError` if
    that training fails.
    """
    source = experiment.problem.source
    if source is None:
        return None

    def begin() -> Model:
        trained = _trained(source(), experiment)
        fresh = experiment.model()
        network = unflat(flat(Model(trained.network)), Model(fresh.network)).network
        return Model(network, fresh.coefficients)

    return begin


def source_config(config: RunConfig, own: Settings, source: Settings) -> RunConfig:
    """How the first network is trained: by PINNACLE-K, with the network, precision and
    optimiser of the run, and with numbers of points in the same proportion to the
    run's as in the paper, from a pool that has as many."""

    def scaled(name: str) -> int:
        here, there = getattr(own, name), getattr(source, name)
        return max(1, round(getattr(config, name) * there / here))

    budget = scaled("budget")
    return dataclasses.replace(
        config,
        method="pinnacle-k",
        seed=0,
        steps=max(config.source_steps, 1),
        source_steps=0,
        decay_steps=None,
        budget=budget,
        new=min(scaled("new"), budget),
        pool=(max(config.pool[0], budget), config.pool[1]),
        report_every=max(1, config.source_steps // 100),
    )


def _trained(source: Problem, experiment: Experiment) -> Model:
    config = source_config(
        experiment.config, experiment.problem.settings, source.settings
    )
    first = assemble(config, Shared(source))
    folder = RunFolder(_folder(source, config))
    while not (folder / _DONE).is_file():
        try:
            with claim(folder.path):
                if not (folder / _DONE).is_file():
                    _train(folder, first)
        except Taken:
            time.sleep(_WAIT)
    return load(folder / "model.eqx", first.model())


def _train(folder: RunFolder, first: Experiment) -> None:
    run = finish(folder, first)
    if run.result == RESULTS.interrupted:
        raise KeyboardInterrupt
    if run.result != RESULTS.successful:
        raise RuntimeError(
            f"the training of the first network, in {str(folder.path)!r}, ended after "
            f"{int(run.state.step)} steps: {run.message}"
        )
    for name in ("checkpoint.eqx", PROGRESS):
        (folder / name).unlink(missing_ok=True)
    rows = run.recorder.training
    folder.write_json(_DONE, {**(rows[-1] if rows else {})})


def _folder(source: Problem, config: RunConfig) -> pathlib.Path:
    """By everything that decides the network's numbers."""
    what = {"source": source.name, "title": source.title, **dataclasses.asdict(config)}
    mark = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / "trained" / f"{source.name}-{mark}"
