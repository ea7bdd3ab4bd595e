"""Keep your own training loop: plain JAX parameters in, training points out.

The network here is a dictionary of arrays and a function, as other libraries have them.
Only the selection is PINNACLE's.
"""

import jax
import jax.numpy as jnp

import pinnacle as pin


def apply(params, x):
    """A network from elsewhere: parameters and one point in, outputs out."""
    hidden = jnp.tanh(params["W1"] @ x + params["b1"])
    return params["W2"] @ hidden


def init(key, width=32):
    a, b = jax.random.split(key)
    return {
        "W1": jax.random.normal(a, (width, 1)) * 3,
        "b1": jnp.zeros(width),
        "W2": jax.random.normal(b, (1, width)) / width,
    }


def forcing(u, x):
    """u'' + π² sin(πx) = 0, whose solution is sin(πx)."""
    (u_xx,) = pin.derivatives(u, x, (0, 0))
    return u_xx + jnp.pi**2 * jnp.sin(jnp.pi * x)


interval = pin.Interval(0, 1)
space = pin.AugmentedSpace(
    [
        pin.Component("ode", interval, pin.PDE(forcing)),
        pin.Component("ends", interval.boundary(), pin.Dirichlet(), weight=100.0),
    ]
)
pipeline = pin.pinnacle_k(space, budget=40)


@jax.jit
def step(params, points, rate):
    def loss(params):
        model = pin.Model(pin.nn.Apply(params, apply))
        blocks = space.split(points, capacities=(40, 40))
        return jnp.sum(pin.loss_by_kind(space, model, blocks))

    value, gradient = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - rate * g, params, gradient), value


def main(rounds: int = 10, steps: int = 500) -> float:
    params = init(jax.random.key(0))
    state = pipeline.init()
    for r in range(rounds):
        model = pin.Model(pin.nn.Apply(params, apply))
        state, _ = pin.select_points(pipeline, model, state, key=jax.random.key(r))
        for _ in range(steps):
            params, _ = step(params, state.points, 1e-4)
    x = jnp.linspace(0, 1, 101)[:, None]
    u = jax.vmap(lambda p: apply(params, p))(x)
    return float(jnp.max(jnp.abs(u - jnp.sin(jnp.pi * x))))


if __name__ == "__main__":
    print(f"largest error: {main():.1e}")
