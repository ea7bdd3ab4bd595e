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
| `lock.N` | which process works on it |
"""

import csv
import io
import json
import os
import pathlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .lock import is_lock


# What the readers raise for files that were cut off or changed.
_DAMAGED = (
    *(ValueError, KeyError, TypeError, EOFError, OSError, NotImplementedError),
    *(csv.Error, zipfile.BadZipFile, zlib.error),
)


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

    # In `figures/`, of a run and of its analysis; other files there are the user's.
    FIGURES = (
        *("solution", "curves", "points", "counts", "spectrum", "embedding"),
        *("eigenfunctions-[0-9]*", "reconstruction-[0-9]*"),
        *("reconstruction-true-[0-9]*", "reconstruction-errors", "coefficient-*"),
    )

    def __truediv__(self, name: str) -> pathlib.Path:
        return self.path / name

    def prepare(self, overwrite: bool) -> None:
        """Make room for a run in the folder, which the caller has claimed.

        Raises `ValueError` if something is there already, unless it is a run and
        `overwrite` is set: then the files of that run are removed and nothing else.
        """
        path = str(self.path)
        if any(not is_lock(entry) for entry in self.path.iterdir()):
            if not overwrite:
                raise ValueError(
                    f"the folder {path!r} exists: give another --out, or --overwrite "
                    "to replace the run in it."
                )
            if not self._is_run():
                raise ValueError(
                    f"the folder {path!r} is not empty and holds no run that could be "
                    "replaced (no config.json of one): give another --out."
                )
            self._remove()

    def check_has(self, *names: str) -> None:
        """Raise `ValueError` unless the folder is there, with files of these names."""
        path = str(self.path)
        if not self.path.is_dir():
            raise ValueError(f"there is no folder {path!r}: give the folder of a run.")
        missing = [name for name in names if not (self / name).is_file()]
        if missing:
            anew = (
                ", or begin it anew with `pinnacle run --config "
                f"{self / 'config.json'} --out {path} --overwrite`"
                if self._is_run()
                else ""
            )
            raise ValueError(
                f"{path!r} has no {' and no '.join(missing)}: give the folder of a run "
                f"that has got as far as its first checkpoint{anew}."
            )

    def _is_run(self) -> bool:
        try:
            record = json.loads((self / "config.json").read_text())
        except (OSError, ValueError):
            return False
        return isinstance(record, dict) and {"problem", "method"} <= set(record)

    def _remove(self) -> None:
        """Remove what a run and its analysis write."""
        figures = self / "figures"
        for name in self.FILES:
            (self / name).unlink(missing_ok=True)
        for name in self.FIGURES:
            for figure in figures.glob(f"{name}.png"):
                figure.unlink()
        if figures.is_dir() and not any(figures.iterdir()):
            figures.rmdir()

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

    def read_rows(self, name: str, *numbers: str) -> list[dict[str, Any]]:
        """The rows of a CSV file, numbers as numbers.

        Raises `ValueError` for a missing or damaged file, also if one of `numbers` is
        no number in every row.
        """
        with self._reading(name):
            text = (self / name).read_text()
            table = [line for line in csv.reader(io.StringIO(text)) if line]
            if not text.endswith("\n") or len(table) == 1:  # no rows have no names
                raise ValueError("it was cut off")
            rows = [
                {n: _number(t) for n, t in zip(table[0], line, strict=True)}
                for line in table[1:]
            ]
            for column in numbers:
                if any(isinstance(row[column], str) for row in rows):
                    raise ValueError(f"{column!r} is not a number everywhere")
        return rows

    def write_arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        data = io.BytesIO()
        np.savez_compressed(data, allow_pickle=False, **arrays)
        self.write(name, data.getvalue())

    def write_figures(self, figures: Mapping[str, Any]) -> list[str]:
        """Draw into `figures/`, a PNG file each; returns the names of the files."""
        target = self / "figures"
        target.mkdir(exist_ok=True)
        for name, figure in figures.items():
            figure.savefig(target / f"{name}.png", bbox_inches="tight")
        return [f"{name}.png" for name in figures]

    def read_arrays(self, name: str, *series: str) -> dict[str, np.ndarray]:
        """The arrays of an NPZ file.

        Raises `ValueError` for a missing or damaged file, also if those of `series`
        are not of the same length.
        """
        with self._reading(name):
            with (
                open(self / name, "rb") as file,
                np.load(file, allow_pickle=False) as opened,
            ):
                arrays = dict(opened)
            if len({len(arrays[item]) for item in series}) > 1:
                raise ValueError(f"{', '.join(series)} differ in length")
        return arrays

    def read_record(self, name: str, *entries: str, way_out: str) -> dict[str, Any]:
        """A JSON file with at least these entries.

        Raises `ValueError` for a missing or damaged file; `way_out` says what to do.
        """
        with self._reading(name, way_out):
            record = json.loads((self / name).read_text())
            if not set(entries) <= set(record):
                raise ValueError("entries are missing")
        return record

    @contextmanager
    def _reading(
        self,
        name: str,
        way_out: str = "bring it back from a copy, or begin the run anew.",
    ) -> Iterator[None]:
        path = str(self / name)
        try:
            yield
        except FileNotFoundError:
            raise ValueError(f"{path!r} is missing: {way_out}") from None
        except _DAMAGED as error:
            raise ValueError(f"{path!r} is damaged ({error}): {way_out}") from error


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
