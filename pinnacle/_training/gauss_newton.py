"""Gauss–Newton steps through the NTK of the training set."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int32, PyTree

from .._misc import as_number, as_number_or_none, require_number
from .linearised import AbstractLinearised, Dense, MatrixFree, condition
from .optimiser import AbstractResidualOptimiser, StepInfo
from .rows import RowFunction, jacobian_blocks


# On points that change at every step, less damping fits each batch and no other point.
_FLOOR = 1e-8
_REFUSED = 10.0  # by which a refused step multiplies the damping


class GaussNewtonState(eqx.Module):
    """What is carried from step to step. Nothing in it belongs to a training set.

    **Attributes:**

    - `damping`: μ/λ_max of the coming step.
    - `direction`: the previous step, θ before less θ after, divided by its length.
    - `refusals`: steps refused in a row.
    """

    damping: Float[Array, ""]
    direction: Float[Array, " P"]
    refusals: Int32[Array, ""]


class GaussNewton(AbstractResidualOptimiser):
    """Damped Gauss–Newton in whichever of its two forms is smaller.

    With the weighted rows R, J = ∂R/∂θ, λ_max the largest eigenvalue of JJᵀ, m the
    momentum and d₋ the previous direction, one step is

        d = argmin ½‖Jd − R‖² + ½μ‖d − m d₋‖²,   μ = damping · λ_max,
          = m d₋ + Jᵀ(JJᵀ + μI)⁻¹(R − m J d₋),
        θ ← θ − s d,

    with the step length s among 1, ½, ¼, … that lowers ½‖R‖² most. JJᵀ, the NTK of
    the training set, is rows × rows; with more rows than parameters the equal form
    (JᵀJ + μI)⁻¹Jᵀ is taken. The damping falls while the linear model predicts the loss
    well, and grows when it does not (Levenberg–Marquardt). A step that would not lower
    the loss is not taken. For m > 0 this is SPRING (Goldshlager, Abrahamsen and Lin
    2024, "A Kaczmarz-inspired approach to accelerate the optimization of neural network
    wavefunctions"), which averages over training sets that change at every step.

    `StepInfo.details`: `damping` (μ/λ_max used), `step_length` (0 if refused),
    `condition` (of the matrix that was solved with), `refusals` (in a row).

    **Arguments:**

    - `damping`: μ/λ_max of the first step.
    - `floor`: smallest μ/λ_max; `None` for the larger of 1e-8 and 10 ε of the
      parameters' dtype. With 0, exactly dependent rows make the factorisation fail, and
      the step is refused.
    - `factor`: by which the damping changes, > 1; a refused step makes it 10 × larger.
    - `momentum`: m, from 0 to below 1.
    - `lengths`: how many step lengths 1, ½, ¼, … are tried (in parallel).
    - `patience`: after so many refusals in a row it asks for other points; `fit` ends
      the run if the next step is refused, too.
    - `iterations`: `None` forms J and solves by Cholesky; a number solves by that many
      conjugate gradient iterations at most, with products of J only.
    - `form`: `"dual"`, `"primal"`, or `"auto"` for the smaller of the two.

    **Raises:** `ValueError` for a number outside of these ranges.
    """

    damping: Float[Array, ""] = eqx.field(converter=as_number, default=1e-6)
    floor: Float[Array, ""] | None = eqx.field(
        converter=as_number_or_none, default=None
    )
    factor: Float[Array, ""] = eqx.field(converter=as_number, default=2.0)
    momentum: Float[Array, ""] = eqx.field(converter=as_number, default=0.0)
    lengths: int = eqx.field(static=True, default=8)
    patience: int = eqx.field(static=True, default=10)
    iterations: int | None = eqx.field(static=True, default=None)
    form: str = eqx.field(static=True, default="auto")

    def __check_init__(self):
        _check_numbers(self)
        _check_choices(self)

    def init(self, parameters: PyTree) -> GaussNewtonState:
        theta, _ = ravel_pytree(parameters)
        return GaussNewtonState(
            damping=jnp.maximum(
                jnp.asarray(self.damping, theta.dtype), self._floor(theta.dtype)
            ),
            direction=jnp.zeros_like(theta),
            refusals=jnp.zeros((), jnp.int32),
        )

    def step(
        self, rows: RowFunction, parameters: PyTree, state: GaussNewtonState
    ) -> tuple[PyTree, GaussNewtonState, StepInfo]:
        theta, unflatten = ravel_pytree(parameters)

        def flat_rows(theta):
            return rows(unflatten(theta)).astype(theta.dtype)

        residual = flat_rows(theta)
        linear = self._linearise(rows, flat_rows, parameters, theta, residual.size)
        d, kappa = self._direction(linear, residual, theta.size, state)
        loss = _half_square(residual)
        length, new_loss = self._search(flat_rows, theta, d)
        taken = (new_loss < loss) & jnp.all(jnp.isfinite(d))
        d = jnp.where(taken, d, 0)
        length = jnp.where(taken, length, 0)

        predicted = loss - _half_square(residual - length * linear.forward(d))
        trust = jnp.where(taken, (loss - new_loss) / jnp.where(taken, predicted, 1), 0)
        refusals = jnp.where(taken, 0, state.refusals + 1)
        new_state = GaussNewtonState(
            damping=self._adapt(state.damping, trust, length),
            direction=d,
            refusals=refusals,
        )
        parameters = jax.tree.map(
            lambda new, old: jnp.where(taken, new, old),
            unflatten(theta - length * d),
            parameters,
        )
        details = {
            "damping": state.damping,
            "step_length": length,
            "condition": kappa,
            "refusals": refusals.astype(theta.dtype),
        }
        return parameters, new_state, StepInfo(loss, refusals >= self.patience, details)

    def _linearise(
        self, rows, flat_rows, parameters, theta, count: int
    ) -> AbstractLinearised:
        smaller = "dual" if count < theta.size else "primal"
        dual = (smaller if self.form == "auto" else self.form) == "dual"
        if self.iterations is not None:
            return MatrixFree(flat_rows, theta, dual, self.iterations)
        J = [block.astype(theta.dtype) for block in jacobian_blocks(rows, parameters)]
        return Dense(J, dual)

    def _direction(
        self, linear, residual, parameters: int, state
    ) -> tuple[Float[Array, " P"], Float[Array, ""]]:
        """d, and the condition number of the damped matrix."""
        size = residual.size if linear.dual else parameters
        scale = linear.largest_eigenvalue(residual.size, residual.dtype)
        mu = state.damping * scale
        solve = linear.solver(mu, scale)
        before = self.momentum.astype(residual.dtype) * state.direction
        d = linear.direction(solve, residual - linear.forward(before))
        if self.iterations is None:
            kappa = condition(solve, scale, mu, size)
        else:
            kappa = (scale + mu) / mu
        return before + d, kappa

    def _search(
        self, flat_rows, theta: Float[Array, " P"], d: Float[Array, " P"]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The step length of the smallest loss, and that loss (∞ if none is finite)."""
        lengths = 0.5 ** jnp.arange(self.lengths, dtype=theta.dtype)
        losses = jax.vmap(lambda s: _half_square(flat_rows(theta - s * d)))(lengths)
        losses = jnp.where(jnp.isfinite(losses), losses, jnp.inf)
        best = jnp.argmin(losses)
        return lengths[best], losses[best]

    def _adapt(self, damping, trust, length) -> Float[Array, ""]:
        """The damping of the next step; `trust` is actual over predicted decrease."""
        dtype = damping.dtype
        factor = self.factor.astype(dtype)
        refused = length == 0
        # From 0, too, a refusal must lead somewhere.
        raised = jnp.maximum(damping * _REFUSED, jnp.finfo(dtype).eps)
        adapted = jnp.where((trust > 0.75) & (length == 1), damping / factor, damping)
        adapted = jnp.where(trust < 0.25, damping * factor, adapted)
        return jnp.maximum(jnp.where(refused, raised, adapted), self._floor(dtype))

    def _floor(self, dtype) -> Float[Array, ""]:
        rounding = 10 * float(jnp.finfo(dtype).eps)
        floor = max(_FLOOR, rounding) if self.floor is None else self.floor
        return jnp.asarray(floor, dtype)


def _half_square(rows: Float[Array, " rows"]) -> Float[Array, ""]:
    return 0.5 * jnp.sum(rows**2)


def _check_numbers(optimiser: GaussNewton) -> None:
    ranges = {
        "damping": (lambda v: v >= 0, "a number ≥ 0"),
        "floor": (lambda v: v >= 0, "a number ≥ 0, or None"),
        "factor": (lambda v: v > 1, "a number > 1, for instance 2"),
        "momentum": (lambda v: (v >= 0) & (v < 1), "a number from 0 to below 1"),
    }
    for name, (holds, wanted) in ranges.items():
        value = getattr(optimiser, name)
        require_number(name, value, lambda v: v.ndim == 0, wanted)
        require_number(name, value, holds, wanted)


def _check_choices(optimiser: GaussNewton) -> None:
    for name in ("lengths", "patience"):
        value = getattr(optimiser, name)
        if value < 1:
            raise ValueError(f"`{name}` is {value}: give at least 1.")
    if optimiser.iterations is not None and optimiser.iterations < 1:
        raise ValueError(
            f"`iterations` is {optimiser.iterations}: give at least 1 conjugate "
            "gradient iteration, or None for a dense solve."
        )
    if optimiser.form not in ("auto", "dual", "primal"):
        raise ValueError(
            f"`form` is {optimiser.form!r}: choose 'auto', 'dual' or 'primal'."
        )
