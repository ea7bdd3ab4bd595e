"""The NTK of a real network: as rows, a Jacobian, a matrix, or a linear operator.

Everything else in `pinnacle.theory` takes arrays, or the pair `(rows, parameters)` made
here: `rows(θ)` are the residual rows √w·R(Z) of all points of a set Z, one after the
other, as a function of the trained parameters.
"""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import lineax as lx
import numpy as np
from jaxtyping import Array, Float, Int32, PyTree

from .._model import Model
from .._ntk.jacobian import Rows
from .._space.augmented import AugmentedSpace, Block


RowFunction = Callable[[PyTree], Float[Array, " n"]]


def blocks_at(
    space: AugmentedSpace, coordinates: Sequence[Float[Array, "_c d"]]
) -> tuple[Block, ...]:
    """Points at given coordinates, one block a kind, none of them padding.

    **Arguments:**

    - `space`: the augmented space.
    - `coordinates`: one array a kind, in the order of the components; an array with no
      rows where a kind has no points.

    **Raises:** `ValueError` unless there is one array a kind.
    """
    if len(coordinates) != len(space.components):
        raise ValueError(
            f"`coordinates` has {len(coordinates)} arrays for the "
            f"{len(space.components)} kinds {list(space.names)}: give one a kind."
        )
    return tuple(
        Block(
            x=x,
            mask=jnp.ones(x.shape[0], bool),
            label=jnp.zeros((x.shape[0], space.rows), x.dtype),
            weight=jnp.ones(x.shape[0], x.dtype),
        )
        for x in coordinates
    )


def residual_function(
    space: AugmentedSpace,
    model: Model,
    blocks: Sequence[Block],
    *,
    coefficients: bool = False,
) -> tuple[RowFunction, PyTree]:
    """θ ↦ √w·R(Z), so that ½‖rows(θ)‖² is the paper's loss (eq. `eq:loss-new`).

    **Arguments:**

    - `space`, `model`: whose residuals.
    - `blocks`: the points of Z, one block a kind; padding rows give 0.
    - `coefficients`: whether θ includes the unknown coefficients.

    **Returns:**

    The function `rows` and the parameters θ at which `model` stands.
    """
    split = Rows(space, model, coefficients, None)
    blocks = tuple(blocks)

    def rows(parameters):
        here = eqx.combine(parameters, split.rest)
        return jnp.concatenate([R.reshape(-1) for R in space.residual(here, blocks)])

    return rows, split.parameters


def row_kinds(space: AugmentedSpace, blocks: Sequence[Block]) -> Int32[Array, " n"]:
    """The kind that each row of `residual_function` belongs to."""
    counts = [
        block.size * component.operator.rows
        for component, block in zip(space.components, blocks, strict=True)
    ]
    return jnp.asarray(np.repeat(np.arange(len(counts)), counts), jnp.int32)


def operate(
    space: AugmentedSpace, u: Model, blocks: Sequence[Block]
) -> Float[Array, " n"]:
    """√w·F[u](Z) of any function u, row by row (the paper's eq. `eq:Fop`).

    **Arguments:**

    - `space`: the augmented space.
    - `u`: a network, or `Model(solution)` of a known solution `x -> outputs`.
    - `blocks`: the points of Z, one block a kind; padding rows give 0.
    """

    def block_rows(component, block):
        weight = component.weight.astype(block.x.dtype)
        values = jax.vmap(lambda x: component.operator(u, x))(block.x)
        return jnp.where(block.mask[:, None], jnp.sqrt(weight)[None] * values, 0)

    pairs = zip(space.components, blocks, strict=True)
    return jnp.concatenate([block_rows(c, b).reshape(-1) for c, b in pairs])


def jacobian(rows: RowFunction, parameters: PyTree) -> Float[Array, "n P"]:
    """J = ∂rows/∂θ as one dense matrix; for sets Z of a few thousand rows."""
    flat, unravel = jax.flatten_util.ravel_pytree(parameters)
    return jax.jacrev(lambda p: rows(unravel(p)))(flat)


def kernel(
    first: Float[Array, "n P"], second: Float[Array, "m P"] | None = None
) -> Float[Array, "n m"]:
    """Θ(Z, Z') = J(Z) J(Z')ᵀ (sections 4.2 and eq. `eq:ntk_pinn`); Z' = Z by default.

    The paper prints the off-diagonal block of eq. `eq:ntk_pinn` transposed; Θ_sp is
    J_s J_pᵀ.
    """
    return first @ (first if second is None else second).T


def ntk_operator(rows: RowFunction, parameters: PyTree) -> lx.FunctionLinearOperator:
    """v ↦ Θ(Z)v = J(Jᵀv), matrix-free: Jᵀv by a vjp, J by a jvp.

    Memory and time of one product are those of a few evaluations of `rows`; neither J
    nor Θ is ever formed.

    **Arguments:**

    - `rows`, `parameters`: from `residual_function`.

    **Returns:**

    A positive semi-definite `lineax` operator on vectors of n rows.
    """
    return _product(rows, rows, parameters, lx.positive_semidefinite_tag)


def cross_operator(
    rows_z: RowFunction, rows_Z: RowFunction, parameters: PyTree
) -> lx.FunctionLinearOperator:
    """v ↦ Θ(z, Z)v = J(z)(J(Z)ᵀv), matrix-free.

    **Arguments:**

    - `rows_z`, `rows_Z`: from `residual_function`, on the points z and Z.
    - `parameters`: θ, the same for both.
    """
    return _product(rows_z, rows_Z, parameters, ())


def _product(rows_z, rows_Z, parameters, tags) -> lx.FunctionLinearOperator:
    R, pull = jax.vjp(rows_Z, parameters)

    def apply(v):
        return jax.jvp(rows_z, (parameters,), pull(v))[1]

    return lx.FunctionLinearOperator(
        apply, jax.ShapeDtypeStruct(R.shape, R.dtype), tags
    )


def solve(
    theta: Float[Array, "n n"] | lx.AbstractLinearOperator,
    b: Float[Array, " n"],
    *,
    max_steps: int | None = None,
) -> Float[Array, " n"]:
    """x = Θ⁻¹b: a matrix by Cholesky, an operator by conjugate gradients.

    **Arguments:**

    - `theta`: Θ, symmetric positive definite.
    - `b`: right-hand side.
    - `max_steps`: of conjugate gradients, default lineax's.

    **Returns:**

    x with ‖Θx − b‖ ≤ √ε‖b‖, ε the rounding unit. NaN where that is not reached: Θ is
    singular, or too badly conditioned for half the digits of x to be right.
    """
    b = jnp.asarray(b)
    root = float(jnp.finfo(b.dtype).eps) ** 0.5
    if isinstance(theta, lx.AbstractLinearOperator):
        steps = 10 * b.shape[0] if max_steps is None else max_steps
        operator, solver = theta, lx.CG(0.1 * root, 0.0, _norm, max_steps=steps)
    else:
        operator = lx.MatrixLinearOperator(theta, lx.positive_semidefinite_tag)
        solver = lx.Cholesky()
    x = lx.linear_solve(operator, b, solver, throw=False).value
    solved = _norm(operator.mv(x) - b) <= root * _norm(b)
    return jnp.where(solved, x, jnp.nan)


def _norm(v: Array) -> Float[Array, ""]:
    return jnp.linalg.norm(v)
