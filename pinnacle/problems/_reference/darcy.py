"""Reference solution of Darcy's flow by Chebyshev collocation on the unit square."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .base import Reference
from .grid import check_positive, on_cpu


def log_permeability(
    x: Float[Array, "*shape"], y: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """log a = 0.8 sin(3πx/2) cos(2πy) + 0.6 cos(πx) cos(πy), elementwise.

    a varies by a factor of 13, and a_y vanishes on the walls y = 0 and y = 1, so
    that the flow can be continued across them as its mirror image and is smooth.

    **Arguments:**

    - `x`, `y`: positions.
    """
    lenses = 0.8 * jnp.sin(1.5 * jnp.pi * x) * jnp.cos(2 * jnp.pi * y)
    return lenses + 0.6 * jnp.cos(jnp.pi * x) * jnp.cos(jnp.pi * y)


def darcy_reference(*, cells: int = 100, degree: int = 28) -> Reference:
    """(a u_x)_x + (a u_y)_y = 0 on (0, 1)², driven from the left to the right.

    u = 1 on the left and u = 0 on the right; u_y = 0 on the walls y = 0 and y = 1. The
    permeability a(x, y) is that of [`log_permeability`][].

    **Arguments:**

    - `cells`: the grid has `cells + 1` points along each axis.
    - `degree`: of the polynomial in each coordinate.

    **Returns:**

    The solution on the grid, axes (x, y), one output. Raises `ValueError` for sizes
    that are not positive.
    """
    check_positive(cells=cells, degree=degree)
    nodes, d = _chebyshev(degree)
    n = degree + 1
    x, y = (axis.ravel() for axis in np.meshgrid(nodes, nodes, indexing="ij"))
    with on_cpu():
        a = np.exp(np.asarray(log_permeability(jnp.asarray(x), jnp.asarray(y))))
    one = np.eye(n)
    d_x, d_y = np.kron(d, one), np.kron(one, d)
    matrix = d_x @ (a[:, None] * d_x) + d_y @ (a[:, None] * d_y)
    walls, sides = (y == 0) | (y == 1), (x == 0) | (x == 1)
    matrix[walls] = d_y[walls]
    matrix[sides] = np.eye(n * n)[sides]
    u = np.linalg.solve(matrix, (x == 0).astype(float)).reshape(n, n)
    axis = np.arange(cells + 1) / cells
    to_grid = _interpolation(nodes, axis)
    return Reference((axis, axis), (to_grid @ u @ to_grid.T)[..., None])


def _chebyshev(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Extreme points of the Chebyshev polynomial on [0, 1], and d/dx on them."""
    nodes = (1 - np.cos(np.pi * np.arange(degree + 1) / degree)) / 2
    nodes[-1] = 1.0
    weight = _weights(degree)
    gap = nodes[:, None] - nodes[None, :] + np.eye(degree + 1)
    d = weight[None, :] / weight[:, None] / gap
    np.fill_diagonal(d, 0)
    np.fill_diagonal(d, -d.sum(axis=1))
    return nodes, d


def _weights(degree: int) -> np.ndarray:
    """Barycentric weights of the nodes."""
    weight = (-1.0) ** np.arange(degree + 1)
    weight[[0, -1]] /= 2
    return weight


def _interpolation(nodes, x) -> np.ndarray:
    """Values at the nodes ↦ values of their polynomial at `x`."""
    gap = x[:, None] - nodes[None, :]
    hit = gap == 0
    terms = _weights(nodes.size - 1) / np.where(hit, 1, gap)
    matrix = terms / terms.sum(axis=1, keepdims=True)
    return np.where(hit.any(axis=1, keepdims=True), hit, matrix)
