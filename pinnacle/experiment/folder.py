"""The run folder: what a run leaves, while it goes on and at its end.

| file | holds |
|---|---|
| `config.json` | everything that decides the numbers |
| `history.csv`, `rounds.csv` | a row a report, a row a selection |
| `points.npz` | the training set and the NTK's eigenvalues after each selection |
| `snapshots.npz` | the prediction at some of the selections, for the figures |
| `stages.npz` | the model's parameters at some of the selections |
| `checkpoint.eqx`, `model.eqx` | the last state, the last model |
| `summary.json` | how it ended |
| `figures/` | PNG files |
"""

import csv
import io
import json
import os
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class RunFolder:
    """A folder that a run owns.

    Every file is replaced as a whole, so that a run that is killed leaves files that
    can be read.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)

    FILES = (
        "config.json",
        "history.csv",
        "rounds.csv",
        "points.npz",
        "snapshots.npz",
        "stages.npz",
        "checkpoint.eqx",
        "model.eqx",
        "summary.json",
    )

    def __truediv__(self, name: str) -> pathlib.Path:
        return self.path / name

    def create(self, overwrite: bool) -> None:
        """Make the folder.

        Raises `ValueError` if something is there already, unless `overwrite`, which
        removes the files of the earlier run and nothing else.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{str(self.path)!r} is not a folder: give another --out.")
        if self.path.is_dir() and any(self.path.iterdir()):
            if not overwrite:
                raise ValueError(
                    f"the folder {str(self.path)!r} exists: give another --out, or "
                    "--overwrite to replace the run in it."
                )
            for name in self.FILES:
                (self / name).unlink(missing_ok=True)
            shutil.rmtree(self / "figures", ignore_errors=True)
        self.path.mkdir(parents=True, exist_ok=True)

    def clean(self) -> None:
        """Remove what processes left that were killed while they wrote."""
        for name in (*self.FILES, "result.json", "progress.json"):
            for beside in self.path.glob(f".{name}.*"):
                beside.unlink(missing_ok=True)

    def write(self, name: str, data: str | bytes) -> None:
        """Replace a file as a whole."""
        data = data.encode() if isinstance(data, str) else data
        beside = self / f".{name}.{os.getpid()}"
        try:
            beside.write_bytes(data)
            os.replace(beside, self / name)
        finally:
            beside.unlink(missing_ok=True)

    def write_json(self, name: str, record: Mapping[str, Any]) -> None:
        self.write(name, json.dumps(record, indent=2) + "\n")

    def write_rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """A CSV file with a column for every name in any row."""
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        self.write(name, text.getvalue())

    def read_rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a CSV file, numbers as numbers."""
        with open(self / name, newline="") as file:
            return [
                {name: _number(text) for name, text in row.items()}
                for row in csv.DictReader(file)
            ]

    def write_arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        data = io.BytesIO()
        np.savez_compressed(data, allow_pickle=False, **arrays)
        self.write(name, data.getvalue())

    def write_figures(self, figures: Mapping[str, Any]) -> list[str]:
        """Draw into `figures/`, a PNG file each; returns the names of the files."""
        target = self / "figures"
        target.mkdir(exist_ok=True)
        for name, figure in figures.items():
            figure.savefig(target / f"{name}.png")
        return [f"{name}.png" for name in figures]

    def read_arrays(self, name: str) -> dict[str, np.ndarray]:
        with np.load(self / name, allow_pickle=False) as file:
            return dict(file)


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
