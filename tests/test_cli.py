"""The command `pinnacle`: what a run leaves, and what it says when it cannot run."""

import csv
import dataclasses
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import own_cache
from rich.console import Console
from typer.testing import CliRunner

from pinnacle import RESULTS
from pinnacle._checkpoint import load
from pinnacle._training import Progress
from pinnacle.experiment import cli, lock, ongoing, run as run_module
from pinnacle.experiment.cache import cache_folder
from pinnacle.experiment.catalogue import PRESETS, PROBLEMS
from pinnacle.experiment.config import from_dict, load_config, make_config
from pinnacle.experiment.show import Watch


SMALL = (
    *("--steps", "60", "--select-every", "20", "--budget", "12", "--pool", "20", "0"),
    *("--width", "4", "--depth", "1", "--report-every", "10"),
)
TINY = (
    *("--method", "pinnacle-k-no-trigger", "--new", "5", "--references", "8"),
    *SMALL,
)
UNIFORM = ("--method", "uniform", *SMALL)
FILES = {
    *("config.json", "history.csv", "rounds.csv", "points.npz", "snapshots.npz"),
    *("stages.npz", "checkpoint.eqx", "model.eqx", "summary.json", "figures"),
}
FIGURES = {"solution.png", "curves.png", "points.png", "spectrum.png"}  # of one kind


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    with own_cache(tmp_path_factory.mktemp("cache")):
        yield


def pinnacle(*words):
    return CliRunner().invoke(cli.app, [str(word) for word in words])


def rows(folder, name="history.csv", without="seconds"):
    with open(folder / name, newline="") as file:
        return [
            {k: v for k, v in row.items() if not k.startswith(without)}
            for row in csv.DictReader(file)
        ]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, compiled_once):
    folder = tmp_path_factory.mktemp("runs") / "finished"
    result = pinnacle("run", "diffusion", *TINY, "--out", folder)
    assert result.exit_code == 0, result.output
    return folder, result.output


# What a run leaves


def test_run_folder(finished):
    folder, _ = finished
    assert set(os.listdir(folder)) == FILES
    assert set(os.listdir(folder / "figures")) == FIGURES
    assert [row["step"] for row in rows(folder)] == ["10", "20", "30", "40", "50", "60"]
    assert [row["step"] for row in rows(folder, "rounds.csv")] == ["0", "20", "40"]
    with np.load(folder / "points.npz", allow_pickle=False) as points:
        assert points["x"].shape == (3, 12, 2)
        assert points["new"].sum(axis=1).tolist() == [12, 5, 5]


def test_summary(finished):
    folder, _ = finished
    summary = json.loads((folder / "summary.json").read_text())
    last = rows(folder)[-1]
    assert summary["result"] == "successful"
    assert summary["steps"] == 60
    assert summary["errors"]["relative_l2"] == float(last["relative_l2"])


def test_tables(finished):
    _, output = finished
    for words in ("relative L2 error", "points by kind, 3 rounds", "selecting"):
        assert words in output


def test_versions(finished):
    folder, _ = finished
    record = json.loads((folder / "config.json").read_text())
    assert record["about"]["versions"]["jax"] == jax.__version__


def test_saved_model_gives_the_reported_error(finished):
    folder, _ = finished
    experiment = run_module.build(from_dict(load_config(folder / "config.json")))
    model = load(folder / "model.eqx", experiment.model())
    errors = experiment.problem.metrics(experiment.problem.solve())(model)
    assert float(errors["mse"]) == pytest.approx(float(rows(folder)[-1]["mse"]), 1e-5)


def test_rerun_from_config_gives_the_same_numbers(finished, tmp_path):
    folder, _ = finished
    config = folder / "config.json"
    out = ("--out", tmp_path / "again", "--no-figures")
    result = pinnacle("run", "--config", config, *out)
    assert result.exit_code == 0, result.output
    assert rows(tmp_path / "again") == rows(folder)
    assert rows(tmp_path / "again", "rounds.csv") == rows(folder, "rounds.csv")
    again = (tmp_path / "again" / "model.eqx").read_bytes()
    assert again == (folder / "model.eqx").read_bytes()


