"""Strict JAX settings for every test, and a fixture for each precision."""

import jax
import jaxtyping
import pytest


jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "standard")


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


@pytest.fixture(scope="module")
def quick_compile():
    """Compile without most of XLA's optimisations: half the time, slower code."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def no_type_checks():
    """As users run it: without the shape checks of the tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
