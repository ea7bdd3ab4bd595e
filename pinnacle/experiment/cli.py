"""The command `pinnacle`."""

import dataclasses
import pathlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from .._checkpoint import load
from .._model import Model
from .._results import RESULTS
from .._training import FitResult, TrainState
from ..problems import PERIODICITY
from .about import versions
from .analyse import analyse as draw_analysis
from .cache import VARIABLE, enable_cache
from .catalogue import DTYPES, OPTIMISERS, PROBLEMS, SCHEDULES
from .config import (
    RunConfig,
    check_used,
    from_dict,
    load_config,
    make_config,
    read_config,
    save_config,
)
from .folder import RunFolder
from .lock import claim_or_refuse
from .methods import ESTIMATORS, METHODS
from .ongoing import train_recorded
from .record import Recorder
from .reproduce_command import experiments, report, run_all, units
from .reproduction import EXPERIMENTS
from .run import Experiment, build, precision
from .show import (
    Watch,
    doing,
    print_experiments,
    print_methods,
    print_problems,
    print_report,
)
from .signals import term_as_interrupt
from .transfer import first_model


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Train physics-informed neural networks on points chosen by PINNACLE.",
)
console = Console()
errors = Console(stderr=True)

INTERRUPTED, FAILED, BAD_INPUT = 130, 1, 2


def main() -> None:
    """Run the command line; SIGTERM ends it as Ctrl-C does."""
    with term_as_interrupt():
        app()


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text)


@app.command()
def run(
    problem: Annotated[
        str | None, typer.Argument(help="Which problem; see `pinnacle list`.")
    ] = None,
    method: Annotated[
        str | None, _option("How points are chosen; default pinnacle-k.")
    ] = None,
    preset: Annotated[
        str | None,
        _option("'paper' (default): its settings; 'quick': minutes on two cores."),
    ] = None,
    config: Annotated[
        pathlib.Path | None,
        _option("Rerun from the config.json of a run; options given change it."),
    ] = None,
    data: Annotated[
        pathlib.Path | None, _option("A PDEBench file to take the solution from.")
    ] = None,
    sample: Annotated[int | None, _option("Which sample of the file.")] = None,
    periodic: Annotated[
        str | None,
        _option(f"How the solution is made periodic: {', '.join(PERIODICITY)}."),
    ] = None,
    seed: Annotated[int | None, _option("Of network, pools and choices.")] = None,
    steps: Annotated[int | None, _option("Optimiser steps.")] = None,
    budget: Annotated[int | None, _option("Collocation points, all kinds.")] = None,
    new: Annotated[int | None, _option("Points replaced in a round.")] = None,
    select_every: Annotated[int | None, _option("Steps between two rounds.")] = None,
    pool: Annotated[
        tuple[int, int] | None,
        typer.Option(
            help="Candidates for each PDE, and for each condition.",
            metavar="PDE CONDITION",
        ),
    ] = None,
    pde_share: Annotated[
        float | None, _option("Share of PDE points, in methods with fixed shares.")
    ] = None,
    estimator: Annotated[
        str | None, _option(f"Of the NTK: {', '.join(ESTIMATORS)}.")
    ] = None,
    references: Annotated[
        int | None, _option("Reference points of the NTK, or directions of a sketch.")
    ] = None,
    early: Annotated[
        bool | None,
        _option(
            "Whether the NTK's drift may start a round; default as the method has it.",
            "--early/--no-early",
        ),
    ] = None,
    drift: Annotated[
        float | None, _option("NTK drift at which points are chosen early.")
    ] = None,
    look_every: Annotated[
        int | None, _option("Steps between two looks at the drift.")
    ] = None,
    experimental_per_round: Annotated[
        int | None, _option("Measurements that each round asks for.")
    ] = None,
    experimental_capacity: Annotated[
        int | None, _option("Measurements in all.")
    ] = None,
    experimental_pool: Annotated[
        int | None, _option("Candidates that measurements are chosen from.")
    ] = None,
    optimizer: Annotated[str | None, _option(f"{', '.join(OPTIMISERS)}.")] = None,
    learning_rate: Annotated[float | None, _option("At the start.")] = None,
    schedule: Annotated[
        str | None, _option(f"Of the learning rate: {', '.join(SCHEDULES)}.")
    ] = None,
    width: Annotated[int | None, _option("Units of a hidden layer.")] = None,
    depth: Annotated[int | None, _option("Number of hidden layers.")] = None,
    normalise: Annotated[
        bool | None,
        _option("Scale coordinates to [-1, 1].", "--normalise/--no-normalise"),
    ] = None,
    dtype: Annotated[str | None, _option(f"{' or '.join(DTYPES)}.")] = None,
    report_every: Annotated[
        int | None, _option("Steps between two rows of the history.")
    ] = None,
    source_steps: Annotated[
        int | None, _option("Steps of the first network, in transfer problems.")
    ] = None,
    out: Annotated[
        pathlib.Path | None,
        _option("Run folder, default runs/PROBLEM-METHOD-SEED."),
    ] = None,
    overwrite: Annotated[bool, _option("Replace the run in the folder.")] = False,
    no_figures: Annotated[bool, _option("Draw no figures.", "--no-figures")] = False,
    no_cache: Annotated[
        bool, _option(f"Do not keep compiled functions (in ${VARIABLE}).", "--no-cache")
    ] = False,
) -> None:
    """Train a network on a problem; leaves a folder with results and figures."""
    given = dict(locals())
    fields = {field.name for field in dataclasses.fields(RunConfig)}
    changes = {n: v for n, v in given.items() if n in fields and v is not None}
    if data is not None:
        changes["data"] = str(data.resolve())
    with _status():
        settings = _settings(config, preset, changes)
        check_used(settings, changes)
        folder = RunFolder(out or _default_folder(settings))
        with precision(settings):
            experiment = _prepare(settings, no_cache)
            with claim_or_refuse(folder.path):
                folder.prepare(overwrite)
                save_config(folder / "config.json", settings, versions=versions())
                _train(experiment, folder, not no_figures)