def test_options_change_a_config(finished, tmp_path):
    folder, _ = finished
    out = tmp_path / "other"
    words = ("--seed", 1, "--steps", 20, "--no-figures", "--out", out)
    result = pinnacle("run", "--config", folder / "config.json", *words)
    assert result.exit_code == 0, result.output
    with np.load(out / "points.npz") as other, np.load(folder / "points.npz") as points:
        assert not np.intersect1d(other["x"], points["x"][:1]).size
    assert len(rows(out)) == 2


def test_float64_in_this_run_only(tmp_path):
    out = tmp_path / "double"
    words = ("--steps", 10, "--dtype", "float64", "--no-figures")
    result = pinnacle("run", "diffusion", *UNIFORM, *words, "--out", out)
    assert result.exit_code == 0, result.output
    assert jnp.zeros(()).dtype == jnp.float32
    assert b"float64" in (out / "model.eqx").read_bytes()
    with np.load(out / "points.npz") as points:
        assert points["x"].dtype == np.float64


def test_analyse(finished):
    folder, _ = finished
    before = set(os.listdir(folder / "figures"))
    result = pinnacle("analyse", folder, "--resolution", 4, "--stages", 2)
    assert result.exit_code == 0, result.output
    names = {
        f"{name}-{step}.png"
        for name in ("eigenfunctions", "reconstruction", "reconstruction-true")
        for step in (0, 60)
    }
    drawn = {*names, "reconstruction-errors.png", "embedding.png"}
    assert set(os.listdir(folder / "figures")) == before | drawn
    for name in drawn:
        (folder / "figures" / name).unlink()


def test_analyse_needs_a_model(tmp_path):
    result = pinnacle("analyse", tmp_path)
    assert result.exit_code == 2
    assert "has no model.eqx" in result.output
    result = pinnacle("analyse", tmp_path, "--resolution", 0)
    assert result.exit_code == 2
    assert "`resolution` is 0" in result.output


# Data files


@pytest.fixture
def data_file(tmp_path):
    """PDEBench's layout: two samples of sin 2π(x − t), the second twice as large."""
    x, t = (np.arange(16) + 0.5) / 16, np.linspace(0, 2, 9)
    values = np.sin(2 * np.pi * (x[None] - t[:, None]))
    path = tmp_path / "data.hdf5"
    with h5py.File(path, "w") as file:
        file["tensor"] = np.stack([values, 2 * values])
        file["x-coordinate"], file["t-coordinate"] = x, np.append(t, 2.25)
    return path, values


def test_a_run_on_a_data_file(data_file):
    path, values = data_file
    config = make_config("advection", data=str(path), sample=1)
    reference = run_module.build(config).reference
    np.testing.assert_allclose(
        reference.on_grid(reference.values)[..., 0], 2 * values[::2, ::4].T
    )
    assert from_dict(dataclasses.asdict(config)) == config


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("advection", "--data", "nowhere.hdf5"), "there is no file"),
        (("advection", "--data", __file__), "not HDF5"),
        (("advection", "--data", "data.hdf5", "--sample", "2"), "no sample 2"),
        (("kdv", "--data", "data.hdf5"), "'kdv' takes none: only advection, "),
    ],
)
def test_bad_data(data_file, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    result = pinnacle("run", *words, "--out", tmp_path / "none")
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "none").exists()


# Transfer


@pytest.fixture
def transfer(monkeypatch):
    """A diffusion problem that begins with a network trained on the same equation."""
    made = dataclasses.replace(
        PROBLEMS["diffusion"](), name="again", source=PROBLEMS["diffusion"]
    )
    monkeypatch.setitem(PROBLEMS, "again", lambda: made)
    for preset in PRESETS.values():
        monkeypatch.setitem(preset, "again", {})


