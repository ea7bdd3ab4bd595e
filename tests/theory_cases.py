"""Drawn kernels and a small real network, for the tests of `pinnacle.theory`."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import settings, strategies as st

from pinnacle import Model, nn
from pinnacle.problems import advection
from pinnacle.theory import blocks_at


N, P, M = 8, 12, 5  # rows of Z, parameters, rows elsewhere

laws = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)
decays = st.floats(0.0, 0.6)  # decades from one eigenvalue to the next


def draw_jacobian(seed: int, decay: float, rows: int = N, rank: int | None = None):
    """A Jacobian whose kernel has the eigenvalues 10^(−decay·i), i < rank."""
    rng = np.random.default_rng(seed)
    rank = rows if rank is None else rank
    U, _ = np.linalg.qr(rng.normal(size=(rows, rows)))
    W, _ = np.linalg.qr(rng.normal(size=(P, rows))) if rows <= P else (None, None)
    W = np.eye(rows) if W is None else W
    sigma = np.where(np.arange(rows) < rank, 10 ** (-decay * np.arange(rows) / 2), 0)
    return (U * sigma) @ W.T


def draw_linear(seed: int, decay: float):
    """A linear model: J(Z), J elsewhere, R_0(Z), R_0 elsewhere."""
    rng = np.random.default_rng([seed, 1])
    J = draw_jacobian(seed, decay)
    Jz, R, Rz = (jnp.asarray(rng.normal(size=size)) for size in ((M, P), N, M))
    return jnp.asarray(J), Jz, R, Rz


def descend_by_hand(J, R0, rate, steps):
    """θ_t − θ_0 and R_t of explicit gradient descent on a linear model."""
    theta, path = np.zeros(J.shape[1]), []
    for _ in range(steps + 1):
        R = R0 + J @ theta
        path.append((theta, R))
        theta = theta - rate * J.T @ R
    return tuple(np.stack(part) for part in zip(*path, strict=True))


def small_network(sizes=(8, 3, 3), key: int = 0, width: int = 6):
    """Advection with a 2×6 network, and blocks with `sizes` points by kind."""
    space = advection().space
    model = Model(nn.MLP(2, 1, width, 2, key=jax.random.key(key)))
    rng = np.random.default_rng(key)
    blocks = blocks_at(
        space,
        [
            c.domain.from_unit(jnp.asarray(rng.uniform(size=(n, c.domain.dof))))
            for c, n in zip(space.components, sizes, strict=True)
        ],
    )
    return space, model, blocks