@app.command()
def resume(
    folder: Annotated[pathlib.Path, typer.Argument(help="The folder of a run.")],
    steps: Annotated[
        int | None,
        _option("Further steps; default up to the configured number."),
    ] = None,
    no_figures: Annotated[bool, _option("Draw no figures.", "--no-figures")] = False,
    no_cache: Annotated[
        bool, _option(f"Do not keep compiled functions (in ${VARIABLE}).", "--no-cache")
    ] = False,
) -> None:
    """Go on with a run that was stopped, from its last checkpoint."""
    with _status():
        where = RunFolder(folder)
        where.check_has("config.json", "checkpoint.eqx")
        with claim_or_refuse(where.path):
            settings = read_config(where / "config.json", edited=False)
            with precision(settings):
                experiment = _prepare(settings, no_cache)
                state = load(where / "checkpoint.eqx", experiment.like())
                settings = _extended(settings, int(state.step), steps)
                experiment = dataclasses.replace(experiment, config=settings)
                _train(experiment, where, not no_figures, state)


@app.command()
def reproduce(
    experiment: Annotated[
        list[str] | None,
        typer.Argument(help="Which experiments, default all; see `pinnacle list`."),
    ] = None,
    preset: Annotated[
        str,
        _option("'paper': its settings; 'quick': minutes a run; 'smoke': seconds."),
    ] = "quick",
    seeds: Annotated[
        int | None, _option("How many; default the paper's, or 3 for quick runs.")
    ] = None,
    jobs: Annotated[
        int, _option("Processes of one thread each; 0 works in this one.")
    ] = 1,
    out: Annotated[
        pathlib.Path | None,
        _option("Folder of all runs, default reproduction/PRESET; may be shared."),
    ] = None,
    file: Annotated[
        pathlib.Path | None, _option("Your own experiments, as TOML or JSON.")
    ] = None,
    method: Annotated[
        list[str] | None, _option("Only rows of this method; may be repeated.")
    ] = None,
    tables_only: Annotated[
        bool, _option("Make tables of what is finished, run nothing.", "--tables-only")
    ] = False,
    no_figures: Annotated[bool, _option("Draw no figures.", "--no-figures")] = False,
    no_cache: Annotated[
        bool, _option(f"Do not keep compiled functions (in ${VARIABLE}).", "--no-cache")
    ] = False,
) -> None:
    """Run experiments with every method and seed; started again, do what is missing."""
    names, where = experiment or [], out or pathlib.Path("reproduction", preset)
    with _status():
        if tables_only:
            report(where, names, not no_figures, console)
            return
        chosen = experiments(names, file)
        work = units(chosen, preset, seeds, method or [])
        complete = run_all(
            chosen, work, preset, jobs, where, not no_cache, console, errors
        )
        report(where, list(chosen), not no_figures, console)
    if not complete:
        raise typer.Exit(FAILED)


@app.command()
def analyse(
    folder: Annotated[pathlib.Path, typer.Argument(help="The folder of a run.")],
    resolution: Annotated[
        int, _option("Points along each axis of the eigenfunctions' grid.")
    ] = 24,
    stages: Annotated[int, _option("Stages of the training that are shown.")] = 4,
) -> None:
    """Draw the NTK's eigenfunctions and the embedding at stages of a run."""
    with _status():
        enable_cache()
        with console.status("eigenfunctions"):
            drawn = draw_analysis(folder, resolution, stages)
        console.print(f"{folder}/figures/: {', '.join(drawn)}", soft_wrap=True)


