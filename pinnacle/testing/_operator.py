"""The laws of operators."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._geometry import AbstractDomain
from .._model import Model
from .._operator import AbstractOperator
from ..nn import MLP


Function = Callable[[jax.Array], jax.Array]


def check_operator(
    operator: AbstractOperator,
    domain: AbstractDomain,
    *,
    linear: bool = False,
    order: int | None = None,
    closed_form: Sequence[tuple[Function, Function]] = (),
    outputs: int = 1,
    coefficients: dict | None = None,
    seed: int = 0,
) -> None:
    """Put an operator through the laws that all of them keep.

    The operator accepts its domain; it gives `rows` finite numbers, in the dtype of the
    model, inside the domain and at its faces and corners; a network that knows its own
    derivatives and the same function without them give the same; the directional
    derivative by the parameters agrees with a difference quotient.

    **Arguments:**

    - `operator`, `domain`: what is checked, and where.
    - `linear`: also check F[au + bv] = aF[u] + bF[v].
    - `order`: the order of the highest derivative in a local operator (one that looks
      at u near x only): also check F against finite differences. F is applied to the
      Taylor polynomial of u at x whose coefficients are difference quotients of values
      of u. Meant for float64.
    - `closed_form`: pairs `(u, expected)`: F[u](x) must be `expected(x)`, for instance
      on polynomials and trigonometric functions. Functions return numbers or
      `(outputs,)` and `(rows,)` arrays.
    - `outputs`: number of outputs of the networks tried.
    - `coefficients`: the coefficients that the operator looks up.
    - `seed`: of networks and points.

    **Raises:** `AssertionError`, saying which law does not hold.
    """
    operator.check(domain)
    keys = jax.random.split(jax.random.key(seed), 4)
    u, v = (
        Model(MLP(domain.dim, outputs, 8, 2, key=key), coefficients) for key in keys[:2]
    )
    inside = domain.from_unit(jax.random.uniform(keys[2], (6, domain.dof)))
    points = jnp.concatenate([inside, _faces(domain, inside.dtype)])
    values, plain, of_v, of_sum = _look(operator, u, v, points)
    _check_values(operator, u, points, values)
    _check_streams(values, plain)
    _check_parameters(operator, u, inside, keys[3])
    _check_closed_forms(operator, closed_form, coefficients, points)
    if linear:
        _check_linear(values, of_v, of_sum)
    if order is not None:
        _check_differences(operator, u, inside, values[: inside.shape[0]], order)


A, B = 0.7, -1.9


@eqx.filter_jit
def _look(operator: AbstractOperator, u: Model, v: Model, x: jax.Array):
    """F[u], the same with u as a plain callable, F[v] and F[Au + Bv]."""
    functions = [
        u.network,
        lambda p: u.network(p),
        v.network,
        lambda p: A * u.network(p) + B * v.network(p),
    ]
    models = [Model(f, u.coefficients) for f in functions]
    return [jax.vmap(lambda p, m=m: operator(m, p))(x) for m in models]


@eqx.filter_jit
def _closed_forms(operator: AbstractOperator, pairs, coefficients, x: jax.Array):
    """F[u] and what it must be, for each pair."""
    models = [Model(jax.tree_util.Partial(u), coefficients) for u, _ in pairs]
    return [
        (
            jax.vmap(lambda p, u=u: operator(u, p))(x),
            jax.vmap(lambda p, f=expected: jnp.atleast_1d(f(p)))(x),
        )
        for u, (_, expected) in zip(models, pairs, strict=True)
    ]


def _faces(domain: AbstractDomain, dtype) -> jax.Array:
    """The images of the centre, the corners and the face centres of the unit cube."""
    corners = np.stack(np.meshgrid(*[[0, 0.5, 1]] * domain.dof), -1)
    unit = corners.reshape(-1, domain.dof) if domain.dof else np.zeros((1, 0))
    return domain.from_unit(jnp.asarray(np.minimum(unit, 1 - 1e-6), dtype))


def _check_values(operator, u: Model, x, values) -> None:
    shape = (x.shape[0], operator.rows)
    assert values.shape == shape, (
        f"F[u](x) must have shape ({operator.rows},) at one point, got "
        f"{values.shape[1:]}"
    )
    assert values.dtype == u.dtype, (
        f"F[u](x) must have the model's dtype {u.dtype}, got {values.dtype}"
    )
    assert np.isfinite(np.asarray(values)).all(), (
        "F[u](x) is not finite at some point of the closed domain: "
        f"{np.asarray(x)[~np.isfinite(np.asarray(values)).all(axis=1)]}"
    )


def _check_streams(values, plain) -> None:
    assert _near(plain, values, values), (
        "F differs between a network that knows its derivatives and the same function "
        "as a plain callable: use `pinnacle.derivatives` or JAX transforms of `u`"
    )


def _check_parameters(operator, u: Model, x, key) -> None:
    parameters, rest = u.partition()
    leaves, tree = jax.tree.flatten(parameters)
    keys = jax.random.split(key, len(leaves))
    draws = [
        jax.random.normal(k, p.shape, p.dtype)
        for k, p in zip(keys, leaves, strict=True)
    ]
    direction = jax.tree.unflatten(tree, draws)
    step = float(jnp.finfo(u.dtype).eps) ** (1 / 3)

    @eqx.filter_jit
    def slopes(operator, x):
        def F(p):
            return jax.vmap(lambda z: operator(eqx.combine(p, rest), z))(x)

        def moved(h):
            return F(jax.tree.map(lambda p, d: p + h * d, parameters, direction))

        _, pull = jax.vjp(F, parameters)
        tangent = jax.jvp(F, (parameters,), (direction,))[1]
        return tangent, (moved(step) - moved(-step)) / (2 * step), pull(tangent)[0]

    tangent, quotient, gradient = jax.tree.map(np.asarray, slopes(operator, x))
    size = np.max(np.abs(tangent))
    error = np.max(np.abs(tangent - quotient))
    assert error <= 100 * step**1.5 * size + step**1.5, (
        "the derivative of F[u_θ](x) by θ differs from a difference quotient by "
        f"{error:.1e} (size {size:.1e})"
    )
    # ⟨JJᵀv, ·⟩ must be consistent: ‖Jᵀv‖² = vᵀ(JJᵀv) needs both modes to agree.
    pairs = zip(jax.tree.leaves(gradient), draws, strict=True)
    backward = sum(float(np.sum(g * np.asarray(d))) for g, d in pairs)
    forward = float(np.sum(tangent**2))
    assert abs(backward - forward) <= 1e-3 * forward, (
        "forward and reverse mode disagree on the derivative of F by θ"
    )


def _check_closed_forms(operator, pairs, coefficients, x) -> None:
    found = _closed_forms(operator, list(pairs), coefficients, x) if pairs else []
    for values, wanted in jax.tree.map(np.asarray, found):
        assert wanted.shape == values.shape, (
            f"`expected` gives shape {wanted.shape[1:]}, the operator "
            f"{values.shape[1:]}"
        )
        assert _near(values, wanted, x, 1e4), (
            "F[u] differs from its closed form by "
            f"{np.max(np.abs(values - wanted)):.1e}"
        )


def _check_linear(of_u, of_v, of_sum) -> None:
    assert _near(of_sum, A * of_u + B * of_v, of_u, 1e4), (
        "F[au + bv] = aF[u] + bF[v] does not hold: the operator is not linear"
    )


def _check_differences(operator, u: Model, x, values, order: int) -> None:
    values = np.asarray(values)
    step = float(jnp.finfo(u.dtype).eps) ** (1 / (order + 4))
    degree = order + 3 + (order + 1) % 2
    polynomials = _taylor(u, x, degree, step)
    found = _of_polynomials(operator, polynomials, x, u.coefficients)
    error = np.max(np.abs(np.asarray(found) - values))
    allowed = 200 * step**3 * max(np.max(np.abs(values)), 1)
    assert error <= allowed, (
        f"F[u](x) differs by {error:.1e} from F of the polynomial that finite "
        f"differences of u give (allowed: {allowed:.1e}); is `order` right?"
    )


@eqx.filter_jit
def _of_polynomials(operator, c, x, coefficients):
    at = jax.vmap(lambda c, p: operator(Model(_Polynomial(c, p), coefficients), p))
    return at(c, x)


class _Polynomial(eqx.Module):
    """Σ c_α (x − x_0)^α."""

    c: jax.Array
    centre: jax.Array

    def __call__(self, x):
        value = self.c
        for shift in x - self.centre:
            powers = jnp.stack([shift**k for k in range(self.c.shape[0])])
            value = jnp.tensordot(powers, value, axes=1)
        return value


@eqx.filter_jit
def _on_grids(network, x, offsets):
    return jax.vmap(jax.vmap(network))(x[:, None, :] + offsets[None])


def _taylor(u: Model, x: jax.Array, degree: int, step: float) -> jax.Array:
    """Coefficients of the polynomial through u on a grid of spacing `step` around x."""
    d, n = x.shape[1], degree + 1
    nodes = np.arange(n) - (n - 1) / 2
    inverse = np.linalg.inv(np.vander(nodes, n, increasing=True))
    grid = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), -1).reshape(-1, d)
    offsets = jnp.asarray(step * grid, x.dtype)
    values = _on_grids(u.network, x, offsets)
    c = np.asarray(values, np.float64).reshape(x.shape[0], *[n] * d, -1)
    for axis in range(d):
        powers = step ** -np.arange(n, dtype=float)
        c = np.moveaxis(
            np.tensordot(inverse * powers[:, None], c, axes=(1, axis + 1)), 0, axis + 1
        )
    return jnp.asarray(c, x.dtype)


def _near(a, b, like, factor: float = 1e3) -> bool:
    """Equal up to rounding, relative to the largest entry and to 1."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    allowed = factor * float(jnp.finfo(like.dtype).eps)
    return bool(np.max(np.abs(a - b)) <= allowed * max(np.max(np.abs(b)), 1))
