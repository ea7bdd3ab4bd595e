"""Examples and the README's code run; the README's commands are those that CI runs."""

import importlib.util
import re
from pathlib import Path

import pytest


ROOT = Path(__file__).parent.parent
TINY = {
    "any_network": {"steps": 2, "budget": 8},
    "own_criterion": {"budget": 8},
    "own_measurements": {"visits": 1, "steps": 2, "budget": 6},
    "own_pde": {"steps": 2, "budget": 8},
    "own_training_loop": {"rounds": 1, "steps": 2},
    "unknown_coefficient": {"steps": 2, "budget": 12},
}


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"examples/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", TINY)
def test_example(name, no_type_checks):
    assert example(name).main(**TINY[name])


def test_a_property_test_of_a_users_criterion(no_type_checks):
    module = example("criterion_property_test")
    tests = [f for n, f in vars(module).items() if n.startswith("test_")]
    assert tests
    for test in tests:
        test()


def test_every_example_is_run():
    files = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert files == {*TINY, "criterion_property_test"}


def test_the_readmes_code(no_type_checks, capsys):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(blocks) == 2
    tiny = blocks[0].replace("steps=5000", "steps=2").replace("budget=200", "budget=8")
    assert tiny != blocks[0]
    exec(tiny, {})
    assert capsys.readouterr().out


def test_the_code_about_extending(no_type_checks):
    words = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    space = re.findall(r"```python\n(.*?)model = ", readme, re.DOTALL)[0]
    here = {}
    exec(space, here)
    for block in re.findall(r"```python\n(.*?)```", words, re.DOTALL):
        exec(block, here)
    assert here["pipeline"].selector == here["Tournament"]()


def test_ci_runs_the_readmes_test_command():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"```bash\n(.*?)\n```", readme, re.DOTALL)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci/run").read_text(encoding="utf-8")
