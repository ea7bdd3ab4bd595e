"""The laws of domains and faces."""

import jax
import jax.numpy as jnp
import numpy as np

from .._geometry import AbstractDomain, AbstractFace


def check_domain(domain: AbstractDomain, *, n: int = 64, seed: int = 0) -> None:
    """Put a domain through the laws that all of them keep.

    Points of the unit cube, its corners among them, go to points of the set: one a
    row, in the dtype that they come in, inside of `bounds`, and `contains` says so of
    them, but not of points beyond the bounds. The measure is positive. The normal of a
    face is a unit vector, and its points belong to the region.

    **Arguments:**

    - `domain`: what is checked.
    - `n`: how many points are drawn.
    - `seed`: of the points.

    **Raises:** `AssertionError`, saying which law does not hold.
    """
    assert domain.measure > 0, f"`measure` is {domain.measure}"
    time = domain.time_axis
    assert time is None or 0 <= time < domain.dim, f"`time_axis` is {time}"
    lower, upper = map(np.asarray, domain.bounds)
    assert lower.shape == upper.shape == (domain.dim,), (
        f"`bounds` has {lower.size} and {upper.size} numbers, `dim` is {domain.dim}"
    )
    unit = _unit(n, domain.dof, seed)
    x = domain.from_unit(unit)
    assert x.shape == (unit.shape[0], domain.dim), (
        f"`from_unit` gave shape {x.shape} for {unit.shape[0]} points"
    )
    assert x.dtype == unit.dtype, f"`from_unit` gave {x.dtype} for {unit.dtype}"
    points, kind = np.asarray(x), np.dtype(x.dtype)
    inside = (points >= lower.astype(kind)) & (points <= upper.astype(kind))
    assert inside.all(), "`from_unit` leaves `bounds`"
    assert np.all(domain.contains(x)), "`contains` denies points of `from_unit`"
    beyond = x + jnp.asarray(1 + 2 * (upper - lower), x.dtype)[None, :]
    assert not np.any(domain.contains(beyond)), "`contains` accepts what is outside"
    if isinstance(domain, AbstractFace):
        _check_face(domain, x)


def _unit(n: int, dof: int, seed: int):
    """Corners of the unit cube as far as [0, 1) has them, and points drawn in it."""
    below = np.nextafter(1, 0, dtype=np.dtype(jnp.result_type(float)))
    drawn = jax.random.uniform(jax.random.key(seed), (n, dof))
    corners = [jnp.full((1, dof), corner, drawn.dtype) for corner in (0, below)]
    return jnp.concatenate([*corners, drawn])


def _check_face(face: AbstractFace, x) -> None:
    assert np.all(face.region.contains(x)), "points of the face are not in its region"
    normals = jax.vmap(face.normal)(x)
    assert normals.shape == x.shape, f"`normal` gave shape {normals.shape[1:]}"
    lengths = np.linalg.norm(np.asarray(normals), axis=1)
    assert np.allclose(lengths, 1, atol=1e-4), "`normal` is no unit vector"
