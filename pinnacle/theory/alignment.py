"""How well the leading eigenfunctions of Θ describe a function (section 4.2).

The function may be the network's prediction F[û], a known solution F[u] (both by
`operate`), or a residual; given on all rows of a set, it is described by kind through
`rows`.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .rkhs import EigenSystem, coefficients


def kernel_target_alignment(
    theta: Float[Array, "n n"], target: Float[Array, " n"]
) -> Float[Array, ""]:
    """yᵀΘy/(‖Θ‖_F‖y‖²), in [0, 1]; 1 if Θ is a multiple of yyᵀ.

    Source: Cristianini et al. (2001). NaN if Θ or y is 0.
    """
    size = jnp.linalg.norm(theta) * jnp.sum(target**2)
    return target @ (theta @ target) / size


def cumulative_power(
    system: EigenSystem, target: Float[Array, " n"]
) -> Float[Array, " r"]:
    """Σ_{i≤k}⟨y, ψ_i⟩²/‖y‖² for k = 1, …, r: the share that k eigenfunctions carry.

    Grows to 1 at k = n. NaN if y is 0.

    **Arguments:**

    - `system`: of Θ on the set; norms and products are those of its L²(μ).
    - `target`: y on the set.
    """
    power = coefficients(system, target) ** 2
    return jnp.cumsum(power) / jnp.sum(system.measure * target**2)


def reconstruction(
    system: EigenSystem, target: Float[Array, " n"], k: int
) -> Float[Array, " n"]:
    """Σ_{i≤k}⟨y, ψ_i⟩ψ_i, what k eigenfunctions make of y (Figures `fig:eigfn-soln`,
    `fig:eigspect`).

    **Raises:** `ValueError` unless 0 ≤ k ≤ r.
    """
    rank = system.eigenvalues.shape[0]
    if not 0 <= k <= rank:
        raise ValueError(f"`k` is {k}: there are {rank} eigenfunctions.")
    return system.eigenfunctions[:, :k] @ coefficients(system, target)[:k]


def reconstruction_error(
    system: EigenSystem,
    target: Float[Array, " n"],
    rows: Bool[Array, " n"] | None = None,
) -> Float[Array, " r"]:
    """‖y − y_k‖/‖y‖ in L²(μ) on some rows, for k = 1, …, r.

    The reconstruction uses all rows: the eigenfunctions live on all kinds at once. On
    part of the rows the error need not fall with every k.

    **Arguments:**

    - `system`: of Θ on the set.
    - `target`: y on the set.
    - `rows`: where the error is measured, all by default; for one kind pass
      `row_kinds(space, blocks) == kind`.

    **Returns:**

    One number for each k; NaN if y is 0 on these rows.
    """
    here = jnp.ones(target.shape[0], bool) if rows is None else rows
    weight = jnp.where(here, system.measure, 0)
    parts = system.eigenfunctions * coefficients(system, target)[None, :]
    gap = target[:, None] - jnp.cumsum(parts, axis=1)
    error = jnp.sum(weight[:, None] * gap**2, axis=0)
    return jnp.sqrt(error / jnp.sum(weight * target**2))
