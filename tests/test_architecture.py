"""What holds for all of the source: layers, classes, imports, no prints."""

import ast
import importlib
import inspect
import pathlib
import pkgutil
import subprocess
import sys
import warnings

import equinox as eqx
import pytest

import pinnacle


ROOT = pathlib.Path(pinnacle.__file__).parent
LAYERS = [
    {"_types", "_results", "_misc"},
    {"_geometry", "_sampler", "nn", "_model"},
    {"_operator"},
    {"_space"},
    {"_ntk", "_criterion", "_selector", "_retention"},
    {"_pipeline", "_oracle"},
    {"_paper", "_training", "_checkpoint", "problems", "theory", "testing"},
    {"plotting"},
    {"experiment"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# Concrete methods of abstract classes that say "nothing to do" until somebody has
# something to do.
HOOKS = {
    "AbstractOperator.check",
    "AbstractResidualOptimiser.answer",
    "AbstractResidualOptimiser.points_changed",
}
FILES = sorted(ROOT.rglob("*.py"))


def tree(path):
    return ast.parse(path.read_text())


def package_of(path):
    """The path of the folder below the root, as a tuple of names."""
    return path.relative_to(ROOT).parts[:-1]


def part_of(path):
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported_parts(path):
    """Names directly below `pinnacle` that a file imports from."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            package = package_of(path)
            base = package[: len(package) - node.level + 1]
            target = (*base, *(node.module or "").split("."))
            target = tuple(name for name in target if name)
            yield from [target[0]] if target else [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.module.split(".")[0] != "pinnacle", (path, "absolute import")
        elif isinstance(node, ast.Import):
            names = {alias.name.split(".")[0] for alias in node.names}
            assert "pinnacle" not in names, (path, "absolute import")


def modules():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in pkgutil.walk_packages(pinnacle.__path__, "pinnacle."):
            yield importlib.import_module(info.name)


def classes():
    found = {}
    for module in modules():
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if issubclass(cls, eqx.Module) and cls.__module__.startswith("pinnacle"):
                found[cls.__module__, cls.__qualname__] = cls
    return list(found.values())


CLASSES = classes()


def is_abstract(cls):
    return cls.__name__.lstrip("_").startswith("Abstract")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_layers(path):
    own = part_of(path)
    if own == "__init__":
        return
    assert own in LEVEL, f"{own} has no layer: add it to LAYERS and to the design"
    for part in imported_parts(path):
        assert part in LEVEL, (path, part)
        lower = LEVEL[part] < LEVEL[own]
        assert lower or part == own, f"{path} imports {part}, which is not below {own}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_source(path):
    nodes = list(ast.walk(tree(path)))
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert node.module != "__future__", "it breaks eqx.AbstractVar"
            assert all(alias.name != "*" for alias in node.names), "star import"
    if part_of(path) != "experiment":
        calls = [n.func for n in nodes if isinstance(n, ast.Call)]
        assert all(getattr(f, "id", None) != "print" for f in calls), "print"
        assert "jax.config" not in path.read_text(), "a global flag"
        assert "import pickle" not in path.read_text(), "files that execute code"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__qualname__)
def test_a_class_is_abstract_or_final(cls):
    open_ends = (
        set(cls.__abstractmethods__)
        | set(getattr(cls, "__abstractvars__", ()))
        | set(getattr(cls, "__abstractclassvars__", ()))
    )
    if is_abstract(cls):
        assert open_ends, "nothing is abstract in it"
    else:
        assert not open_ends, f"{open_ends} are missing"
        heirs = [c.__name__ for c in CLASSES if c is not cls and issubclass(c, cls)]
        assert not heirs, f"final, but {heirs} derive from it"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__qualname__)
def test_only_abstract_methods_are_overridden(cls):
    bases = [b for b in cls.__mro__[1:] if b in CLASSES]
    for base in bases:
        for name, member in vars(base).items():
            inherited = name.startswith("__") or f"{base.__name__}.{name}" in HOOKS
            if inherited or name.startswith("_abc") or name not in vars(cls):
                continue
            if not (callable(member) or isinstance(member, property)):
                continue
            assert getattr(member, "__isabstractmethod__", False), (
                f"{cls.__name__}.{name} overrides a method of {base.__name__}"
            )


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_space_maps_kinds_to_components(path):
    """Outside it, a kind is a label: no number of a kind is special, and nobody asks
    of which class an operator or a domain is."""
    own = part_of(path)
    closed = {
        c.__name__: c.__module__.split(".")[1]
        for c in CLASSES
        if not is_abstract(c)
        and c.__module__.split(".")[1] in ("_operator", "_geometry")
    }
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Compare) and own not in ("_space", "plotting"):
            sides = [node.left, *node.comparators]
            kinds = [
                s for s in sides if isinstance(s, ast.Attribute) and s.attr == "kind"
            ]
            numbers = [s for s in sides if isinstance(s, ast.Constant)]
            assert not (kinds and numbers), f"line {node.lineno}: a kind has a meaning"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            names = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
            asked = {n for n in names if closed.get(n, own) != own}
            assert not asked, f"line {node.lineno}: asks for {asked}"


IMPORT = """
import sys
import jax, jaxlib, equinox, optax, lineax, jaxtyping, numpy
flags, loaded = dict(jax.config.values), set(sys.modules)
import pinnacle
changed = [k for k, v in jax.config.values.items() if flags.get(k) != v]
assert not changed, changed
heavy = "hypothesis matplotlib typer scipy diffrax rich h5py pandas pytest".split()
late = {m.split(".")[0] for m in set(sys.modules) - loaded} & set(heavy)
assert not late, late
"""


def test_import_is_light_and_changes_no_flag():
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
