"""What is kept of a run while it goes on, and the figures made from it."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from .. import plotting
from .._checkpoint import save
from .._model import Model
from .._training import Progress, TrainState
from .._training.history import columns
from ..problems import Problem, Reference, predict
from .folder import RunFolder


_SAVE_EVERY = 10.0  # seconds
# How many are kept in all, over the run; every second one is dropped beyond.
_POINTS, _SNAPSHOTS, _STAGES = 64, 16, 8
_NUMBERS = 2**21  # and so many numbers of predictions, or of parameters, at most
_PANELS = 4  # rounds shown in the figure of points
_SPECTRA = 6


_CLOCKS = ("training", "selecting", "compiling", "wall")
_ARRAYS = ("x", "kind", "mask", "new", "eigenvalues")


class Thinned:
    """A growing series of which at most `most` items are kept, evenly spaced.

    Which ones depends on how many there were only, not on when it was saved.
    """

    def __init__(self, most: int):
        self.most, self.spacing = most, 1
        self.items: dict[int, Any] = {}

    def wants(self, index: int) -> bool:
        """Whether the item at this place is to be kept."""
        return self.most > 0 and index % self.spacing == 0

    def add(self, index: int, item: Any) -> None:
        self.items[index] = item
        while len(self.items) > self.most:
            self.spacing *= 2
            self.items = {i: s for i, s in self.items.items() if self.wants(i)}

    def load(self, items: Mapping[int, Any], count: int) -> None:
        """Go on from the first `count` items, of which those given were kept."""
        while count > self.most * self.spacing > 0:
            self.spacing *= 2
        self.items = {i: s for i, s in items.items() if i < count and self.wants(i)}


def flat(model: Model) -> np.ndarray:
    """All trained numbers of a model, as one vector."""
    return np.asarray(ravel_pytree(model.partition()[0])[0])


def unflat(vector: np.ndarray, like: Model) -> Model:
    """The inverse of `flat`, for a model of the same shapes."""
    parameters, rest = like.partition()
    unravel = ravel_pytree(parameters)[1]
    return eqx.combine(unravel(jax.numpy.asarray(vector)), rest)


class Recorder:
    """A callback of `fit` that keeps rows and points, and saves them now and then.

    **Arguments:**

    - `folder`: where to save.
    - `problem`, `reference`: for the figures.
    - `watch`: called with each `Progress`, to show it.
    - `stages`: whether to keep predictions and parameters from the course of the run.
    """

    def __init__(
        self,
        folder: RunFolder,
        problem: Problem,
        reference: Reference,
        watch: Callable[[Progress], None] = lambda progress: None,
        stages: bool = True,
    ):
        self.folder, self.problem, self.reference = folder, problem, reference
        self.watch = watch
        self.training: list[dict[str, Any]] = []
        self.rounds: list[dict[str, Any]] = []
        few = max(2, min(_SNAPSHOTS, _NUMBERS // reference.values.size))
        self.points = Thinned(_POINTS)
        self.snapshots = Thinned(few if stages else 0)  # predictions
        self.stages = Thinned(_STAGES if stages else 0)  # parameters
        self.before: dict[str, float] = {name: 0.0 for name in _CLOCKS}
        self.begin = self.saved_at = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if progress.selection is None:
            self._report(progress)
        else:
            self._round(progress)
        self.watch(progress)
        if time.monotonic() - self.saved_at > _SAVE_EVERY:
            self.save(progress.state, progress.model)

    def _report(self, progress: Progress) -> None:
        row = dict(progress.row)
        row["seconds_wall"] = time.monotonic() - self.begin
        for name, seconds in self.before.items():
            row[f"seconds_{name}"] += seconds
        self.training.append(row)

    def _round(self, progress: Progress) -> None:
        info, points = progress.selection, progress.state.selection.points
        assert info is not None
        self.rounds.append(dict(progress.row))
        kept = {
            "x": points.x,
            "kind": points.kind,
            "mask": points.mask,
            "new": info.new,
            "eigenvalues": info.eigenvalues,
        }
        index = len(self.rounds) - 1
        if self.points.wants(index):
            self.points.add(index, {n: np.asarray(a) for n, a in kept.items()})
        if self.snapshots.wants(index):
            self.snapshots.add(index, self._predict(progress.model))
        if self.stages.wants(index):
            self.stages.add(index, flat(progress.model))

    def _predict(self, model) -> np.ndarray:
        return np.asarray(predict(model, jax.numpy.asarray(self.reference.x)))

    def save(self, state: TrainState, model: Model) -> None:
        """Write all files but the figures and the summary."""
        folder = self.folder
        folder.write_rows("history.csv", self.training)
        folder.write_rows("rounds.csv", self.rounds)
        if self.rounds:
            folder.write_arrays("points.npz", self._points())
        if self.snapshots.items:
            folder.write_arrays("snapshots.npz", self._series(self.snapshots))
            folder.write_arrays("stages.npz", self._series(self.stages))
        save(folder / "checkpoint.eqx", state)
        save(folder / "model.eqx", model)
        self.saved_at = time.monotonic()

    def _points(self) -> dict[str, np.ndarray]:
        items = list(self.points.items.values())
        return {
            **{n: np.stack([item[n] for item in items]) for n in _ARRAYS},
            **self._places(self.points),
            "names": np.array(self.problem.space.names),
        }

    def _series(self, series: Thinned) -> dict[str, np.ndarray]:
        values = np.stack(list(series.items.values()))
        return {**self._places(series), "values": values}

    def _places(self, series: Thinned) -> dict[str, np.ndarray]:
        kept = list(series.items)
        steps = [self.rounds[i]["step"] for i in kept]
        return {"round": np.array(kept), "step": np.array(steps)}

    def load(self, state: TrainState) -> None:
        """Go on from what an earlier process saved, as far as `state` has come.

        Raises `ValueError` for files that are missing, damaged or from before `state`.
        """
        folder, step = self.folder, int(state.step)
        clocks = [f"seconds_{name}" for name in _CLOCKS]
        rows = folder.read_rows("history.csv", "step", *clocks)
        self.training = [row for row in rows if row["step"] <= step]
        count = int(state.selection.round)
        if count == 0:  # the first selection failed
            return
        self.rounds = folder.read_rows("rounds.csv", "step")[:count]
        if len(self.rounds) < count:
            raise ValueError(
                f"{str(folder / 'rounds.csv')!r} has {len(self.rounds)} rows, but the "
                f"checkpoint is from after round {count}: bring it back from a copy, "
                "or begin the run anew."
            )
        arrays = folder.read_arrays("points.npz", *_ARRAYS, "round")
        items = [
            {n: arrays[n][i] for n in _ARRAYS} for i in range(arrays["x"].shape[0])
        ]
        kept = arrays["round"].tolist()
        self.points.load(dict(zip(kept, items, strict=True)), count)
        for name, series in (("snapshots", self.snapshots), ("stages", self.stages)):
            if series.most:
                arrays = folder.read_arrays(f"{name}.npz", "round", "values")
                kept = arrays["round"].tolist()
                series.load(dict(zip(kept, arrays["values"], strict=True)), count)
        if self.training:
            last = self.training[-1]
            self.before = {name: last[f"seconds_{name}"] for name in _CLOCKS}

    def seconds(self) -> dict[str, float]:
        """Time spent so far, as of the last report; compiling is part of the others,
        and `wall` is all of it."""
        if not self.training:
            return dict(self.before)
        return {name: self.training[-1][f"seconds_{name}"] for name in _CLOCKS}

    def figures(self, model) -> list[str]:
        """Draw what there is into `figures/`; returns the names of the files."""
        drawn = {"solution": self._draw_solution(model)}
        if self.training:
            drawn["curves"] = plotting.curves(columns(self.training), self._rounds())
        if self.rounds:
            drawn["points"] = self._draw_points()
        if self.rounds and len(self.problem.space.names) > 1:
            drawn["counts"] = plotting.counts(self._rounds(), self._last_step())
        if self.rounds and self.points.items[0]["eigenvalues"].size:
            drawn["spectrum"] = self._draw_spectrum()
        return self.folder.write_figures(drawn)

    def _rounds(self) -> dict[str, np.ndarray]:
        return columns(self.rounds)

    def _last_step(self) -> int:
        return max(row["step"] for row in [*self.training, *self.rounds])

    def _draw_solution(self, model):
        return plotting.solution(
            self.reference,
            self._predict(model),
            coordinates=self.problem.coordinates,
            outputs=self.problem.outputs,
        )

    def _draw_points(self):
        kept = [i for i in self.snapshots.items if i in self.points.items]
        shown = [kept[i] for i in plotting.thin(len(kept), _PANELS)]
        points = [self.points.items[i] for i in shown]

        def column(name):
            return [item[name][item["mask"]] for item in points]

        return plotting.points(
            self.reference,
            [self.snapshots.items[i] for i in shown],
            column("x"),
            column("kind"),
            column("new"),
            [f"step {self.rounds[i]['step']:,}" for i in shown],
            names=self.problem.space.names,
            coordinates=self.problem.coordinates,
            output=self.problem.outputs[0],
        )

    def _draw_spectrum(self):
        kept = list(self.points.items)
        shown = [kept[i] for i in plotting.thin(len(kept), _SPECTRA)]
        return plotting.spectrum(
            [self.points.items[i]["eigenvalues"] for i in shown],
            [f"step {self.rounds[i]['step']:,}" for i in shown],
        )