def test_transfer(transfer, tmp_path):
    """The first network is trained once, and the second training goes on from it."""
    words = ("run", "again", *TINY, "--steps", 20, "--no-figures")
    first = pinnacle(*words, "--source-steps", 60, "--out", tmp_path / "one")
    assert first.exit_code == 0, first.output
    (cached,) = (cache_folder() / "trained").iterdir()
    trained = load_config(cached / "config.json")
    assert (trained["method"], trained["steps"]) == ("pinnacle-k", 60)
    assert (trained["budget"], trained["seed"]) == (12, 0)
    before = (cached / "model.eqx").stat().st_mtime_ns

    other = ("--source-steps", 60, "--seed", 5, "--steps", 1)
    second = pinnacle(*words, *other, "--out", tmp_path / "two")
    assert second.exit_code == 0, second.output
    assert (cached / "model.eqx").stat().st_mtime_ns == before
    like = run_module.build(from_dict(load_config(tmp_path / "two" / "config.json")))
    start = load(cached / "model.eqx", like.model())
    after = load(tmp_path / "two" / "model.eqx", like.model())
    pairs = zip(jax.tree.leaves(start), jax.tree.leaves(after), strict=True)
    # One step of Adam moves each parameter by at most its learning rate, 1e-3.
    assert max(float(jnp.abs(a - b).max()) for a, b in pairs) <= 1.01e-3


# Runs that end early


class _Interrupts:
    """A callback that behaves as if Ctrl-C had been pressed at a step."""

    def __init__(self, step):
        self.step = step

    def __call__(self, progress):
        if progress.step >= self.step:
            raise KeyboardInterrupt


def _with_callback(monkeypatch, callback):
    train = ongoing.train

    def changed(experiment, callbacks, *rest):
        return train(experiment, [*callbacks, callback], *rest)

    monkeypatch.setattr(ongoing, "train", changed)


def test_interrupted_then_resumed(finished, tmp_path, monkeypatch):
    folder, _ = finished
    out = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        _with_callback(patch, _Interrupts(30))
        result = pinnacle("run", "diffusion", *TINY, "--out", out)
    assert result.exit_code == 130
    assert "stopped at step 30: the run was interrupted" in result.output
    assert set(os.listdir(out)) == FILES
    assert set(os.listdir(out / "figures")) == FIGURES
    summary = json.loads((out / "summary.json").read_text())
    assert summary["result"] == RESULTS[RESULTS.interrupted]

    result = pinnacle("resume", out, "--no-figures")
    assert result.exit_code == 0, result.output
    assert rows(out) == rows(folder)
    assert rows(out, "rounds.csv") == rows(folder, "rounds.csv")
    assert (out / "model.eqx").read_bytes() == (folder / "model.eqx").read_bytes()


