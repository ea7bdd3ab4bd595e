"""`pinnacle reproduce`: units that survive anything, and what they come to."""

import json
import logging
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import own_cache
from typer.testing import CliRunner

from pinnacle._training.clock import CompileClock
from pinnacle.experiment import cli, lock, reproduce as reproduce_module
from pinnacle.experiment.comparison import (
    Comparison,
    Unit,
    from_table,
    read_comparisons,
)
from pinnacle.experiment.config import make_config
from pinnacle.experiment.reached import has_reached, time_to_error
from pinnacle.experiment.reproduce import _Seen, time_left
from pinnacle.experiment.reproduction import EXPERIMENTS
from pinnacle.experiment.tables import percentile, read_experiment
from pinnacle.experiment.worker import Task, environment


TINY = """
[tiny]
problem = "diffusion"
rows = [{ method = ["pinnacle-k-no-trigger", "uniform"] }]
metric = "relative_l2"
threshold = 1e9
sustain = 50

[tiny.smoke]
steps = 60
select_every = 20
budget = 12
new = 5
pool = [20, 0]
references = 8
width = 4
depth = 1
report_every = 10
"""


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    as_here = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # the workers compile so too
    with own_cache(tmp_path_factory.mktemp("cache"), **as_here):
        yield


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "tiny.toml"
    path.write_text(TINY)
    return path


def reproduce(out, *words):
    words = ("reproduce", "--preset", "smoke", "--out", out, *words)
    return CliRunner().invoke(cli.app, [str(word) for word in words])


class Compilations(logging.Handler):
    """Names of the functions that JAX compiles while it is open."""

    def __init__(self):
        super().__init__()
        self.names = []

    def emit(self, record):
        message = record.getMessage()
        if message.startswith("Compiling "):
            self.names.append(message.split()[1])

    def __enter__(self):
        logger = logging.getLogger("jax._src.interpreters.pxla")
        self.before = logger.level, logger.propagate
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(self)
        return self

    def __exit__(self, *error):
        logger = logging.getLogger("jax._src.interpreters.pxla")
        logger.removeHandler(self)
        logger.level, logger.propagate = self.before


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny):
    """One seed of each row, then a second one with every compilation noted."""
    out = tmp_path_factory.mktemp("reproduced")
    words = ("--file", tiny, "--jobs", 0, "--no-figures")
    first = reproduce(out, *words, "--seeds", 1)
    assert first.exit_code == 0, first.output
    with Compilations() as compiled:
        second = reproduce(out, *words, "--seeds", 2)
    assert second.exit_code == 0, second.output
    assert "units are finished" not in first.output
    assert "2 of 4 units are finished; going on" in second.output
    return out, compiled.names


def unit_folder(out, row="uniform", seed=0):
    return out / "tiny" / "runs" / row / f"seed-{seed}"


# What is left


def test_another_seed_compiles_nothing(finished):
    _, compiled = finished
    assert compiled == []


def test_record_of_a_unit(finished):
    out, _ = finished
    folder = unit_folder(out, "pinnacle-k-no-trigger", 1)
    record = json.loads((folder / "result.json").read_text())
    assert record["result"] == "successful"
    assert (record["steps"], record["rounds"], record["seed"]) == (60, 3, 1)
    assert record["counts"] == {"pde": 12}
    assert record["config"]["method"] == "pinnacle-k-no-trigger"
    assert record["versions"]["jax"] == jax.__version__
    assert {"mse", "relative_l2", "loss"} < set(record["metrics"])
    assert record["seconds"]["wall"] >= record["seconds"]["training"]
    assert not list(folder.glob("lock.*"))
    assert not (folder / "checkpoint.eqx").exists()


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_damaged_result_is_named(finished, tmp_path, text):
    out = shutil.copytree(finished[0], tmp_path / "out")
    result = unit_folder(out, seed=1) / "result.json"
    result.write_text(text)
    with pytest.raises(ValueError, match=f"{result}.* is damaged .*delete it"):
        read_experiment(out / "tiny")


def test_tables(finished):
    out, _ = finished
    text = (out / "tiny" / "table.md").read_text()
    values = [
        json.loads((unit_folder(out, seed=s) / "result.json").read_text())["metrics"]
        for s in (0, 1)
    ]
    errors = [v["relative_l2"] for v in values]
    middle = sum(errors) / 2
    row = f"| uniform | {middle:.2e} |"
    assert row in text
    assert f"| 0% | {errors[0]:.2e} | {errors[1]:.2e} |" in text
    times = (out / "tiny" / "times.md").read_text()
    assert "| reached | steps to it |" in times
    assert any(" | 3 | " in line for line in times.splitlines()), "rounds are whole"


