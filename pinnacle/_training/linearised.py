"""Damped least squares on linearised rows, R(θ − d) ≈ R − Jd.

The minimiser of ½‖Jd − R‖² + ½μ‖d‖² has two forms, equal for every μ > 0 by
Jᵀ(JJᵀ + μI) = (JᵀJ + μI)Jᵀ:

    dual, rows × rows:                 d = Jᵀ(JJᵀ + μI)⁻¹R,
    primal, parameters × parameters:   d = (JᵀJ + μI)⁻¹JᵀR.

JJᵀ is the NTK of the training set. Both matrices have the same positive eigenvalues.
"""

import abc
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class AbstractLinearised(eqx.Module):
    """The rows' Jacobian at one θ, and solves with its Gram matrix.

    `dual` says which of the two forms the Gram matrix G has.
    """

    dual: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def forward(self, v: Float[Array, " P"]) -> Float[Array, " rows"]:
        """Jv."""

    @abc.abstractmethod
    def backward(self, w: Float[Array, " rows"]) -> Float[Array, " P"]:
        """Jᵀw."""

    @abc.abstractmethod
    def gram(self, v: Float[Array, " k"]) -> Float[Array, " k"]:
        """Gv, with G = JJᵀ or JᵀJ."""

    @abc.abstractmethod
    def solver(
        self, mu: Float[Array, ""], largest: Float[Array, ""]
    ) -> Callable[[Array], Array]:
        """v ↦ (G + μI)⁻¹v. Not finite where the factorisation breaks down.

        **Arguments:**

        - `mu`: μ.
        - `largest`: an estimate of λ_max(G).
        """

    def largest_eigenvalue(self, rows: int, dtype) -> Float[Array, ""]:
        """λ_max(G) from below, by a few power iterations; the same in both forms."""
        kernel = self.gram if self.dual else lambda w: self.forward(self.backward(w))
        return _power(kernel, rows, dtype)

    def direction(
        self, solve: Callable[[Array], Array], residual: Float[Array, " rows"]
    ) -> Float[Array, " P"]:
        """The minimiser d for R = `residual`, with `solve` from `solver(μ)`."""
        if self.dual:
            return self.backward(solve(residual))
        return solve(self.backward(residual))


class Dense(AbstractLinearised):
    """J and G as matrices, G + μI factorised by Cholesky.

    **Arguments:**

    - `J`: in blocks of columns, which are never joined for the dual form.
    - `dual`: the form.
    """

    J: list[Float[Array, "rows _"]]
    G: Float[Array, "k k"]
    dual: bool = eqx.field(static=True)

    def __init__(self, J: Sequence[Float[Array, "rows _"]], dual: bool):
        self.J = list(J)
        self.G = _sum(map(_gram, J)) if dual else _gram(jnp.concatenate(J, axis=1).T)
        self.dual = dual

    def forward(self, v):
        ends = np.cumsum([block.shape[1] for block in self.J])[:-1]
        parts = jnp.split(v, ends)
        return _sum(block @ part for block, part in zip(self.J, parts, strict=True))

    def backward(self, w):
        return jnp.concatenate([w @ block for block in self.J])

    def gram(self, v):
        return self.G @ v

    def solver(self, mu, largest):
        import lineax as lx  # importing it takes a twentieth of a second

        del largest
        damped = self.G + mu * jnp.eye(self.G.shape[0], dtype=self.G.dtype)
        operator = lx.MatrixLinearOperator(damped, lx.positive_semidefinite_tag)
        cholesky = lx.Cholesky()
        state = cholesky.init(operator, {})

        def solve(v):
            solution = lx.linear_solve(operator, v, cholesky, state=state, throw=False)
            return solution.value

        return solve


def _sum(terms: Iterable[Array]) -> Array:
    return functools.reduce(jnp.add, terms)


_WHOLE = 128  # rows up to which splitting a product saves nothing, on a CPU


def _gram(A: Float[Array, "k n"]) -> Float[Array, "k k"]:
    """AAᵀ, which XLA's product does not know to be symmetric.

    Of more rows the block above the diagonal is copied, and those on it are treated
    alike: a quarter of the multiplications is saved once, 3/8 twice.
    """
    k = A.shape[0]
    if k <= _WHOLE:
        return A @ A.T
    upper, lower = A[: k // 2], A[k // 2 :]
    corner = lower @ upper.T
    return jnp.block([[_gram(upper), corner.T], [corner, _gram(lower)]])


class MatrixFree(AbstractLinearised):
    """Products with J and Jᵀ only; G + μI solved by conjugate gradients."""

    jvp: Callable[[Array], Array]
    vjp: Callable[[Array], Array]
    iterations: int = eqx.field(static=True)
    dual: bool = eqx.field(static=True)

    def __init__(
        self,
        rows: Callable[[Array], Array],
        theta: Float[Array, " P"],
        dual: bool,
        iterations: int,
    ):
        _, self.jvp = jax.linearize(rows, theta)
        transpose: Any = jax.linear_transpose(self.jvp, theta)
        self.vjp = lambda w: transpose(w)[0]
        self.dual = dual
        self.iterations = iterations

    def forward(self, v):
        return self.jvp(v)

    def backward(self, w):
        return self.vjp(w)

    def gram(self, v):
        return self.jvp(self.vjp(v)) if self.dual else self.vjp(self.jvp(v))

    def solver(self, mu, largest):
        import lineax as lx

        # Tolerances are elementwise and absolute: so the matrix is scaled to norm 1 and
        # the right-hand side too. Stopped early, the solution is regularised further.
        scale = jnp.where(largest + mu > 0, largest + mu, 1)

        def solve(v):
            size = jnp.linalg.norm(v)
            unit = v / jnp.where(size > 0, size, 1)
            operator = lx.FunctionLinearOperator(
                lambda x: (self.gram(x) + mu * x) / scale,
                jax.eval_shape(lambda: unit),
                lx.positive_semidefinite_tag,
            )
            tolerance = float(jnp.finfo(v.dtype).eps) ** 0.5
            cg = lx.CG(tolerance, tolerance, max_steps=self.iterations)
            solution = lx.linear_solve(operator, unit, cg, throw=False)
            return solution.value * (size / scale)

        return solve


def condition(
    solve: Callable[[Array], Array],
    largest: Float[Array, ""],
    mu: Float[Array, ""],
    size: int,
) -> Float[Array, ""]:
    """The condition number of G + μI, from below: (λ_max + μ)·‖(G + μI)⁻¹‖."""
    return (largest + mu) * _power(solve, size, largest.dtype)


_ITERATIONS = 8


def _power(product: Callable[[Array], Array], size: int, dtype) -> Float[Array, ""]:
    """The largest eigenvalue of a positive semidefinite operator, from below."""
    # Any fixed vector without structure serves as the start.
    start = jnp.cos(jnp.arange(size, dtype=dtype) ** 2 + 1)

    def iterate(_, carry):
        v, _ = carry
        w = product(v / jnp.linalg.norm(v))
        size = jnp.linalg.norm(w)
        return jnp.where(size > 0, w, v), size

    zero = jnp.zeros((), dtype)
    _, value = jax.lax.fori_loop(0, _ITERATIONS, iterate, (start, zero))
    return value