def test_told_to_end_is_interrupted(monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(cli, "app", lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        cli.main()
    assert signal.getsignal(signal.SIGTERM) is before


def test_resume_takes_further_steps(finished, tmp_path):
    folder, _ = finished
    out = tmp_path / "short"
    words = (
        "--config",
        folder / "config.json",
        "--steps",
        20,
        "--no-figures",
        "--out",
        out,
    )
    assert pinnacle("run", *words).exit_code == 0
    assert pinnacle("resume", out).exit_code == 2
    result = pinnacle("resume", out, "--steps", 40, "--no-figures")
    assert result.exit_code == 0
    assert "going on from step 20/60" in result.output
    assert rows(out) == rows(folder)
    seconds = json.loads((out / "summary.json").read_text())["seconds"]
    assert "figures" not in seconds
    assert seconds["total"] > seconds["training"] + seconds["selecting"]
    assert json.loads((out / "config.json").read_text())["steps"] == 60


def test_progress_shows_what_a_second_order_step_did(no_type_checks):
    out = io.StringIO()
    row = {"loss": 2e-3, "relative_l2": 0.25, "damping": 1.6e-8, "step_length": 0.5}
    row["condition"] = 3.1e7
    progress = Progress(100, 200, row, None, None, None)  # pyright: ignore
    with Watch(Console(file=out, width=200), make_config("kdv", steps=200), None) as w:
        w(progress)
    wanted = "loss 2.00e-03  error 25.00%  μ/λ 1.6e-08  length 0.5  κ 3.1e+07"
    assert out.getvalue() == f"compiling and training\nstep 100/200  {wanted}\n"


def test_nonfinite_loss(tmp_path):
    out = tmp_path / "blown"
    words = ("--learning-rate", "1e30", "--out", out)
    result = pinnacle("run", "diffusion", *UNIFORM, *words)
    assert result.exit_code == 1
    assert "lower the learning rate" in result.output
    assert FILES - set(os.listdir(out)) == set()
    experiment = run_module.build(from_dict(load_config(out / "config.json")))
    model = load(out / "model.eqx", experiment.model())
    assert all(
        np.isfinite(leaf).all() for leaf in jax.tree.leaves(model.partition()[0])
    )


# Bad input


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no problem given: choose one of advection"),
        (("burgerz",), "'burgerz' is unknown (did you mean 'burgers'?)"),
        (("burgers", "--method", "pinacle-k"), "(did you mean 'pinnacle-k'?)"),
        (("burgers", "--method", "pinnacle-k-no-brain"), "choose one of uniform"),
        (("burgers", "--dtype", "float16"), "choose one of float32, float64"),
        (("burgers", "--preset", "quck"), "(did you mean 'quick'?)"),
        (("burgers", "--optimizer", "sgd"), "choose one of adam, lbfgs"),
        (("burgers", "--schedule", "linear"), "choose one of constant, cosine"),
        (("burgers", "--steps", "0"), "`steps` is 0: give at least 1"),
        (("burgers", "--budget", "2"), "`budget` is 2"),
        (("burgers", "--new", "400"), "`new` is 400, more than the budget of 300"),
        (("burgers", "--learning-rate", "-1"), "`learning_rate` is -1"),
        (("burgers", "--pool", "0", "0"), "`sizes` of the pool"),
        (("burgers", "--width", "0"), "`width` is 0"),
        (("burgers", "--pool", "20", "0"), "0 candidate(s) of kind 'ic'"),
        (("burgers", "--seed", str(2**32)), "`seed` is 4294967296: give less than"),
        (("burgers", "--budget", 3 * 10**9), "is 3000000000: give less than 2**31"),
        (("burgers", "--steps", 10**10), "`steps` is 10000000000: give less than"),
        (("burgers", "--pool", 2**31, 9), "`pool` is (2147483648, 9): give less than"),
        (("burgers", "--pde-share", "-1"), "`pde_share` is -1.0: give a share from"),
        (("burgers", "--pde-share", "0.5"), "'pinnacle-k' has no fixed shares"),
        (("burgers", "--sample", "1"), "`sample` is given, but no `data`"),
        (("burgers", "--source-steps", "9"), "begins with an untrained network"),
        (
            ("burgers", "--method", "uniform", "--estimator", "exact"),
            "method 'uniform' does not score by the NTK",
        ),
        (
            ("burgers", "--method", "uniform", "--new", "9"),
            "method 'uniform' draws all points afresh",
        ),
        (
            ("burgers", "--method", "pinnacle-k-no-trigger", "--drift", "0.1"),
            "does not look at the NTK's drift; `--early` makes it",
        ),
        (
            ("burgers", "--estimator", "exact", "--references", "9"),
            "with the estimator 'exact' has none",
        ),
        (
            ("burgers", "--optimizer", "gauss-newton", "--schedule", "cosine"),
            "optimizer 'gauss-newton' has no learning rate",
        ),
        (("burgers", "--experimental-pool", "9"), "nothing is measured in"),
        (
            ("burgers", "--method", "pinnacle-k-no-cross-no-cross"),
            "the ablation 'no-cross' twice",
        ),
        (("--config", "nowhere.json"), "cannot read the configuration 'nowhere.json'"),
        (("--config", "README.md"), "give the config.json of a run"),
        (("burgers", "--budget", "5000"), "from a pool of 1600 candidates"),
        (("--config", "c.json", "--preset", "quick"), "exclude each other"),
    ],
)
def test_bad_input(words, message, tmp_path):
    result = pinnacle("run", *words, "--out", tmp_path / "none")
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stpes": 3}, "unknown entry 'stpes' (did you mean 'steps'?)"),
        ({"steps": "many"}, "`steps` is 'many': it must be int"),
        ({"steps": True}, "`steps` is True: it must be int"),
        ({"pool": [1, 2, 3]}, "`pool` is [1, 2, 3]: give two whole numbers"),
        ({"width": 1.5}, "`width` is 1.5: it must be int | None"),
        ({"stop_metric": "mze"}, "'mze' is unknown (did you mean 'mse'?)"),
    ],
)
def test_bad_config(finished, tmp_path, change, message):
    folder, _ = finished
    record = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**record, **change}))
    words = ("--config", tmp_path / "config.json", "--out", tmp_path / "none")
    result = pinnacle("run", *words)
    assert result.exit_code == 2
    assert message in result.output


