"""The paper's analysis of one run: the NTK at several stages, and what it selects."""

import dataclasses
import pathlib
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from .. import plotting
from .._checkpoint import load
from .._misc import require_integer
from .._model import Model
from ..problems import Reference
from .comparison_figures import coefficient_figures
from .config import read_config
from .folder import RunFolder
from .methods import make_method
from .record import unflat
from .run import Experiment, build, precision


_CHOSEN = 30  # points of the picture of the embedding, as in the paper


def analyse(path: pathlib.Path, resolution: int = 24, stages: int = 4) -> list[str]:
    """Draw the analysis of a run into its `figures/`.

    **Arguments:**

    - `path`: the folder of a run, or of a unit of `reproduce`.
    - `resolution`: points along each axis on which eigenfunctions are computed; time
      and memory grow with its fourth power.
    - `stages`: how many stages of the training are shown, the last among them.

    **Returns:**

    The names of the files. Raises `ValueError` if the folder holds no model or damaged
    files, and for numbers that are too small.
    """
    require_integer("resolution", resolution, 2, "give the points along an axis")
    require_integer("stages", stages, 1, "show 1 stage or more")
    folder = RunFolder(path)
    folder.check_has("model.eqx")
    config = read_config(folder / "config.json")
    with precision(config):
        experiment = build(config)
        models = _models(folder, experiment, stages)
        reference = experiment.reference
        embedded = _embedding(experiment, *list(models.items())[-1])
    double = dataclasses.replace(config, dtype="float64")
    with precision(double):
        figures = dict(_spectral(build(double), reference, models, resolution))
    figures |= {"embedding": embedded, **_coefficients(folder, experiment)}
    return folder.write_figures(figures)


def _models(folder: RunFolder, experiment: Experiment, stages: int) -> dict[int, Model]:
    """Models by step: some from the course of the run, and the last."""
    like, found = experiment.model(), {}
    if stages > 1 and (folder / "stages.npz").is_file():
        arrays = folder.read_arrays("stages.npz", "step", "values")
        shown = plotting.thin(len(arrays["step"]), stages - 1)
        for i in shown:
            found[int(arrays["step"][i])] = unflat(arrays["values"][i], like)
    rows = folder.read_rows("history.csv", "step")
    last = rows[-1]["step"] if rows else 0
    return {**found, last: load(folder / "model.eqx", like)}


def _embedding(experiment: Experiment, step: int, model: Model) -> Figure:
    """What K-means++ on the convergence degree chooses, whatever the run's method."""
    config = experiment.config
    ours = make_method("pinnacle-k", experiment.problem.space, config.method_settings())
    count = min(_CHOSEN, config.budget)
    key = jax.random.key(config.seed)
    embedded = plotting.embed(ours.pipeline, model, count, key=key)
    return plotting.embedding(embedded, title=f"step {step:,}")


def _spectral(
    experiment: Experiment,
    reference: Reference,
    models: dict[int, Model],
    resolution: int,
) -> Iterator[tuple[str, Figure]]:
    where = plotting.subspaces(experiment.problem, reference, resolution=resolution)
    at = {
        step: plotting.stage(where, _double(model, experiment.model()))
        for step, model in models.items()
    }
    for step, stage in at.items():
        yield f"eigenfunctions-{step}", plotting.eigenfunctions(where, stage)
        yield f"reconstruction-{step}", plotting.reconstruction(where, stage)
        of_true = plotting.reconstruction(where, stage, true=True)
        yield f"reconstruction-true-{step}", of_true
    named = {f"step {step:,}": stage for step, stage in at.items()}
    yield "reconstruction-errors", plotting.reconstruction_errors(where, named)


def _double(model: Model, like: Model) -> Model:
    """The model's numbers in the precision and with the functions of another."""
    leaves = jax.tree.leaves(eqx.filter(model, eqx.is_array))
    parts, rest = eqx.partition(like, eqx.is_array)
    shapes, structure = jax.tree.flatten(parts)
    cast = [
        jnp.asarray(np.asarray(a), b.dtype) for a, b in zip(leaves, shapes, strict=True)
    ]
    return eqx.combine(jax.tree.unflatten(structure, cast), rest)


def _coefficients(folder: RunFolder, experiment: Experiment) -> dict[str, Figure]:
    rows = folder.read_rows("history.csv")
    steps = np.array([row["step"] for row in rows])

    def courses(column):
        values = np.array([[row[column] for row in rows]])
        return {experiment.config.method: (steps, values)}

    return coefficient_figures(experiment.problem.true_coefficients, courses)
