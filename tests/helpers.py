"""Small problems, models and pipelines that several tests share.

They are made once, so that tests with the same shapes share compiled functions.
"""

import contextlib

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from jaxtyping import Array, Float

from pinnacle import (
    PDE,
    AbstractSampler,
    AugmentedSpace,
    Box,
    CandidatePool,
    Component,
    Dirichlet,
    Interval,
    Model,
    Nystrom,
    Observation,
    Periodic,
    PerKindQuota,
    RandomRetention,
    ResidualPower,
    Sampling,
    SelectionPipeline,
    SpaceTime,
    Uniform,
    derivatives,
)
from pinnacle.nn import MLP


X, T = 0, 1
STRIP = SpaceTime(Interval(0, 1), 0, 1)
SQUARE = Box((0, 0), (1, 1))


class Transport(eqx.Module):
    """scale · (u_t + speed · u_x)."""

    speed: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=1.0)
    scale: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=1.0)

    def __call__(self, u, x):
        u_t, u_x = derivatives(u, x, (T,), (X,))
        factor, speed = self.scale.astype(x.dtype), self.speed.astype(x.dtype)
        return factor * (u_t + speed * u_x)


class Reaction(eqx.Module):
    """∂_t Ca = Ca_xx − Ca² Cb and ∂_t Cb = Cb_xx + Ca² Cb, in the given order."""

    order: Array = eqx.field(converter=jnp.asarray)

    def __call__(self, u, x):
        c, c_t, c_xx = derivatives(u, x, (), (T,), (X, X))
        rate = c[0] ** 2 * c[1]
        both = c_t - c_xx + rate * jnp.asarray([1, -1], x.dtype)
        return both[self.order]


def sine(x):
    return jnp.sin(2 * jnp.pi * x[X])


def transport_components(scale=1.0, weight=1.0):
    """PDE, initial value and periodicity on the unit square."""
    sides = STRIP.periodic(X)
    return [
        Component("pde", STRIP, PDE(Transport(scale=scale)), weight=weight),
        Component("ic", STRIP.initial(), Dirichlet(), sine),
        Component("bc", sides, Periodic(X, sides.period)),
    ]


def laplace(u, x):
    u_xx, u_yy = derivatives(u, x, (0, 0), (1, 1))
    return u_xx + u_yy + 1


POISSON = AugmentedSpace(
    [
        Component("pde", SQUARE, PDE(laplace)),
        Component("left", SQUARE.boundary(0, "lower"), Dirichlet()),
        Component("right", SQUARE.boundary(0, "upper"), Dirichlet()),
        Component("rest", SQUARE.boundary(1), Dirichlet()),
    ]
)
TRANSPORT = AugmentedSpace(transport_components())
MEASURED = AugmentedSpace(
    [
        *transport_components(),
        Component("sensor", STRIP, Observation(), None, group="experimental"),
    ]
)


def model(outputs=1, *, seed=0, dtype=None, coefficients=None) -> Model:
    network = MLP(2, outputs, 8, 2, dtype=dtype, key=jr.key(seed))
    return Model(network, coefficients)


def pipeline(space=TRANSPORT, **changes) -> SelectionPipeline:
    """RAD in fixed shares: the split of the budget, and so the layout, never moves."""
    kinds = len(space.components)
    parts = {
        "space": space,
        "pool": CandidatePool((12,) + (6,) * (kinds - 1), Uniform()),
        "estimator": Nystrom(8),
        "criterion": ResidualPower(),
        "selector": PerKindQuota(Sampling()),
        "retention": RandomRetention(new=6),
        "budget": 12,
    }
    return SelectionPipeline(**{**parts, **changes})


class Fixed(AbstractSampler):
    """The same points whatever the key, made by numpy from a seed."""

    seed: int = eqx.field(static=True)

    def unit(self, n, dim, *, key):
        del key
        values = np.random.default_rng(self.seed).uniform(size=(n, dim))
        return jnp.asarray(values, jnp.result_type(float))


def same_bits(a, b) -> bool:
    """Whether all arrays of two pytrees agree in dtype, shape and every bit."""
    a, b = jax.tree.leaves(a), jax.tree.leaves(b)
    return len(a) == len(b) and all(map(_same_array, a, b))


def _same_array(a, b) -> bool:
    if not eqx.is_array_like(a):
        return a == b
    if jnp.issubdtype(jnp.result_type(a), jax.dtypes.prng_key):
        a, b = jr.key_data(a), jr.key_data(b)
    a, b = np.asarray(a), np.asarray(b)
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def chosen(space: AugmentedSpace, points, where=None) -> set:
    """The live points as a set of (name of the kind, coordinates)."""
    mask = np.asarray(points.mask if where is None else where)
    kinds, x = np.asarray(points.kind)[mask], np.asarray(points.x)[mask]
    return {(space.names[k], *row) for k, row in zip(kinds, x.tolist(), strict=True)}


@contextlib.contextmanager
def own_cache(folder, **environment):
    """The command's compilation cache in a folder, and further variables, for a while;
    the settings of JAX come back afterwards."""
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"PINNACLE_CACHE_DIR": folder, **environment}.items():
            patch.setenv(name, str(value))
        yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
