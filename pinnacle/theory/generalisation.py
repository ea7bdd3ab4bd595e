"""The paper's generalisation bound: Rademacher complexity, constants, stability.

Departures from the paper's text (each has a test that shows the printed form fail or
the corrected one hold; `docs/theory.md` derives them):

- The rows of J(S) have norms ≤ ρ, so ‖J(S)‖_F ≤ ρ√N. The proof of lemma
  `lemma:rade-bound-link` writes ρ/√N and arrives at N^{-3/2}; right is N^{-1/2}.
- c_2 lacks the factor ‖R_0(S)‖² of the lemmas it is made from, and has one √κ too many
  in its second term.

`printed=True` evaluates what is printed.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Complex, Float, PRNGKeyArray


def rademacher_bound(
    rho: ArrayLike, points: int, movement: ArrayLike, *, printed: bool = False
) -> Float[Array, ""]:
    """R̂_S(𝒰^lin) ≤ ρ/√N · B (lemma `lemma:rade-bound-link`, corrected).

    From E sup_θ εᵀJ(θ − θ_0)/N ≤ B/N · E‖Jᵀε‖ ≤ B/N · √(tr Θ) ≤ B/N · ρ√N.

    **Arguments:**

    - `rho`: ρ ≥ ‖∇_θF[û_0](z)‖ on S.
    - `points`: N = |S|.
    - `movement`: B ≥ ‖θ_t − θ_0‖, for instance `movement_bound`.
    - `printed`: evaluate ρ/N^{3/2} · B, as the paper prints it. That is no bound: for
      Θ = ρ²𝟙 the trajectory itself exceeds it from about 7 points on.
    """
    rho, movement = _numbers(rho, movement)
    return rho * movement / points ** (1.5 if printed else 0.5)


def rademacher_trace_bound(
    theta: Float[Array, "n n"], movement: ArrayLike
) -> Float[Array, ""]:
    """R̂_S ≤ B√(tr Θ(S))/N: the same without ρ, at most a factor √2 from the
    complexity of the ball ‖θ − θ_0‖ ≤ B (Khintchine's inequality)."""
    (movement,) = _numbers(movement)
    return movement * jnp.sqrt(jnp.trace(theta)) / theta.shape[0]


def rademacher_ball(
    J: Float[Array, "n P"], movement: ArrayLike, draws: int, *, key: PRNGKeyArray
) -> Float[Array, ""]:
    """B/N · E‖Jᵀε‖, the complexity of all linearised networks with ‖θ − θ_0‖ ≤ B.

    Estimated from `draws` random signs (exact in the limit). F[û_0] is the same for all
    of them and drops out.
    """
    n = J.shape[0]
    signs = jax.random.rademacher(key, (draws, n), J.dtype)
    (movement,) = _numbers(movement)
    return movement * jnp.mean(jnp.linalg.norm(signs @ J, axis=1)) / n


def rademacher_trajectory(
    values: Float[Array, "times n"], draws: int, *, key: PRNGKeyArray
) -> Float[Array, ""]:
    """R̂_S of the functions seen along one training run, by random signs.

    The supremum is inside the expectation (the proof in the paper takes it outside in
    its first line, where it would give 0 for the linear part).

    **Arguments:**

    - `values`: F[û_t](S) at several times t, or residuals (a shift changes nothing in
      the limit of many draws).
    - `draws`: number of random sign vectors.
    """
    n = values.shape[1]
    signs = jax.random.rademacher(key, (draws, n), values.dtype)
    centred = values - values[:1]
    return jnp.mean(jnp.max(signs @ centred.T, axis=1)) / n


def linearisation_bound(
    rho: ArrayLike, movement: ArrayLike, stability: ArrayLike, remainder: ArrayLike
) -> Float[Array, ""]:
    """|𝒩^lin[û_t] − 𝒩[û_t]| ≤ C_pde·c/√n_L + (1 + C_pde)ρB (lemma `corr:lin-error`).

    The proof uses the stability of the PDE point by point, |𝒩[u](x) − 𝒩[v](x)| ≤
    C_pde|u(x) − v(x)|. Differential operators are not stable in that sense, only in
    norms; the inequality is then a heuristic.

    **Arguments:**

    - `rho`: ρ ≥ ‖∇_θû‖ and ‖∇_θ𝒩[û]‖.
    - `movement`: B ≥ ‖θ_t − θ_0‖.
    - `stability`: C_pde ≥ 1.
    - `remainder`: c/√n_L ≥ sup|û_t^lin − û_t| (eq. `eqn:bound1`); for a given network
      measure it.
    """
    rho, movement, stability, remainder = _numbers(rho, movement, stability, remainder)
    return stability * remainder + (1 + stability) * rho * movement


class Constants(eqx.Module):
    """c_1, c_2, c_3 of theorem `thm:generalisation_pinn`."""

    c1: Float[Array, ""]
    c2: Float[Array, ""]
    c3: Float[Array, ""]


def generalisation_constants(
    *,
    points: int,
    rho: ArrayLike,
    largest: ArrayLike,
    smallest: ArrayLike,
    residual_norm: ArrayLike,
    stability: ArrayLike,
    delta: ArrayLike,
    low_density: ArrayLike,
    remainder: ArrayLike = 0.0,
    slope: ArrayLike | None = None,
    printed: bool = False,
) -> Constants:
    """The constants of the generalisation bound (theorem `thm:generalisation_pinn`).

        c_1 = 2/N,    c_2 = 4√κ (ρ/√N + c')‖R_0(S)‖²,
        c_3 = 4C_pde·c/√n_L + 6√(log(2/δ)/(2N)) + 2s,    κ = b_max/b_min.

    **Arguments:**

    - `points`: N = |S|.
    - `rho`: ρ of assumption `assump:nn`.
    - `largest`, `smallest`: b_max and b_min of assumption `assump:nn`.
    - `residual_norm`: ‖R_0(S)‖; at most √N by assumption `assump:bounded`.
    - `stability`: C_pde of assumption `assump:pde-stab`; values below 1 count as 1.
    - `delta`: the bound holds with probability 1 − 2δ.
    - `low_density`: s, the measure of where the density of the points is below 1/2.
    - `remainder`: c/√n_L of lemma `corr:lin-error`; 0 for a linear model.
    - `slope`: c' of lemma `corr:lin-error`, by default (1 + C_pde)ρ; 0 for a linear
      model, whose linearisation is exact.
    - `printed`: the paper's c_2 = 4ρ√κ(N^{-3/2} + (1 + C_pde)√κ) instead.

    **Returns:**

    The constants. c_2 is infinite if b_min ≤ 0; c_3 is NaN if δ is outside (0, 1).
    """
    rho, top, low, size = _numbers(rho, largest, smallest, residual_norm)
    stability, delta, s, remainder = _numbers(stability, delta, low_density, remainder)
    stability = jnp.maximum(stability, 1)
    (slope,) = _numbers((1 + stability) * rho if slope is None else slope)
    root = jnp.where(low > 0, jnp.sqrt(top / jnp.where(low > 0, low, 1)), jnp.inf)
    if printed:
        c2 = 4 * rho * root * (points**-1.5 + (1 + stability) * root)
    else:
        c2 = 4 * root * (rho / points**0.5 + slope) * size**2
    valid = (delta > 0) & (delta < 1)
    chance = jnp.sqrt(jnp.log(2 / jnp.where(valid, delta, jnp.nan)) / (2 * points))
    return Constants(
        c1=jnp.asarray(2 / points, c2.dtype),
        c2=c2,
        c3=4 * stability * remainder + 6 * chance + 2 * s,
    )


def generalisation_bound(
    constants: Constants, residual: Float[Array, " n"], alpha: ArrayLike
) -> Float[Array, ""]:
    """E|û_∞ − u| ≤ c_1‖R_∞(S)‖_1 + c_2/√α(S) + c_3 (eq. `eqn:thm`).

    Under assumption `assump:bounded` the left-hand side is at most 1, so a value above
    1 says nothing.

    **Arguments:**

    - `constants`: from `generalisation_constants`.
    - `residual`: R_∞(S) at the end of training.
    - `alpha`: α(S) at its start.

    **Returns:**

    The bound; infinite if α ≤ 0.
    """
    alpha = jnp.asarray(alpha, residual.dtype)
    root = jnp.sqrt(jnp.where(alpha > 0, alpha, 1))
    second = jnp.where(alpha > 0, constants.c2 / root, jnp.inf)
    return constants.c1 * jnp.sum(jnp.abs(residual)) + second + constants.c3


def in_domain_bound(
    constants: Constants,
    residual: Float[Array, " n"],
    alpha: ArrayLike,
    low_density: ArrayLike,
) -> Float[Array, ""]:
    """E_{z∼D_S}|R_∞(z)| ≤ ½(bound) − s (lemma `lemma:in-domain`).

    The theorem is twice this lemma plus 2s; so the lemma is read off from it.
    """
    (s,) = _numbers(low_density)
    return generalisation_bound(constants, residual, alpha) / 2 - s


def gradient_bound(J: Float[Array, "n P"]) -> Float[Array, ""]:
    """ρ estimated as max_z ‖∇_θF[û](z)‖ over sampled rows.

    An estimate: the true ρ, a supremum over all points, is at least this.
    """
    return jnp.max(jnp.linalg.norm(J, axis=1))


def eigenvalue_range(
    kernels: Float[Array, "sets n n"],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """(b_min, b_max) estimated from the kernels Θ_0(S) of sampled training sets.

    Estimates: over all possible training sets the range is at least this wide, and
    b_min is 0 as soon as a point may be drawn twice.
    """
    values = jnp.linalg.eigvalsh(kernels)
    return jnp.min(values), jnp.max(values)


def low_density_measure(density: Float[Array, " n"]) -> Float[Array, ""]:
    """s = μ{z : p(z) < 1/2}, estimated from p at uniformly drawn points of 𝒵."""
    return jnp.mean((density < 0.5).astype(density.dtype))


def stability_constant(
    symbol: Complex[Array, " modes"], waves: Float[Array, "modes d"], order: int
) -> Float[Array, ""]:
    """C_pde of a linear operator on trigonometric polynomials (assumption
    `assump:pde-stab`).

    On u = Σ_k û_k e^{ik·x} the operator multiplies û_k by its symbol σ(k). With
    ‖𝒩[u]‖ in L² and ‖u‖ in the Sobolev space H^s, ‖u‖² = Σ(1 + |k|²)^s|û_k|²,

        C_pde = max(1, max_k |σ(k)|/(1 + |k|²)^{s/2}).

    Advection, u_t + βu_x: σ = i(k_t + βk_x), s = 1, C_pde ≤ √(1 + β²) for any number of
    modes. Diffusion, u_t − u_xx: σ = ik_t + k_x², s = 2, C_pde ≤ 1. In L² itself
    (s = 0) C_pde is finite on trigonometric polynomials only, and grows with the
    highest mode.

    **Arguments:**

    - `symbol`: σ(k) at each mode.
    - `waves`: k, one row a mode.
    - `order`: s.
    """
    size = (1 + jnp.sum(waves**2, axis=1)) ** (order / 2)
    return jnp.maximum(jnp.max(jnp.abs(symbol) / size), 1)


def _numbers(*values: ArrayLike) -> tuple[Array, ...]:
    return tuple(jnp.asarray(v, jnp.result_type(float)) for v in values)