def test_incomplete_config(tmp_path):
    (tmp_path / "config.json").write_text('{"problem": "burgers"}')
    result = pinnacle("run", "--config", tmp_path / "config.json")
    assert result.exit_code == 2
    assert "the configuration lacks method, seed" in result.output


def test_an_existing_folder_stays(tmp_path):
    kept, drawn = tmp_path / "notes.txt", tmp_path / "figures" / "mine.png"
    kept.write_text("mine")
    words = ("run", "diffusion", *UNIFORM, "--steps", 10)
    words = (*words, "--no-figures")
    result = pinnacle(*words, "--out", tmp_path)
    assert result.exit_code == 2
    assert "--overwrite" in result.output
    assert os.listdir(tmp_path) == ["notes.txt"]

    (tmp_path / "config.json").write_text('{"mine": 1}')
    result = pinnacle(*words, "--out", tmp_path, "--overwrite")
    assert result.exit_code == 2
    assert "holds no run" in result.output
    assert (tmp_path / "config.json").read_text() == '{"mine": 1}'

    (tmp_path / "config.json").write_text('{"problem": "kdv", "method": "uniform"}')
    (tmp_path / "summary.json").write_text("old")
    drawn.parent.mkdir()
    drawn.write_text("mine")
    (drawn.parent / "solution.png").write_text("old")
    result = pinnacle(*words, "--out", tmp_path, "--overwrite")
    assert result.exit_code == 0, result.output
    assert kept.read_text() == "mine"
    assert os.listdir(drawn.parent) == ["mine.png"]
    assert json.loads((tmp_path / "summary.json").read_text())["steps"] == 10


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    out = ("--out", tmp_path / "file" / "run")
    for words in (("run", "diffusion", *TINY), ("reproduce", "--jobs", 0)):
        result = pinnacle(*words, *out)
        assert result.exit_code == 2
        assert "error: " in result.output
        assert isinstance(result.exception, SystemExit), "no traceback"


