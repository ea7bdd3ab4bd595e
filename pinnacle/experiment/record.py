"""What is kept of a run while it goes on, and the figures made from it."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .. import plotting
from .._checkpoint import save
from .._training import Progress, TrainState
from .._training.history import columns
from ..problems import Problem, Reference, predict
from .folder import RunFolder


_SAVE_EVERY = 10.0  # seconds
_SNAPSHOTS = 16  # predictions kept in all; every second one is dropped beyond
_PANELS = 4  # rounds shown in the figure of points
_SPECTRA = 6


class Recorder:
    """A callback of `fit` that keeps rows and points, and saves them now and then.

    **Arguments:**

    - `folder`: where to save.
    - `problem`, `reference`: for the figures.
    - `watch`: called with each `Progress`, to show it.
    """

    def __init__(
        self,
        folder: RunFolder,
        problem: Problem,
        reference: Reference,
        watch: Callable[[Progress], None] = lambda progress: None,
    ):
        self.folder, self.problem, self.reference = folder, problem, reference
        self.watch = watch
        self.training: list[dict[str, Any]] = []
        self.rounds: list[dict[str, Any]] = []
        self.points: list[dict[str, np.ndarray]] = []
        self.snapshots: dict[int, np.ndarray] = {}  # by position in `rounds`
        self.spacing = 1
        self.seconds_before = {"seconds_training": 0.0, "seconds_selecting": 0.0}
        self.saved_at = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if progress.selection is None:
            self._report(progress)
        else:
            self._round(progress)
        self.watch(progress)
        if time.monotonic() - self.saved_at > _SAVE_EVERY:
            self.save(progress.state)

    def _report(self, progress: Progress) -> None:
        row = dict(progress.row)
        for name, seconds in self.seconds_before.items():
            row[name] += seconds
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
        self.points.append({name: np.asarray(a) for name, a in kept.items()})
        index = len(self.rounds) - 1
        if index % self.spacing == 0:
            self.snapshots[index] = self._predict(progress.model)
        if len(self.snapshots) > _SNAPSHOTS:
            self.spacing *= 2
            self.snapshots = {
                i: s for i, s in self.snapshots.items() if i % self.spacing == 0
            }

    def _predict(self, model) -> np.ndarray:
        return np.asarray(predict(model, jax.numpy.asarray(self.reference.x)))

    def save(self, state: TrainState) -> None:
        """Write all files but the figures and the summary."""
        folder = self.folder
        folder.write_rows("history.csv", self.training)
        folder.write_rows("rounds.csv", self.rounds)
        if self.points:
            folder.write_arrays("points.npz", self._points())
            folder.write_arrays("snapshots.npz", self._snapshots())
        save(folder / "checkpoint.eqx", state)
        save(folder / "model.eqx", state.model)
        self.saved_at = time.monotonic()

    def _points(self) -> dict[str, np.ndarray]:
        stacked = {n: np.stack([p[n] for p in self.points]) for n in self.points[0]}
        steps = np.array([row["step"] for row in self.rounds])
        return {**stacked, "step": steps, "names": np.array(self.problem.space.names)}

    def _snapshots(self) -> dict[str, np.ndarray]:
        return {
            "round": np.array(list(self.snapshots)),
            "prediction": np.stack(list(self.snapshots.values())),
        }

    def load(self, state: TrainState) -> None:
        """Go on from what an earlier process saved, as far as `state` has come."""
        folder, step = self.folder, int(state.step)
        self.training = [
            r for r in folder.read_rows("history.csv") if r["step"] <= step
        ]
        count = int(state.selection.round)
        self.rounds = folder.read_rows("rounds.csv")[:count]
        arrays = folder.read_arrays("points.npz")
        names = ("x", "kind", "mask", "new", "eigenvalues")
        self.points = [{n: arrays[n][i] for n in names} for i in range(count)]
        snapshots = folder.read_arrays("snapshots.npz")
        self.snapshots = {
            int(i): s
            for i, s in zip(snapshots["round"], snapshots["prediction"], strict=True)
            if i < count
        }
        gaps = np.diff(list(self.snapshots))
        self.spacing = int(gaps.min()) if gaps.size else 1
        if self.training:
            last = self.training[-1]
            self.seconds_before = {name: last[name] for name in self.seconds_before}

    def seconds(self) -> dict[str, float]:
        """Time spent training and selecting so far, as of the last report."""
        last = self.training[-1] if self.training else self.seconds_before
        return {name: last[f"seconds_{name}"] for name in ("training", "selecting")}

    def figures(self, model) -> list[str]:
        """Draw what there is into `figures/`; returns the names of the files."""
        drawn = {"solution": self._draw_solution(model)}
        if self.training:
            drawn["curves"] = plotting.curves(columns(self.training), self._rounds())
        if self.rounds:
            drawn["points"] = self._draw_points()
            drawn["counts"] = plotting.counts(self._rounds(), self._last_step())
        if self.points and self.points[0]["eigenvalues"].size:
            drawn["spectrum"] = self._draw_spectrum()
        target = self.folder / "figures"
        target.mkdir(exist_ok=True)
        for name, figure in drawn.items():
            figure.savefig(target / f"{name}.png")
        return [f"{name}.png" for name in drawn]

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
        kept = list(self.snapshots)
        shown = [kept[i] for i in plotting.thin(len(kept), _PANELS)]
        live = [self.points[i]["mask"] for i in shown]

        def column(name):
            return [self.points[i][name][m] for i, m in zip(shown, live, strict=True)]

        return plotting.points(
            self.reference,
            [self.snapshots[i] for i in shown],
            column("x"),
            column("kind"),
            column("new"),
            [f"step {self.rounds[i]['step']:,}" for i in shown],
            names=self.problem.space.names,
            coordinates=self.problem.coordinates,
            output=self.problem.outputs[0],
        )

    def _draw_spectrum(self):
        shown = plotting.thin(len(self.points), _SPECTRA)
        return plotting.spectrum(
            [self.points[i]["eigenvalues"] for i in shown],
            [f"step {self.rounds[i]['step']:,}" for i in shown],
        )
