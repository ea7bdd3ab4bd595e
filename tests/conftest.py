"""Strict JAX settings for every test, and a fixture for each precision."""

import gc
import os
from pathlib import Path

import jax
import jaxtyping
import pytest


# XLA's older emitters of loops, in one part: a fifth of the time to compile. For the
# processes that tests start, too.
QUICK_XLA = (
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_XLA}".strip()

CACHE = Path(__file__).parent.parent / ".pytest_cache" / "compiled"

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "standard")

# What one test has compiled, another does not compile again: kept for the next run too.
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

# Tracing makes many objects and few cycles: collecting them less often saves a sixth.
gc.set_threshold(100_000, 20, 20)

# Nobody reads the compiled programs' references to lines of Python.
jax.config.update("jax_traceback_in_locations_limit", 0)


@pytest.fixture
def x64():
    """Run the test in float64."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def both_precisions(request):
    """Run the test once in float32 and once in float64."""
    with jax.enable_x64(request.param):
        yield request.param


@pytest.fixture(scope="module", autouse=True)
def quick_compile(request):
    """Compile without most of XLA's optimisations: half the time, slower code.

    Modules that set `OPTIMISED = True` compile with all of them.
    """
    quick = not getattr(request.module, "OPTIMISED", False)
    jax.config.update("jax_disable_most_optimizations", quick)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(autouse=True)
def forget_compiled():
    """Free the compiled functions once they hold many memory maps, three for each.

    A thousand of them double the time that the next small one takes, so that this
    saves a quarter of the tests' time. Linux gives a process 65,530 maps; beyond that
    XLA's next compilation aborts it.
    """
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 3_000:
        jax.clear_caches()


@pytest.fixture
def no_type_checks():
    """As users run it: without the shape checks of the tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
