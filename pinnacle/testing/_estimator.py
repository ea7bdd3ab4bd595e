"""The laws of NTK estimators."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from .._geometry import Interval, SpaceTime
from .._model import Model
from .._ntk import AbstractNTKEstimator
from .._ntk.jacobian import Rows
from .._operator import PDE, Dirichlet, derivatives
from .._space import AugmentedSpace, Block, Component
from .._types import NTKSpectrum
from ..nn import MLP


class EstimatorCase(NamedTuple):
    """A space, a model, a pool, and other points to evaluate the eigenfunctions on."""

    space: AugmentedSpace
    model: Model
    pool: tuple[Block, ...]
    points: tuple[Block, ...]


def check_estimator(
    estimator: AbstractNTKEstimator,
    case: EstimatorCase | None = None,
    *,
    exact: bool = False,
    projection: bool = False,
    unbiased: bool = False,
    cross: bool = True,
    seed: int = 0,
) -> None:
    """Put an NTK estimator through the laws that all of them keep.

    Eigenvalues are finite, not negative and descending; the kernel Σλψψᵀ is symmetric
    positive semi-definite up to rounding and of the size of the dense JJᵀ; masked rows
    are zero, and what stands in them changes nothing; the same key gives the same
    kernel; the order of the points does not matter; nor does the
    chunk; multiplying one kind's rows by c multiplies its block by c², and the blocks
    that it shares with other kinds by c.

    **Arguments:**

    - `estimator`: what is checked.
    - `case`: space, model, pool and other points; by default a small one with three
      kinds, one of two rows, and masked points (`draw_estimator_case`).
    - `exact`: also check that on the pool the kernel is JJᵀ, so that α̂ = α on every
      subset, and that α̂ elsewhere grows with the pool. (Nyström with the whole pool as
      reference is exact, too.)
    - `projection`: also check α̂ ≤ α for every set of points. Holds for all estimators
      that project parameter space orthogonally.
    - `unbiased`: also check that the mean kernel over many keys is JJᵀ.
    - `cross`: whether the blocks between different kinds are estimated, not 0.
    - `seed`: of drawn data and keys.

    **Raises:** `AssertionError`, saying which law does not hold.
    """
    case = draw_estimator_case(seed) if case is None else case
    check = _Check(estimator, case, cross, jax.random.key(seed))
    rng = np.random.default_rng(seed)
    _check_spectrum(check)
    if exact:
        _check_exact(check)
        _check_growth(check, rng)
    if projection or exact:
        _check_projection(check)
    _check_masked(check)
    _check_same_key(check)
    _check_order(check, rng)
    _check_chunk(check)
    _check_scaling(check)
    if unbiased:
        _check_unbiased(check)


def draw_estimator_case(seed: int = 0) -> EstimatorCase:
    """Advection with its initial value and a system of two rows, on a small network.

    10, 4 and 5 candidates by kind, and 4, 3 and 3 other points; one of each masked.
    """
    key, *keys = jax.random.split(jax.random.key(seed), 7)
    domain = SpaceTime(Interval(0, 1), 0, 1)
    components = [
        Component("pde", domain, PDE(_advection), 0.3, weight=2.0),
        Component("ic", domain.initial(), Dirichlet(), _initial),
        Component("pair", domain, PDE(_pair, rows=2), weight=jnp.asarray([0.5, 1.0])),
    ]
    space = AugmentedSpace(components)
    model = Model(MLP(2, 1, 16, 1, key=key), {"speed": 0.7})
    return EstimatorCase(space, model, *_blocks(space, keys))


# Functions of the module, not of the call: what one call compiles serves the others.


def _initial(x):
    return jnp.sin(4 * x[0])


def _advection(u, x):
    u_t, u_x = derivatives(u, x, (1,), (0,))
    return u_t + u["speed"] * u_x


def _pair(u, x):
    value, u_x = derivatives(u, x, (), (0,))
    return value**2, u_x - value


@eqx.filter_jit
def _blocks(space: AugmentedSpace, keys) -> list[tuple[Block, ...]]:
    """The pool and the other points."""
    sizes = [(10, 4, 5), (4, 3, 3)]
    return [
        tuple(
            _block(space, kind, n, key=keys[3 * which + kind])
            for kind, n in enumerate(counts)
        )
        for which, counts in enumerate(sizes)
    ]


def _block(space: AugmentedSpace, kind: int, n: int, *, key) -> Block:
    domain = space.components[kind].domain
    unit = jax.random.uniform(key, (n, domain.dof))
    return Block(
        x=domain.from_unit(unit),
        mask=jnp.arange(n) != 1,
        label=jnp.zeros((n, space.rows)),
        weight=jnp.ones(n),
    )


class _Check(NamedTuple):
    estimator: AbstractNTKEstimator
    case: EstimatorCase
    cross: bool
    key: jax.Array

    def spectra(self, estimator=None, **changes) -> tuple[NTKSpectrum, NTKSpectrum]:
        """The spectrum on the pool and on the other points."""
        case = self.case._replace(**changes)
        return _spectra(estimator or self.estimator, case, self.key)

    def kernels(self, estimator=None, **changes) -> tuple[np.ndarray, np.ndarray]:
        pool, points = self.spectra(estimator, **changes)
        return _kernel(pool), _kernel(points)

    def near(self, a: np.ndarray, b: np.ndarray, digits: float = 0.5) -> bool:
        """Equal relative to the largest entry, to a given share of the digits."""
        eps = float(jnp.finfo(self.case.model.dtype).eps)
        return bool(np.max(np.abs(a - b)) <= eps**digits * np.max(np.abs(b)))


@eqx.filter_jit
def _spectra(estimator, case: EstimatorCase, key):
    space, model, pool, points = case
    basis = estimator.basis(space, model, pool, key=key)
    return tuple(
        estimator.spectrum(space, model, blocks, basis) for blocks in (pool, points)
    )


def _kernel(spectrum: NTKSpectrum) -> np.ndarray:
    """Σ λ_i ψ_i ψ_iᵀ over all rows, in float64."""
    values = np.asarray(spectrum.eigenvalues, np.float64)
    psi = np.asarray(spectrum.eigenfunctions, np.float64).reshape(-1, values.size)
    return (psi * values) @ psi.T


@eqx.filter_jit
def dense_jacobian(
    space: AugmentedSpace,
    model: Model,
    blocks: tuple[Block, ...],
    coefficients: bool = False,
) -> jax.Array:
    """J by forward mode over the flattened parameters, rows as in `NTKSpectrum`."""
    # Only the split into θ and the rest is taken from the library.
    split = Rows(space, model, coefficients, None)
    flat, unravel = jax.flatten_util.ravel_pytree(split.parameters)

    def rows(p):
        here = eqx.combine(unravel(p), split.rest)
        return space.stack(space.residual(here, blocks)).reshape(-1)

    return jax.jacfwd(rows)(flat)


def _dense(check: _Check, blocks: tuple[Block, ...]) -> np.ndarray:
    space, model, _, _ = check.case
    coefficients = _find(check.estimator, "coefficients") or False
    J = np.asarray(dense_jacobian(space, model, blocks, coefficients), np.float64)
    gram = J @ J.T
    if check.cross:
        return gram
    kinds = _kinds(space, blocks)
    return np.where(kinds[:, None] == kinds[None, :], gram, 0)


def _kinds(space: AugmentedSpace, blocks: tuple[Block, ...]) -> np.ndarray:
    return np.repeat(np.arange(len(blocks)), [b.size * space.rows for b in blocks])


def _check_spectrum(check: _Check) -> None:
    space, model, pool, _ = check.case
    spectrum, _ = check.spectra()
    values = np.asarray(spectrum.eigenvalues)
    n = sum(block.size for block in pool)
    shape = (n, space.rows, values.size)
    assert spectrum.eigenfunctions.shape == shape, (
        f"eigenfunctions must have shape {shape}, got {spectrum.eigenfunctions.shape}"
    )
    for name in ("eigenvalues", "eigenfunctions"):
        array = getattr(spectrum, name)
        assert array.dtype == model.dtype, (
            f"{name} must have the model's dtype {model.dtype}, got {array.dtype}"
        )
        assert np.isfinite(np.asarray(array)).all(), f"{name} are not finite"
    assert (values >= 0).all(), f"an eigenvalue is negative: {values.min()}"
    assert (np.diff(values) <= 0).all(), "eigenvalues must be in descending order"
    K = _kernel(spectrum)
    lowest, highest = np.linalg.eigvalsh(K)[[0, -1]]
    assert lowest >= -1e-6 * highest, "the kernel is not positive semi-definite"
    ratio = np.trace(K) / np.trace(_dense(check, pool))
    assert 0.2 < ratio < 5, (
        f"the trace of the kernel is {ratio:.2g} times that of JJᵀ: eigenvalues and "
        "eigenfunctions must be scaled so that Σλψψᵀ ≈ JJᵀ"
    )


def _check_masked(check: _Check) -> None:
    _, _, pool, _ = check.case
    spectrum, _ = check.spectra()
    masked = ~np.concatenate([np.asarray(block.mask) for block in pool])
    assert not np.asarray(spectrum.eigenfunctions)[masked].any(), (
        "eigenfunctions must be zero on masked rows"
    )
    moved = tuple(
        eqx.tree_at(
            lambda b: b.x, block, jnp.where(block.mask[:, None], block.x, block.x[:1])
        )
        for block in pool
    )
    assert check.near(check.kernels(pool=moved)[0], check.kernels()[0]), (
        "what stands in masked rows changes the kernel"
    )


def _check_same_key(check: _Check) -> None:
    first, again = check.kernels(), check.kernels()
    assert np.array_equal(first[0], again[0]), "the same key gives another kernel"


def _check_order(check: _Check, rng: np.random.Generator) -> None:
    space, _, _, points = check.case
    order = [rng.permutation(block.size) for block in points]
    shuffled = tuple(
        jax.tree.map(lambda leaf, o=o: leaf[o], block)
        for block, o in zip(points, order, strict=True)
    )
    starts = np.cumsum([0, *[block.size for block in points[:-1]]])
    index = np.concatenate([s + o for s, o in zip(starts, order, strict=True)])
    rows = (index[:, None] * space.rows + np.arange(space.rows)).reshape(-1)
    K = check.kernels()[1]
    assert check.near(check.kernels(points=shuffled)[1], K[rows][:, rows]), (
        "the kernel depends on the order of the points"
    )


def _check_chunk(check: _Check) -> None:
    if _find(check.estimator, "chunk", missing=False) is False:
        return
    K = check.kernels()
    for chunk in (1, 3):
        other = check.kernels(_replace(check.estimator, "chunk", chunk))
        same = check.near(other[0], K[0]) & check.near(other[1], K[1])
        assert same, f"the kernel depends on the chunk ({chunk})"


def _check_scaling(check: _Check) -> None:
    space, _, pool, _ = check.case
    K, c = check.kernels()[0], 2.0
    kinds = _kinds(space, pool)
    for kind in range(len(pool)):
        heavier = eqx.tree_at(
            lambda s, k=kind: s.components[k].weight,
            space,
            replace_fn=lambda w: c**2 * w,
        )
        factor = np.where(kinds == kind, c, 1)
        expected = K * factor[:, None] * factor[None, :]
        assert check.near(check.kernels(space=heavier)[0], expected, 0.4), (
            f"the rows of kind {kind} times {c} do not scale its blocks"
        )


def _check_exact(check: _Check) -> None:
    K, dense = check.kernels()[0], _dense(check, check.case.pool)
    assert check.near(K, dense), (
        "the kernel differs from JJᵀ on the pool: relative error "
        f"{np.max(np.abs(K - dense)) / np.max(np.abs(dense)):.1e}"
    )


def _check_growth(check: _Check, rng: np.random.Generator) -> None:
    """α̂ on other points for a growing pool: rows of the pool unmasked step by step."""
    _, _, pool, points = check.case
    n = sum(block.size for block in points) * check.case.space.rows
    R = rng.normal(size=(n, 8))
    scores = []
    for live in range(1, 6, 2):
        part = tuple(
            eqx.tree_at(lambda b: b.mask, b, b.mask & (jnp.arange(b.size) < live))
            for b in pool
        )
        scores.append(np.sum(R * (check.kernels(pool=part)[1] @ R), axis=0))
    gain = np.diff(scores, axis=0)
    slack = 1e-4 * np.max(scores)
    assert (gain >= -slack).all(), "α̂ falls when points are added to the reference"


def _check_projection(check: _Check) -> None:
    for K, blocks in zip(check.kernels(), check.case[2:], strict=True):
        gap = _dense(check, blocks) - K
        eps = float(jnp.finfo(check.case.model.dtype).eps)
        lowest = np.linalg.eigvalsh((gap + gap.T) / 2)[0]
        assert lowest >= -(eps**0.5) * np.trace(K), (
            f"α̂ exceeds α: JJᵀ − Σλψψᵀ has the eigenvalue {lowest:.1e}"
        )


def _check_unbiased(check: _Check, draws: int = 400) -> None:
    space, model, pool, _ = check.case

    @eqx.filter_jit
    def kernels(keys):
        def one(key):
            basis = check.estimator.basis(space, model, pool, key=key)
            s = check.estimator.spectrum(space, model, pool, basis)
            psi = s.eigenfunctions.reshape(-1, s.eigenvalues.size)
            return (psi * s.eigenvalues[None, :]) @ psi.T

        return jax.lax.map(one, keys)

    K = np.asarray(kernels(jax.random.split(check.key, draws)), np.float64)
    error = np.abs(K.mean(axis=0) - _dense(check, pool))
    # Six standard errors of each entry of the mean.
    allowed = 6 * K.std(axis=0) / draws**0.5 + 1e-5 * np.max(np.abs(K))
    assert (error <= allowed).all(), "the mean kernel over many keys is not JJᵀ"


def _find(module, name: str, missing=None):
    """The field `name` of a module, or of the modules it wraps."""
    for field in dataclasses.fields(module):
        value = getattr(module, field.name)
        if field.name == name:
            return value
        if isinstance(value, AbstractNTKEstimator):
            return _find(value, name, missing)
    return missing


def _replace(module, name: str, new):
    for field in dataclasses.fields(module):
        value = getattr(module, field.name)
        if field.name == name:
            return dataclasses.replace(module, **{name: new})
        if isinstance(value, AbstractNTKEstimator):
            return dataclasses.replace(
                module, **{field.name: _replace(value, name, new)}
            )
    return module
