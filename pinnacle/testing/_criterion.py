"""The laws of convergence criteria."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._criterion import AbstractConvergenceCriterion
from .._types import PoolInfo
from ._strategies import draw_pool_info


def check_criterion(
    criterion: AbstractConvergenceCriterion,
    info: PoolInfo | None = None,
    *,
    homogeneous: bool = False,
    kinds: int = 3,
    seed: int = 0,
) -> None:
    """Put a convergence criterion through the laws that all of them keep.

    One finite row of the embedding a live candidate, in the dtype of the residual;
    the score of a one-point set is the score of the point; nothing depends on padded
    rows; rows beside the pool are embedded as they would be in it, and the pool is all
    that means and sums go over; a
    candidate that is not finite spoils no other; the order of the candidates
    does not matter; scores of points and sets do not change when an eigenfunction
    changes sign or when a degenerate eigenspace is rotated; `jit` changes nothing and
    new values do not recompile.

    **Arguments:**

    - `criterion`: what is checked.
    - `info`: the data; by default several are drawn (`pinnacle.testing.pool_infos` is
      a hypothesis strategy for it).
    - `homogeneous`: also check that scores grow with the square of the residual,
      α(cR) = c²α(R).
    - `kinds`: number of kinds in the drawn data.
    - `seed`: of the drawn data.

    **Raises:** `AssertionError`, saying which law does not hold.
    """
    rng = np.random.default_rng(seed)
    apply = eqx.filter_jit(eqx.debug.assert_max_traces(_apply, max_traces=1))
    for data in _drawn(rng, kinds) if info is None else [info]:
        embedding = apply(criterion, data)
        _check_embedding(criterion, data, embedding)
        _check_single_points(data, embedding)
        _check_padding(criterion, apply, data, embedding, rng)
        _check_spoilt(criterion, apply, data, rng)
        _check_permutation(criterion, apply, data, embedding, rng)
        _check_population(criterion, apply, data, rng)
        _check_eigenbasis(criterion, apply, data, embedding, rng)
        if homogeneous:
            _check_homogeneous(criterion, apply, data, embedding)


def _apply(criterion: AbstractConvergenceCriterion, info: PoolInfo) -> jax.Array:
    return criterion(info)


def _drawn(rng: np.random.Generator, kinds: int) -> list[PoolInfo]:
    settings = [
        {},
        {"padding": 0},
        {"scale": 1e-6, "decay": 2.0},
        {"scale": 1e4, "zeros": 5},
        {"decay": 0.0},
        {"zeros": 20},
    ]
    return [draw_pool_info(rng, kinds=kinds, **setting) for setting in settings]


def _check_embedding(criterion, info: PoolInfo, embedding: jax.Array) -> None:
    n = info.kind.shape[0]
    assert embedding.ndim == 2, (
        f"the embedding must have shape (n, q) with n = {n} candidates, got shape "
        f"{embedding.shape}"
    )
    assert embedding.shape[0] == n, (
        f"the embedding must have one row for each of the {n} candidates, got "
        f"{embedding.shape[0]}"
    )
    assert embedding.dtype == info.residual.dtype, (
        f"the embedding must have the residual's dtype {info.residual.dtype}, got "
        f"{embedding.dtype}"
    )
    finite = np.isfinite(np.asarray(embedding))[np.asarray(info.mask)]
    assert finite.all(), "the embedding of a live candidate is not finite"
    eager = criterion(info)
    assert _close(eager, embedding, info), "jit changes the embedding"


def _check_single_points(info: PoolInfo, embedding: jax.Array) -> None:
    # The score of a set is ‖Σφ‖²; of the set {z} it is that of the point, ‖φ(z)‖².
    members = jnp.eye(info.kind.shape[0], dtype=embedding.dtype)
    of_sets = jnp.sum(jnp.square(members @ _live(embedding, info)), axis=1)
    of_points = jnp.sum(jnp.square(_live(embedding, info)), axis=1)
    assert _near(of_sets, of_points, embedding.dtype), (
        "the score of a one-point set differs from the score of the point"
    )


def _check_padding(criterion, apply, info, embedding, rng) -> None:
    for garbage in (rng.normal() * 1e6, np.nan):
        spoilt = _replace_rows(info, ~info.mask, garbage)
        assert _close(apply(criterion, spoilt), embedding, info), (
            "the embedding of live candidates depends on padded rows "
            f"(filled with {garbage})"
        )


def _check_spoilt(criterion, apply, info, rng) -> None:
    live = np.flatnonzero(np.asarray(info.mask))
    if live.size == 0:
        return
    row = jnp.arange(info.kind.shape[0]) == int(rng.choice(live))
    for value in (np.nan, np.inf):
        embedding = apply(criterion, _replace_rows(info, row, value))
        others = np.asarray(info.mask & ~row)
        assert np.isfinite(np.asarray(embedding))[others].all(), (
            f"one candidate whose residual is {value} spoils the embedding of others"
        )


def _check_population(criterion, apply, info, rng) -> None:
    inside = jnp.asarray(rng.random(info.kind.shape[0]) < 0.7)
    pool = dataclasses.replace(info, mask=info.mask & inside)
    beside = criterion(dataclasses.replace(info, population=pool))
    assert _close(beside, apply(criterion, pool), pool), (
        "the embedding depends on rows that are not in `info.pool`: let means and sums "
        "go over its rows"
    )
    rest = np.asarray(info.mask & ~inside)
    assert np.isfinite(np.asarray(beside))[rest].all(), (
        "rows that are not in `info.pool` must be embedded like all others"
    )


def _check_permutation(criterion, apply, info, embedding, rng) -> None:
    order = jnp.asarray(rng.permutation(info.kind.shape[0]))
    permuted = PoolInfo(
        kind=info.kind[order],
        mask=info.mask[order],
        x=info.x[order],
        residual=info.residual[order],
        gradient_norm=info.gradient_norm[order],
        spectrum=dataclasses.replace(
            info.spectrum, eigenfunctions=info.spectrum.eigenfunctions[order]
        ),
    )
    assert _close(apply(criterion, permuted), embedding[order], permuted), (
        "the embedding depends on the order of the candidates"
    )


def _check_eigenbasis(criterion, apply, info, embedding, rng) -> None:
    # φ may turn with the basis, but ⟨φ(z), φ(z')⟩ and with it every score may not.
    gram = _gram(embedding, info)
    eigenvalues = np.asarray(info.spectrum.eigenvalues)
    signs = np.diag(rng.choice([-1.0, 1.0], eigenvalues.size))
    for name, turn in [
        ("an eigenfunction changes sign", signs),
        ("a degenerate eigenspace is rotated", _rotation(eigenvalues, rng)),
    ]:
        functions = info.spectrum.eigenfunctions
        turned = functions @ jnp.asarray(turn, functions.dtype)
        spectrum = dataclasses.replace(info.spectrum, eigenfunctions=turned)
        turned_gram = _gram(
            apply(criterion, dataclasses.replace(info, spectrum=spectrum)), info
        )
        assert _near(turned_gram, gram, embedding.dtype), (
            f"scores change when {name}: they must depend on the NTK, not on the "
            "basis in which it is written"
        )


def _check_homogeneous(criterion, apply, info, embedding) -> None:
    factor = 4.0  # a power of two: no rounding
    scaled = dataclasses.replace(
        info,
        residual=info.residual * factor,
        gradient_norm=info.gradient_norm * factor,
    )
    gram = _gram(apply(criterion, scaled), info)
    assert _near(gram, factor**2 * _gram(embedding, info), embedding.dtype), (
        f"α(cR) = c²α(R) does not hold for c = {factor}"
    )


def _rotation(eigenvalues: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random orthogonal matrix that mixes equal eigenvalues only."""
    turn = np.zeros((eigenvalues.size, eigenvalues.size))
    for value in np.unique(eigenvalues):
        same = np.flatnonzero(eigenvalues == value)
        block, _ = np.linalg.qr(rng.normal(size=(same.size, same.size)))
        turn[np.ix_(same, same)] = block
    return turn