@app.command(name="list")
def list_() -> None:
    """Show the problems with the paper's settings, the methods and the experiments."""
    print_problems(console, {name: make() for name, make in PROBLEMS.items()})
    print_methods(console, METHODS)
    print_experiments(console, EXPERIMENTS)


def _settings(path, preset: str | None, changes: dict[str, Any]) -> RunConfig:
    """The preset or the file, with the options given on the command line."""
    if path is not None:
        if preset is not None:
            raise ValueError("`--config` and `--preset` exclude each other.")
        return from_dict({**load_config(path), **changes})
    if "problem" not in changes:
        raise ValueError(
            f"no problem given: choose one of {', '.join(PROBLEMS)}, or give --config."
        )
    return make_config(preset=preset or "paper", **changes)


def _extended(settings: RunConfig, done: int, steps: int | None) -> RunConfig:
    """Settings whose run, done at once, is the stopped run and its continuation."""
    end = settings.steps if steps is None else done + steps
    if end <= done:
        raise ValueError(
            f"the run has taken all of its {done} steps: give --steps for more."
        )
    horizon = settings.decay_steps or settings.steps
    return dataclasses.replace(settings, steps=end, decay_steps=horizon)


def _default_folder(settings: RunConfig) -> pathlib.Path:
    return pathlib.Path("runs", f"{settings.problem}-{settings.method}-{settings.seed}")


def _prepare(settings: RunConfig, no_cache: bool) -> Experiment:
    if not no_cache:
        enable_cache()
    return build(settings)


def _train(
    experiment: Experiment,
    folder: RunFolder,
    draw: bool,
    state: TrainState | None = None,
) -> None:
    """Train with a progress bar, write the folder, report."""
    begin = time.perf_counter()
    problem = experiment.problem
    with doing(console, f"{problem.title}: reference solution"):
        reference = experiment.reference
        experiment.warm_up()
    model = _first_model(experiment) if state is None else None
    solved = time.perf_counter()
    watch = Watch(console, experiment.config, state)
    recorder = Recorder(folder, problem, reference, watch)
    if state is not None:
        recorder.load(state)  # all is read: from here on the folder may change
        (folder / "summary.json").unlink(missing_ok=True)
        save_config(folder / "config.json", experiment.config, versions=versions())
    with watch:
        done = train_recorded(experiment, recorder, state, model)
    trained = time.perf_counter()
    figures = recorder.figures(done.model) if draw else []
    end = time.perf_counter()
    drawing = {"figures": end - trained} if draw else {}
    seconds = {
        "reference": solved - begin,
        **_seconds(recorder),
        **drawing,
        "total": recorder.before["wall"] + end - begin,
    }
    summary = _summary(experiment, done, recorder, seconds)
    folder.write_json("summary.json", summary)
    print_report(console, summary, recorder.rounds, problem.space.names)
    console.print(f"{folder.path}/: {', '.join(('config.json', *figures))}, …")
    _exit(done)


def _first_model(experiment: Experiment) -> Model | None:
    """The trained network that a transfer problem begins with."""
    begin = first_model(experiment)
    if begin is None:
        return None
    with doing(console, f"{experiment.problem.title}: the first network"):
        return begin()


def _summary(
    experiment: Experiment, done: FitResult, recorder: Recorder, seconds
) -> dict[str, Any]:
    last = recorder.training[-1] if recorder.training else {}
    metrics = ("mse", "relative_l2", "max_error")
    return {
        "problem": experiment.config.problem,
        "method": experiment.config.method,
        "result": done.message or "successful",
        "steps": int(done.state.step),
        "rounds": len(recorder.rounds),
        "loss": last.get("loss"),
        "errors": {name: last[name] for name in metrics if name in last},
        "seconds": seconds,
    }


def _seconds(recorder: Recorder) -> dict[str, float]:
    names = {"compiling": "compiling (part of the above)"}
    seconds = recorder.seconds()
    return {names.get(n, n): s for n, s in seconds.items() if n != "wall"}


def _exit(done: FitResult) -> None:
    if done.result == RESULTS.successful:
        return
    where, why = int(done.state.step), escape(done.message)
    errors.print(f"[red]stopped at step {where}:[/] {why}", soft_wrap=True)
    interrupted = done.result == RESULTS.interrupted
    raise typer.Exit(INTERRUPTED if interrupted else FAILED)


@contextmanager
def _status() -> Iterator[None]:
    """Mistakes of the user as a message and an exit status, without a traceback."""
    try:
        yield
    except (ValueError, OSError) as error:
        errors.print(f"[red]error:[/] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt:
        errors.print("interrupted")
        raise typer.Exit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