def test_tables_only(finished):
    out, _ = finished
    table = (out / "tiny" / "table.csv").read_bytes()
    (out / "tiny" / "table.csv").unlink()
    result = reproduce(out, "--tables-only")
    assert result.exit_code == 0, result.output
    assert (out / "tiny" / "table.csv").read_bytes() == table
    drawn = {p.name for p in (out / "tiny" / "figures").iterdir()}
    assert {"errors.png", "fields.png", "field-errors.png", "dynamics.png"} <= drawn
    assert "counts.png" not in drawn, "all points are of one kind"


def test_other_settings_in_the_same_folder(finished, tiny, tmp_path):
    out, _ = finished
    other = tmp_path / "other.toml"
    other.write_text(TINY.replace("budget = 12", "budget = 13"))
    result = reproduce(out, "--file", other, "--jobs", 0, "--no-figures")
    assert result.exit_code == 2
    assert "belongs to a run with other settings" in result.output


# Killed


KILLED = """
import os
import signal
from pinnacle.experiment import record, worker

record._SAVE_EVERY = 0
save = record.save

def until_killed(path, tree):
    if path.name == "checkpoint.eqx" and int(tree.step) >= 40:
        os.kill(os.getpid(), signal.SIGKILL)  # the rows are ahead of the checkpoint
    save(path, tree)

record.save = until_killed
worker.main()
"""


def steps_of(unit):
    lines = (unit / "history.csv").read_text().splitlines()
    column = lines[0].split(",").index("step")
    return [int(line.split(",")[column]) for line in lines[1:]]


def test_killed_and_started_again(finished, tiny, tmp_path, monkeypatch):
    """The same table, whether a run went through or was killed in its middle."""
    out, _ = finished
    units = read_comparisons(tiny)["tiny"].units("smoke", 2)
    task = Task(tmp_path, units, time.time())
    unit = unit_folder(tmp_path, "pinnacle-k-no-trigger")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write(task.to_json())
        process.stdin.close()
        assert process.wait(240) == -signal.SIGKILL
    assert steps_of(unit)[-1] == 40, "in its middle"
    assert (unit / "checkpoint.eqx").exists()
    assert (unit / "lock.0").exists()
    assert not (unit / "result.json").exists()

    # The flags that hold a worker to one thread would make it compile everything again.
    monkeypatch.setattr(reproduce_module, "environment", lambda: dict(os.environ))
    words = ("--file", tiny, "--jobs", 2, "--no-figures", "--seeds", 2)
    result = reproduce(tmp_path, *words)
    assert result.exit_code == 0, result.output
    assert "[4/4] tiny · " in result.output
    for name in ("table.csv", "table.md", "counts.csv"):
        again = (tmp_path / "tiny" / name).read_bytes()
        assert again == (out / "tiny" / name).read_bytes()
    whole = unit_folder(out, "pinnacle-k-no-trigger")
    assert steps_of(unit) == steps_of(whole), "no row is lost or there twice"
    assert not list(tmp_path.rglob("lock.*"))


def test_a_unit_that_fails_with_an_error(tiny, tmp_path, monkeypatch):
    from pinnacle.experiment import worker

    def broken(unit, out):
        raise OSError("no space left")

    monkeypatch.setattr(worker, "run_unit", broken)
    words = ("--file", tiny, "--jobs", 0, "--seeds", 1, "--method", "uniform")
    result = reproduce(tmp_path, *words)
    assert result.exit_code == 1
    assert "tiny · uniform · seed 0: OSError: no space left" in result.output
    error = unit_folder(tmp_path) / "error.txt"
    assert "Traceback" in error.read_text()


# Ownership