def _replace_rows(info: PoolInfo, rows: jax.Array, value: float) -> PoolInfo:
    """`info` with residual, gradient norm and eigenfunctions of `rows` overwritten."""
    return dataclasses.replace(
        info,
        residual=jnp.where(rows[:, None], value, info.residual),
        gradient_norm=jnp.where(rows, value, info.gradient_norm),
        spectrum=dataclasses.replace(
            info.spectrum,
            eigenfunctions=jnp.where(
                rows[:, None, None], value, info.spectrum.eigenfunctions
            ),
        ),
    )


def _live(embedding: jax.Array, info: PoolInfo) -> jax.Array:
    return jnp.where(info.mask[:, None], embedding, 0)


def _gram(embedding: jax.Array, info: PoolInfo) -> np.ndarray:
    live = np.asarray(_live(embedding, info), np.float64)
    return live @ live.T


def _close(a: jax.Array, b: jax.Array, info: PoolInfo) -> bool:
    return a.shape == b.shape and _near(_live(a, info), _live(b, info), b.dtype)


def _near(a, b, dtype) -> bool:
    """Equal up to rounding, relative to the largest entry."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    tolerance = 200 * float(jnp.finfo(dtype).eps)
    return bool(np.all(np.abs(a - b) <= tolerance * np.max(np.abs(b), initial=0)))
