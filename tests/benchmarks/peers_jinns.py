"""jinns for `peers.py`: `jinns.solve`, its whole loop compiled once.

`solve` compiles at every call, so it is called under `jax.jit` with
`ahead_of_time=False`, the documented way to transform it. The points are those of a
full-batch `CubicMeshPDENonStatio`, replaced by the given ones. jinns has no periodic
condition: it is a `BoundaryConditionAbstract` over the two facets.

Mode `reverse`: the shipped `BurgersEquation`, and the KdV equation with nested
`jax.grad` in its manner. Mode `forward`: both with nested `jax.jvp`, as in the
operators that jinns names `_fwd`.
"""

from importlib.metadata import version

import equinox as eqx
import jax
import jax.numpy as jnp
import jinns  # pyright: ignore[reportMissingImports]
import optax
from peers_problem import CHECKED_STEPS, LEARNING_RATE, Problem, T, X


class KdV(jinns.loss.PDENonStatio):
    """u_t + u u_x − ν u_xxx by `jax.grad`."""

    def equation(self, t_x, u, params):
        def value(z):
            return u(z, params)[0]

        first = jax.grad(value)
        second = jax.grad(lambda z: first(z)[X])
        third = jax.grad(lambda z: second(z)[X])
        slope, nu = first(t_x), params.eq_params.nu
        residual = slope[T] + value(t_x) * slope[X] - nu * third(t_x)[X]
        return residual[None]


class ForwardMode(jinns.loss.PDENonStatio):
    """u_t + u u_x − ν ∂u^order/∂x^order by `jax.jvp`."""

    order: int = eqx.field(static=True, kw_only=True)

    def equation(self, t_x, u, params):
        def along(function, axis):
            direction = jnp.eye(2)[axis]
            return lambda z: jax.jvp(function, (z,), (direction,))[1]

        def value(z):
            return u(z, params)

        u_x = top = along(value, X)
        for _ in range(self.order - 1):
            top = along(top, X)
        advection = value(t_x) * u_x(t_x)
        return along(value, T)(t_x) + advection - params.eq_params.nu * top(t_x)


class Periodic(jinns.loss.BoundaryConditionAbstract):
    """u(t, −1) − u(t, 1) = 0."""

    def equation_u(self, inputs, u, params):
        return (u(inputs[..., 0], params) - u(inputs[..., 1], params),)

    def equation_f(self, inputs, params, gridify=False):
        return (jnp.zeros(1),)


def equation(problem: Problem, mode: str):
    if mode == "forward":
        return ForwardMode(order=problem.order)
    return KdV() if problem.order == 3 else jinns.loss.BurgersEquation()


def network(problem: Problem):
    """The PINN and its parameters."""
    layers = []
    for i, (inputs, outputs) in enumerate(
        zip(problem.sizes, problem.sizes[1:], strict=False)
    ):
        layers += [(jnp.tanh,)] * (i > 0) + [(eqx.nn.Linear, inputs, outputs)]
    u, start = jinns.nn.PINN_MLP.create(
        key=jax.random.PRNGKey(0), eqx_list=tuple(layers), eq_type="PDENonStatio"
    )
    given = [
        jnp.asarray(array)
        for pair in zip(problem.weights, problem.biases, strict=True)
        for array in pair
    ]
    return u, jax.tree.unflatten(jax.tree.structure(start), given)


def generator(problem: Problem):
    """Full batches of the given points."""
    pairs = len(problem.periodic)
    data = jinns.data.CubicMeshPDENonStatio(
        key=jax.random.PRNGKey(0),
        n=len(problem.inside),
        nb=2 * pairs,
        ni=len(problem.initial),
        dim=1,
        min_pts=(-1.0,),
        max_pts=(1.0,),
        tmin=0.0,
        tmax=1.0,
    )
    border = jnp.stack([problem.periodic, problem.opposite], axis=-1)
    points = [jnp.asarray(problem.inside), border, problem.initial[:, X:]]
    return eqx.tree_at(lambda d: [d.domain, d.border, d.initial], data, points)


def prepare(problem: Problem, mode: str, steps: int):
    u, start = network(problem)
    params = jinns.parameters.Params(
        nn_params=start, eq_params={"nu": jnp.asarray(problem.coefficient)}
    )
    loss = jinns.loss.LossPDENonStatio(
        u=u,
        dynamic_loss=equation(problem, mode),
        initial_condition_fun=lambda x: jnp.cos(jnp.pi * x),
        boundary_condition=Periodic(),
        loss_weights=jinns.loss.LossWeightsPDENonStatio(
            dyn_loss=1.0, initial_condition=1.0, boundary_loss=1.0
        ),
        params=params,
    )

    @eqx.filter_jit
    def solve(params, data, loss):
        trained, losses, *_ = jinns.solve(
            n_iter=steps,
            init_params=params,
            data=data,
            loss=loss,
            optimizer=optax.adam(LEARNING_RATE),
            verbose=False,
            ahead_of_time=False,
        )
        return trained, losses

    data = generator(problem)

    def run():
        return jax.block_until_ready(solve(params, data, loss))

    versions = f"jinns {version('jinns')}, JAX {jax.__version__}"
    return versions, run()[1][CHECKED_STEPS], run
