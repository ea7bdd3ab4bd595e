"""Gradient descent on ½‖R(Z)‖²: one step, the linearised network, the real one.

In the linearised network F^lin[û] = F[û_0] + J(θ − θ_0) (eq. `eq:lin-nn`) the kernel
never changes, and the residual everywhere follows from a vector c_t of n numbers:

    R_t(z; Z) = R_0(z) − Θ(z, Z) c_t,    θ_t − θ_0 = −J(Z)ᵀ c_t,

with c_t = Σ_i (1 − e^{−ηtλ_i})/λ_i v_i v_iᵀ R_0(Z) in continuous time and
c_t = Σ_i (1 − (1 − ηλ_i)^t)/λ_i v_i v_iᵀ R_0(Z) for t steps of gradient descent. Here
(λ_i, v_i) are the eigenpairs of the *matrix* Θ(Z): eq. `eq:convergence_theory` writes
ψ_i(Z), which is the same only if the measure of the eigenfunctions is the counting
measure on Z. Both factors are finite at λ_i = 0, so a singular Θ needs no care; only
the limit t → ∞ solves with Θ.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from jaxtyping import Array, ArrayLike, Float, PyTree

from .kernel import RowFunction, jacobian, kernel, solve
from .rkhs import EigenSystem


Kernel = Float[Array, "n n"] | lx.AbstractLinearOperator


def one_step_change(
    cross: Float[Array, "m n"], residual: Float[Array, " n"], rate: ArrayLike
) -> Float[Array, " m"]:
    """ΔR(z; Z) ≈ −ηΘ(z, Z)R(Z), to first order in η (eqs. `eq:convergence_vec`,
    `eq:ntk_pinn`).

    **Arguments:**

    - `cross`: Θ(z, Z).
    - `residual`: R(Z).
    - `rate`: η, of gradient descent on ½‖R(Z)‖² (a mean over N points has η/N).
    """
    return -jnp.asarray(rate, residual.dtype) * (cross @ residual)


def one_step_remainder(
    rows_z: RowFunction, rows_Z: RowFunction, parameters: PyTree, rate: ArrayLike
) -> Float[Array, " m"]:
    """What a real step does to R(z) beyond −ηΘ(z, Z)R(Z): of second order in η.

    **Arguments:**

    - `rows_z`, `rows_Z`: from `residual_function`, on the points z and Z.
    - `parameters`: θ before the step.
    - `rate`: η.
    """
    R, pull = jax.vjp(rows_Z, parameters)
    eta = jnp.asarray(rate, R.dtype)
    step = jax.tree.map(lambda g: -eta * g, pull(R)[0])
    before, linear = jax.jvp(rows_z, (parameters,), (step,))
    after = rows_z(jax.tree.map(jnp.add, parameters, step))
    return after - before - linear


class Linearised(eqx.Module):
    """The linearised network at some times.

    **Attributes:**

    - `residual`: R_t(Z), one row a time.
    - `dual`: c_t, with R_t(z; Z) = R_0(z) − Θ(z, Z)c_t and θ_t − θ_0 = −J(Z)ᵀc_t.
    """

    residual: Float[Array, "times n"]
    dual: Float[Array, "times n"]


def gradient_flow(
    theta: Kernel,
    residual: Float[Array, " n"],
    times: Float[Array, " times"],
    *,
    directions: int = 64,
) -> Linearised:
    """R_t(Z) = e^{−ηtΘ(Z)} R_0(Z): training in continuous time (eqs.
    `eqn:appx-reschange`, `eq:convergence_theory`).

    **Arguments:**

    - `theta`: Θ(Z) as a matrix, or matrix-free as an operator (`ntk_operator`).
    - `residual`: R_0(Z).
    - `times`: ηt, not negative.
    - `directions`: size of the Krylov space for an operator; unused for a matrix.

    **Returns:**

    Residual and dual vector at each time. Exact up to rounding for a matrix; for an
    operator a Lanczos approximation, exact once `directions` reaches the number of
    distinct eigenvalues.
    """
    times = times[:, None]

    def factors(values):
        decay = jnp.exp(-times * values[None, :])
        return decay, _divided(-jnp.expm1(-times * values[None, :]), values, times)

    return _evolve(theta, residual, factors, directions)


def gradient_descent(
    theta: Kernel,
    residual: Float[Array, " n"],
    rate: ArrayLike,
    steps: Array,
    *,
    directions: int = 64,
) -> Linearised:
    """R_t(Z) = (𝟙 − ηΘ(Z))^t R_0(Z): t steps of gradient descent (eq.
    `eqn:thetadiff-2`).

    **Arguments:**

    - `theta`: Θ(Z) as a matrix, or matrix-free as an operator.
    - `residual`: R_0(Z).
    - `rate`: η. Converges for η < 2/λmax, monotonely for η < 1/λmax; beyond 2/λmax the
      result grows without bound, as the descent itself does.
    - `steps`: integers t ≥ 0.
    - `directions`: size of the Krylov space for an operator.

    **Returns:**

    Residual and dual vector after each number of steps.
    """
    eta = jnp.asarray(rate, residual.dtype)
    t = jnp.asarray(steps)[:, None]

    def factors(values):
        power, gap = _power(eta * values[None, :], t.astype(values.dtype), t)
        return power, _divided(gap, values, eta * t.astype(values.dtype))

    return _evolve(theta, residual, factors, directions)


def limit(theta: Kernel, residual: Float[Array, " n"]) -> Float[Array, " n"]:
    """c_∞ = Θ(Z)⁻¹R_0(Z), the dual vector of training to the end.

    By lineax: Cholesky for a matrix, conjugate gradients for an operator. The residual
    of the trained network is then R_0(z) − Θ(z, Z)c_∞, zero on Z.

    **Returns:**

    c_∞; NaN if Θ(Z) is singular to half the digits (then R does not go to 0 on Z).
    """
    return solve(theta, residual)


def elsewhere(
    cross: Float[Array, "m n"] | lx.AbstractLinearOperator,
    residual: Float[Array, " m"],
    dual: Float[Array, "times n"],
) -> Float[Array, "times m"]:
    """R_t(z; Z) = R_0(z) − Θ(z, Z)c_t at any points z (eq. `eqn:appx-reschange`).

    **Arguments:**

    - `cross`: Θ(z, Z) as a matrix, or an operator (`cross_operator`).
    - `residual`: R_0(z).
    - `dual`: c_t, of `Linearised`.
    """
    if isinstance(cross, lx.AbstractLinearOperator):
        return residual[None, :] - jax.vmap(cross.mv)(dual)
    return residual[None, :] - dual @ cross.T


def decay_rates(system: EigenSystem, rate: ArrayLike) -> Float[Array, " r"]:
    """ηλ_i: along v_i the residual falls as e^{−ηλ_i t} (eq. `eq:convergence_theory`).

    **Arguments:**

    - `system`: of Θ(Z), with the counting measure.
    - `rate`: η.
    """
    return jnp.asarray(rate, system.eigenvalues.dtype) * system.eigenvalues


def half_loss(residuals: Float[Array, "times n"]) -> Float[Array, " times"]:
    """The loss ½‖R_t(Z)‖² (eq. `eq:loss-new`) at each time."""
    return 0.5 * jnp.sum(residuals**2, axis=1)


def descend(
    rows: RowFunction, parameters: PyTree, rate: ArrayLike, steps: int
) -> tuple[Float[Array, "times n"], PyTree]:
    """Gradient descent of the real network on ½‖rows(θ)‖².

    **Arguments:**

    - `rows`, `parameters`: from `residual_function`.
    - `rate`: η.
    - `steps`: how many, static.

    **Returns:**

    R_0(Z), …, R_steps(Z), and the parameters at the end.
    """

    def step(theta, _):
        R, pull = jax.vjp(rows, theta)
        eta = jnp.asarray(rate, R.dtype)
        return jax.tree.map(lambda p, g: p - eta * g, theta, pull(R)[0]), R

    last, residuals = jax.lax.scan(step, parameters, None, steps)
    return jnp.concatenate([residuals, rows(last)[None]]), last


class Window(eqx.Module):
    """A real training run beside the prediction from its first kernel.

    **Attributes:**

    - `measured`, `predicted`: the loss ½‖R_t(Z)‖² after 0, 1, … steps.
    - `departure`: ‖R_t − R_t^lin‖/‖R_0‖ at each of them.
    - `drift`: ‖Θ_end − Θ_0‖_F/‖Θ_0‖_F, how far the kernel has moved.
    - `movement`: ‖θ_end − θ_0‖.
    """

    measured: Float[Array, " times"]
    predicted: Float[Array, " times"]
    departure: Float[Array, " times"]
    drift: Float[Array, ""]
    movement: Float[Array, ""]


def training_window(
    rows: RowFunction, parameters: PyTree, rate: ArrayLike, steps: int
) -> Window:
    """Predict the loss curve of a real network from Θ_0, and see where it departs.

    The prediction is `gradient_descent` with the kernel of the first step; it is good
    while `drift` is small.

    **Arguments:**

    - `rows`, `parameters`: from `residual_function`; Θ is formed as a matrix.
    - `rate`: η.
    - `steps`: length of the window, static.
    """
    J = jacobian(rows, parameters)
    measured, last = descend(rows, parameters, rate, steps)
    theta = kernel(J)
    line = gradient_descent(theta, measured[0], rate, jnp.arange(steps + 1))
    gap = jnp.linalg.norm(measured - line.residual, axis=1)
    change = jax.tree.map(jnp.subtract, last, parameters)
    squares = [jnp.sum(leaf**2) for leaf in jax.tree.leaves(change)]
    return Window(
        measured=half_loss(measured),
        predicted=half_loss(line.residual),
        departure=gap / jnp.linalg.norm(measured[0]),
        drift=kernel_drift(theta, kernel(jacobian(rows, last))),
        movement=jnp.sqrt(sum(squares)),
    )


def kernel_drift(
    before: Float[Array, "n n"], after: Float[Array, "n n"]
) -> Float[Array, ""]:
    """‖Θ_after − Θ_before‖_F/‖Θ_before‖_F (Algorithm 1, last line); NaN if Θ is 0."""
    return jnp.linalg.norm(after - before) / jnp.linalg.norm(before)


def linearisation_gap(
    rows: RowFunction, parameters: PyTree, trained: PyTree
) -> Float[Array, " n"]:
    """F[û_t](z) − F^lin[û_t](z), the left-hand side of lemma `corr:lin-error`.

    **Arguments:**

    - `rows`: from `residual_function`, on any points z.
    - `parameters`, `trained`: θ_0 and θ_t.
    """
    change = jax.tree.map(jnp.subtract, trained, parameters)
    before, linear = jax.jvp(rows, (parameters,), (change,))
    return rows(trained) - before - linear


Factors = Callable[[Array], tuple[Array, Array]]


def _evolve(theta, residual, factors: Factors, directions: int) -> Linearised:
    """f(Θ)R_0 and g(Θ)R_0, from (λ, basis, weights) with f(Θ)R_0 = basis·(f(λ)·w)."""
    if isinstance(theta, lx.AbstractLinearOperator):
        values, basis, weights = _krylov(theta, residual, directions)
    else:
        values, basis = jnp.linalg.eigh(theta)
        weights = basis.T @ residual
    decay, dual = factors(jnp.maximum(values, 0))
    return Linearised(
        (decay * weights[None, :]) @ basis.T, (dual * weights[None, :]) @ basis.T
    )


def _krylov(operator, b: Float[Array, " n"], directions: int):
    """Ritz values and vectors of the Krylov space of b, fully reorthogonalised.

    Lanczos: ΘQ = QT + remainder, with T tridiagonal and Q e_1 = b/‖b‖, so that
    f(Θ)b ≈ ‖b‖ Q f(T) e_1.
    """
    m = min(directions, b.shape[0])
    norm = jnp.linalg.norm(b)
    first = b / jnp.where(norm > 0, norm, 1)

    def step(carry, i):
        Q, q = carry
        Q = Q.at[:, i].set(q)
        w = operator.mv(q)
        size = jnp.linalg.norm(w)
        column = Q.T @ w
        for _ in range(2):
            w = w - Q @ (Q.T @ w)
        rest = jnp.linalg.norm(w)
        alive = rest > 100 * float(jnp.finfo(b.dtype).eps) * size
        w = jnp.where(alive, w / jnp.where(alive, rest, 1), 0)
        return (Q, w), (column[i], jnp.where(alive, rest, 0))

    start = (jnp.zeros((b.shape[0], m), b.dtype), first)
    (Q, _), (diagonal, off) = jax.lax.scan(step, start, jnp.arange(m))
    T = jnp.diag(diagonal) + jnp.diag(off[:-1], 1) + jnp.diag(off[:-1], -1)
    values, S = jnp.linalg.eigh(T)
    return values, Q @ S, norm * S[0]


def _divided(gap: Array, values: Float[Array, " n"], at_zero: Array) -> Array:
    """gap/λ, and its limit where λ = 0."""
    positive = values[None, :] > 0
    return jnp.where(positive, gap / jnp.where(positive, values[None, :], 1), at_zero)


def _power(x: Array, t: Array, integer: Array) -> tuple[Array, Array]:
    """(1 − x)^t and 1 − (1 − x)^t, without cancellation for small x."""
    small = x < 1
    log = jnp.log1p(-jnp.where(small, x, 0.0))
    sign = jnp.where(integer % 2 == 0, 1, -1).astype(x.dtype)
    base = jnp.where(small, 0.0, x - 1)
    large = jnp.where((base == 0) & (t == 0), 1, sign * base**t)
    return (
        jnp.where(small, jnp.exp(t * log), large),
        jnp.where(small, -jnp.expm1(t * log), 1 - large),
    )
