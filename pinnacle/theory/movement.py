"""How far the parameters move in linearised training, and bounds on it."""

import jax
import jax.numpy as jnp
import lineax as lx
from jaxtyping import Array, ArrayLike, Float, PyTree

from .dynamics import Kernel
from .kernel import RowFunction, solve


def movement(theta: Kernel, dual: Float[Array, "times n"]) -> Float[Array, " times"]:
    """‖θ_t − θ_0‖ = √(c_tᵀΘc_t) of the linearised network.

    **Arguments:**

    - `theta`: Θ(Z), matrix or operator.
    - `dual`: c_t, from `gradient_flow` or `gradient_descent`.
    """
    if isinstance(theta, lx.AbstractLinearOperator):
        moved = jax.vmap(theta.mv)(dual)
    else:
        moved = dual @ theta
    return jnp.sqrt(jnp.maximum(jnp.sum(moved * dual, axis=1), 0))


def parameter_change(
    rows: RowFunction, parameters: PyTree, dual: Float[Array, " n"]
) -> PyTree:
    """θ_t − θ_0 = −J(Z)ᵀc_t of the linearised network (below eq. `eq:lin-nn`).

    **Arguments:**

    - `rows`, `parameters`: from `residual_function`, at θ_0.
    - `dual`: c_t at one time.
    """
    _, pull = jax.vjp(rows, parameters)
    return pull(-dual)[0]


def movement_limit(theta: Kernel, residual: Float[Array, " n"]) -> Float[Array, ""]:
    """‖θ_∞ − θ_0‖ = √(R_0ᵀΘ⁻¹R_0) (lemma `lemma:param-diff`).

    It bounds ‖θ_t − θ_0‖ at every t if η ≤ 1/λmax. For 1/λmax < η < 2/λmax the limit is
    the same, but the parameters overshoot on the way, at most twofold.

    **Arguments:**

    - `theta`: Θ_0(Z), positive definite, matrix (Cholesky) or operator (CG).
    - `residual`: R_0(Z).

    **Returns:**

    The limit; infinite if Θ is singular to half the digits (for R_0 in general position
    it then is).
    """
    square = residual @ solve(theta, residual)
    return jnp.where(square >= 0, jnp.sqrt(jnp.maximum(square, 0)), jnp.inf)


def movement_bound(
    residual: Float[Array, " n"],
    alpha: ArrayLike,
    largest: ArrayLike,
    smallest: ArrayLike,
    *,
    kantorovich: bool = False,
) -> Float[Array, ""]:
    """‖θ_∞ − θ_0‖ ≤ ‖R‖² √(κ/α), κ = λmax/λmin (corollary to `lemma:param-diff`).

    From (RᵀΘR)(RᵀΘ⁻¹R) ≤ κ‖R‖⁴. Kantorovich's inequality sharpens κ to
    (λmax + λmin)²/(4λmaxλmin), and then equality occurs. R and α are those at the
    *start* of training: the paper writes R_t, but both sides of the inequality used
    must have the same R, and the bound with R_t goes to 0 as t → ∞ while ‖θ_t − θ_0‖
    does not.

    **Arguments:**

    - `residual`: R_0(S).
    - `alpha`: α(S) = R_0ᵀΘR_0.
    - `largest`, `smallest`: λmax and λmin of Θ_0(S), or bounds b_max and b_min on them.
    - `kantorovich`: whether to use the sharper factor.

    **Returns:**

    The bound; infinite if λmin ≤ 0, 0 if R = 0, NaN if λmax < λmin or α < 0.
    """
    dtype = residual.dtype
    top, low = jnp.asarray(largest, dtype), jnp.asarray(smallest, dtype)
    alpha = jnp.asarray(alpha, dtype)
    safe = jnp.where(low > 0, low, 1)
    factor = (top + safe) ** 2 / (4 * top * safe) if kantorovich else top / safe
    square = jnp.sum(residual**2)
    bound = square * jnp.sqrt(factor / jnp.where(square > 0, alpha, 1))
    bound = jnp.where(square > 0, jnp.where(low > 0, bound, jnp.inf), 0)
    return jnp.where((top < low) | (alpha < 0), jnp.nan, bound)