def test_resume_goes_on_with_the_run_that_was_begun(finished, tmp_path, monkeypatch):
    out = tmp_path / "copy"
    shutil.copytree(finished[0], out)
    there = []

    def train(*_):
        there.append((out / "summary.json").exists())
        raise KeyboardInterrupt

    monkeypatch.setattr(ongoing, "train", train)
    assert pinnacle("resume", out, "--steps", 5).exit_code == 130
    assert there == [False], "the summary of the earlier run is gone"

    record = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps({**record, "method": "rad"}))
    result = pinnacle("resume", out, "--steps", 5)
    assert result.exit_code == 2
    assert "was edited after the run had begun" in result.output


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((name, "empty") for name in ("history.csv", "rounds.csv", "points.npz")),
        *((name, "cut") for name in ("history.csv", "rounds.csv", "points.npz")),
        *((name, "missing") for name in ("history.csv", "points.npz", "stages.npz")),
        ("rounds.csv", b"step,time\n0,1\n"),
        ("rounds.csv", b"step,time\n"),
        ("history.csv", b"step,loss\n10,1\n"),
        ("history.csv", b"step\nten\n"),
        ("config.json", b'{"about": 3}'),
        ("config.json", b"{}"),
        ("checkpoint.eqx", b"pinnacle arrays\n[]\n"),
    ],
)
def test_resume_changes_nothing_in_a_damaged_folder(finished, tmp_path, name, damage):
    out = tmp_path / "copy"
    shutil.copytree(finished[0], out)
    path = out / name
    if damage == "missing":
        path.unlink()
    else:
        cut = {"empty": b"", "cut": path.read_bytes()[:-9]}
        path.write_bytes(cut.get(damage, damage))
    before = contents(out)
    result = pinnacle("resume", out, "--steps", 5)
    assert result.exit_code == 2, result.output
    assert "error: " in result.output
    assert name in result.output
    assert contents(out) == before


@pytest.mark.parametrize("command", ["resume", "overwrite"])
def test_one_process_at_a_time_in_a_folder(finished, tmp_path, command):
    out = tmp_path / "copy"
    shutil.copytree(finished[0], out)
    before = contents(out)
    words = {
        "resume": ("resume", out, "--steps", 5),
        "overwrite": ("run", "kdv", *UNIFORM, "--out", out, "--overwrite"),
    }
    with lock.claim(out):
        result = pinnacle(*words[command])
    assert result.exit_code == 2
    assert "another process works in the folder" in result.output
    assert contents(out) == before


def test_a_run_owns_its_folder(tmp_path, monkeypatch):
    out, seen = tmp_path / "run", []

    def train(*arguments):
        del arguments
        seen.append(lock.owned(out))
        seen.append(pinnacle("run", "kdv", *UNIFORM, "--out", out).output)
        raise KeyboardInterrupt

    monkeypatch.setattr(ongoing, "train", train)
    pinnacle("run", "kdv", *UNIFORM, "--out", out)
    owned, said = seen
    assert owned
    assert f"(number {os.getpid()} on " in said.replace("\n", " ")
    assert not lock.owned(out)


def test_counts_are_drawn_of_several_kinds(tmp_path):
    result = pinnacle("run", "kdv", *UNIFORM, "--out", tmp_path / "kdv")
    assert result.exit_code == 0, result.output
    assert set(os.listdir(tmp_path / "kdv" / "figures")) == {
        *("solution.png", "curves.png", "points.png", "counts.png")
    }


def test_a_lock_alone_is_no_run(tmp_path):
    (tmp_path / "lock.0").touch()  # its maker was killed before it wrote
    os.utime(tmp_path / "lock.0", (0, 0))
    result = pinnacle("run", "kdv", *UNIFORM, "--out", tmp_path, "--no-figures")
    assert result.exit_code == 0, result.output


def test_analyse_of_a_damaged_folder(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "stages.npz").write_bytes(b"")
    result = pinnacle("analyse", tmp_path)
    assert result.exit_code == 2
    assert "stages.npz' is damaged" in result.output