def dead_process():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_a_living_owner_is_left_alone(tmp_path):
    with lock.claim(tmp_path):
        assert lock.owned(tmp_path)
        with pytest.raises(lock.Taken), lock.claim(tmp_path):
            pass
    assert not lock.owned(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("owner", ["dead", "number taken by another", "far away"])
def test_a_dead_owner_is_replaced(tmp_path, owner):
    record = lock._self()
    if owner == "dead":
        record["pid"] = dead_process()
    elif owner == "far away":
        record["host"] = "another-host"
    else:
        record["born"] = "before the last start of the machine"
    left = tmp_path / "lock.3"
    left.write_text(json.dumps(record))
    if owner == "far away":
        assert lock.owned(tmp_path), "it may well live"
        long_ago = time.time() - 1e4
        os.utime(left, (long_ago, long_ago))
    with lock.claim(tmp_path):
        assert (tmp_path / "lock.4").exists()
        assert lock.owned(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_lock_without_a_word_counts_for_a_while(tmp_path):
    left = tmp_path / "lock.0"
    left.touch()
    assert lock.owned(tmp_path)
    long_ago = time.time() - 60
    os.utime(left, (long_ago, long_ago))
    assert not lock.owned(tmp_path)


def test_a_task_survives_its_way_to_a_worker(tiny, tmp_path):
    units = read_comparisons(tiny)["tiny"].units("smoke", 1)
    task = Task(tmp_path, units, 1.5, False, 7)
    assert Task.from_json(task.to_json()) == task


def test_workers_have_one_thread(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_something=1")
    variables = environment()
    assert variables["OPENBLAS_NUM_THREADS"] == "1"
    flags = variables["XLA_FLAGS"].split()
    assert flags == ["--xla_something=1", "--xla_cpu_multi_thread_eigen=false"]


# Experiments as data


def test_rows_are_all_combinations():
    comparison = Comparison(
        "periods",
        "kdv",
        [
            {"method": ["uniform", "rad"], "select_every": [50, 200], "early": False},
            {"method": ["uniform"], "early": True, "label": "trigger"},
            {"optimizer": ["adam", "gauss-newton"], "pool": [[800, 200], [80, 20]]},
        ],
        changes={"steps": 30},
        quick={"budget": 40, "new": 20},
    )
    labels = [row.label for row in comparison.expanded()]
    assert labels == [
        "uniform select_every=50",
        "uniform select_every=200",
        "rad select_every=50",
        "rad select_every=200",
        "uniform trigger",
        "pinnacle-k optimizer=adam pool=800/200",
        "pinnacle-k optimizer=adam pool=80/20",
        "pinnacle-k optimizer=gauss-newton pool=800/200",
        "pinnacle-k optimizer=gauss-newton pool=80/20",
    ]
    units = comparison.units("quick")
    assert [u.config.seed for u in units] == [0] * 9 + [1] * 9 + [2] * 9
    first, trigger, last = units[0].config, units[4].config, units[8].config
    assert (first.method, first.select_every, first.early) == ("uniform", 50, False)
    assert (first.steps, first.budget) == (30, 40)
    assert trigger.early is True
    assert (last.optimizer, last.pool) == ("gauss-newton", (80, 20))
    folders = {str(unit.folder(pathlib.Path())) for unit in units}
    assert len(folders) == len(units)


@pytest.mark.parametrize("scale", ["smoke", "quick", "paper"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_experiments_can_be_run(name, scale):
    comparison = EXPERIMENTS[name]
    units = comparison.units(scale, 1)
    assert len(units) == len(comparison.expanded())
    if scale == "smoke":
        assert all(unit.config.steps <= 100 for unit in units)


def test_the_documented_files_can_be_run(tmp_path):
    page = pathlib.Path(__file__).parent.parent / "docs" / "reproduction.md"
    described = {}
    for i, table in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(), re.S)):
        (tmp_path / f"{i}.toml").write_text(table)
        described |= read_comparisons(tmp_path / f"{i}.toml")
    configs = {
        name: [unit.config for unit in comparison.units("quick", 1)]
        for name, comparison in described.items()
    }
    optimisers = configs["optimisers"]
    assert len(optimisers) == 12 + 4
    assert {c.select_every for c in optimisers} == {1, 5, 25, 50, 1000}
    assert all(configs.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problem": "kvd"}, "did you mean 'kdv'?"),
        ({"metrics": "mse"}, "unknown entry 'metrics' (did you mean 'metric'?)"),
        ({"methods": []}, "needs a `problem`, and `methods` or `rows`"),
        ({"methods": ["rad", "rad"]}, "several rows called ['rad']"),
        ({"methods": 3}, "experiment 'mine': `method` is 3: it must be str"),
        ({"rows": 3}, "'mine': `rows` is 3: it must be a list of tables"),
        ({"rows": ["rad"]}, "`rows` is ['rad']: it must be a list of tables"),
        ({"rows": [{"steps": "a"}]}, "`steps` is 'a': it must be int"),
        ({"rows": [{"stepz": 1}]}, "'mine': the configuration has an unknown entry"),
        ({"rows": [{"seed": 1}]}, "'mine' changes `seed` to 1"),
        ({"title": 3}, "`title` is 3: it must be a text"),
        ({"also": "mse"}, "`also` is 'mse': it must be a list of texts"),
        ({"seeds": True}, "`seeds` is True: it must be a whole number"),
        ({"threshold": "low"}, "`threshold` is 'low': it must be a number"),
        ({"quick": 3}, "`quick` is 3: it must be a table"),
        ({"quick": {"budget": 0.5}}, "`budget` is 0.5: it must be int"),
        ({"metric": "mse/v"}, "`metric` 'mse/v' is unknown"),
    ],
)
def test_bad_experiments(change, message):
    table = {"problem": "kdv", "methods": ["rad"], **change}
    with pytest.raises(ValueError, match=re.escape(message)):
        from_table("mine", table).units("smoke")


@pytest.mark.parametrize("text", ["", "title = 'none'"])
def test_a_file_without_experiments(text, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match="must hold one table for each experiment"):
        read_comparisons(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("difusion",), "(did you mean 'diffusion'?)"),
        (("diffusion", "--preset", "quik"), "(did you mean 'quick'?)"),
        (("diffusion", "--method", "radd"), "(did you mean 'rad'?)"),
        (("diffusion", "--method", "leverage"), "no row of these experiments"),
        (("diffusion", "--jobs", -1), "`jobs` is -1"),
        (("--tables-only",), "holds no experiment"),
        (("--file", "nowhere.toml"), "cannot read experiments from 'nowhere.toml'"),
    ],
)
def test_bad_input(words, message, tmp_path):
    out = tmp_path / "none"
    result = CliRunner().invoke(
        cli.app, ["reproduce", *map(str, words), "--out", str(out)]
    )
    assert result.exit_code == 2
    assert message in result.output
    assert not out.exists()