@pytest.mark.parametrize("command", ["analyse", "resume"])
def test_a_folder_that_is_not_there(tmp_path, command):
    result = pinnacle(command, tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "there is no folder" in result.output


@pytest.mark.parametrize("seeds", [0, -2])
def test_reproduce_with_no_seeds(seeds, tmp_path):
    result = pinnacle("reproduce", "--seeds", seeds, "--out", tmp_path / "none")
    assert result.exit_code == 2
    assert f"`seeds` is {seeds}" in result.output


def test_resume_needs_a_run(tmp_path):
    result = pinnacle("resume", tmp_path)
    assert result.exit_code == 2
    assert "has no config.json and no checkpoint.eqx" in result.output


def test_resume_before_the_first_checkpoint(finished, tmp_path):
    shutil.copy(finished[0] / "config.json", tmp_path)
    result = pinnacle("resume", tmp_path)
    assert result.exit_code == 2
    said = " ".join(result.output.split())
    again = f"`pinnacle run --config {tmp_path}/config.json --out {tmp_path} "
    assert f"begin it anew with {again}--overwrite`" in said


# Lists and presets


def test_list():
    output = pinnacle("list").output
    for name in (*PROBLEMS, "pinnacle-k", "rad-all", "-no-cross"):
        assert name in output


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_presets(problem, preset):
    config = make_config(problem, preset=preset)
    settings = PROBLEMS[problem]().settings
    if preset == "paper":
        assert config.learning_rate == settings.learning_rate
        assert (config.optimizer, config.schedule) == ("adam", "constant")
        assert (config.steps, config.pool) == (settings.steps, settings.pool)
        assert (config.width, config.normalise) == (None, False)
    assert 1 <= config.new <= config.budget


# In processes of their own

COUNTING = """
import logging, sys

class Count(logging.Handler):
    def emit(self, record):
        message = record.getMessage()
        for word in ("cache hit for", "CACHE MISS for"):
            if word in message:
                print(word, message.split("'")[1], file=sys.stderr)

import jax
logger = logging.getLogger("jax._src.compiler")
logger.setLevel(logging.DEBUG)
logger.propagate = False
logger.addHandler(Count())

from pinnacle.experiment.cli import app
app()
"""


def _process(out, cache, *words):
    command = ["run", "diffusion", *TINY, "--steps", "500", "--select-every", "200"]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            COUNTING,
            *command,
            *words,
            "--no-figures",
            "--out",
            str(out),
        ],
        env={**os.environ, "PINNACLE_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_two_processes(tmp_path):
    """Same key, same bits; and the second process compiles no large function."""
    one, two = tmp_path / "one", tmp_path / "two"
    first = _process(one, tmp_path / "cache")
    second = _process(two, tmp_path / "cache")
    for name in ("train", "_select", "predict", "errors"):
        assert f"CACHE MISS for jit_{name}" in first
        assert f"cache hit for jit_{name}" in second
        assert f"CACHE MISS for jit_{name}" not in second
    assert len(rows(one, "rounds.csv")) == 3
    for name in ("model.eqx", "checkpoint.eqx", "points.npz"):
        assert (one / name).read_bytes() == (two / name).read_bytes()
    assert rows(one) == rows(two)


def test_a_killed_run_leaves_what_it_had(tmp_path):
    out = tmp_path / "killed"
    code = (
        "from pinnacle.experiment import cli, record\n"
        "record._SAVE_EVERY = 0\n"
        "cli.main()"
    )
    words = ("run", "diffusion", *TINY, "--steps", "100000000", "--out", str(out))
    with subprocess.Popen([sys.executable, "-c", code, *words]) as process:
        _wait_for(out / "model.eqx", process)
        process.send_signal(signal.SIGKILL)
    experiment = run_module.build(from_dict(load_config(out / "config.json")))
    state = load(out / "checkpoint.eqx", experiment.like())
    assert int(state.selection.round) >= 1
    assert len(rows(out, "rounds.csv")) >= 1


def _wait_for(path: pathlib.Path, process: subprocess.Popen) -> None:
    until = time.monotonic() + 120
    while not path.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    assert path.exists()