# Numbers


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_percentile(share):
    values = np.random.default_rng(0).normal(size=7)
    assert percentile(values, share) == pytest.approx(
        np.percentile(values, 100 * share)
    )


def test_percentile_of_failed_runs():
    assert percentile([1.0, 2.0, math.inf], 0.5) == 2
    assert percentile([1.0, math.inf, math.inf], 0.5) == math.inf
    assert percentile([1.0, 2.0, math.inf], 0.8) == math.inf


def history(errors):
    return [
        {
            "step": 100 * (i + 1),
            "mse": error,
            "seconds_training": 10.0 * (i + 1),
            "seconds_selecting": 1.0,
            "seconds_compiling": 4.0,
        }
        for i, error in enumerate(errors)
    ]


def test_time_to_error():
    errors = [1.0, 0.05, 0.5, 0.05, 0.06, 0.04, math.nan, 0.01]
    assert time_to_error(history(errors), "mse", 0.1, 0) == (200, 17.0)
    assert time_to_error(history(errors), "mse", 0.1, 200) == (400, 37.0)
    assert time_to_error(history(errors), "mse", 0.1, 300) is None
    assert time_to_error(history(errors), "mse", 0.001, 0) is None


def test_a_run_ends_when_it_has_reached_its_accuracy():
    def config(sustain):
        timed = Comparison(
            "c", "kdv", [{"method": "rad"}], threshold=0.1, sustain=sustain
        )
        (unit,) = timed.units("paper", 1)
        return unit.config

    errors = [1.0, 0.05, 0.06, 0.04]
    assert has_reached(config(200), history(errors))
    assert not has_reached(config(200), history(errors[:-1]))
    assert not has_reached(make_config("kdv"), history(errors))


def test_functions_traced_within_others_count_once():
    @jax.jit
    def inner(x):
        return jnp.sin(x) @ x

    def outer(x):
        for i in range(20):
            x = jax.jit(lambda y, i=i: inner(y) + i)(x)
        return x

    x = np.ones((3, 3), np.float32)
    with CompileClock() as clock:
        begin = time.perf_counter()
        jax.jit(outer)(x).block_until_ready()
        elapsed = time.perf_counter() - begin
    assert 0.5 * elapsed < clock.seconds <= elapsed
    assert clock.functions == 1


def test_time_left():
    comparison = Comparison(
        "c", "diffusion", [{"method": ["uniform", "rad"]}], changes={"steps": 100}
    )
    units: list[Unit] = comparison.units("paper", 2)  # uniform, rad, uniform, rad
    nothing = [_Seen() for _ in units]
    assert time_left(units, nothing, 1) is None
    seen = [_Seen(100, 10.0, True), _Seen(50, 20.0), _Seen(), _Seen()]
    # rad goes on at 0.4 s a step, the second uniform takes what the first did.
    assert time_left(units, seen, 1) == pytest.approx(20 + 10 + 40)
    assert time_left(units, seen, 2) == pytest.approx(35)
    assert time_left(units, seen, 8) == pytest.approx(70 / 3)
