"""Solve your own PDE: write the residual as a plain function, and fit."""

import jax
import jax.numpy as jnp
import optax

import pinnacle as pin


X, T = 0, 1
NU = 0.1


def heat(u, x):
    """u_t = ν u_xx, as a residual at one point x = (x, t)."""
    u_t, u_xx = pin.derivatives(u, x, (T,), (X, X))
    return u_t - NU * u_xx


def main(steps: int = 5000, budget: int = 200) -> float:
    domain = pin.SpaceTime(pin.Interval(0, 1), 0, 1)
    space = pin.AugmentedSpace(
        [
            pin.Component("heat", domain, pin.PDE(heat)),
            pin.Component("walls", domain.boundary(), pin.Dirichlet()),
            pin.Component(
                "start",
                domain.initial(),
                pin.Dirichlet(),
                lambda x: jnp.sin(jnp.pi * x[X]),
            ),
        ]
    )
    pipeline = pin.pinnacle_k(space, budget=budget)
    model = pin.Model(pin.nn.MLP(2, 1, 32, 3, key=jax.random.key(0)))
    result = pin.fit(
        pipeline, model, optax.adam(2e-3), steps=steps, key=jax.random.key(1)
    )

    x = domain.from_unit(pin.Sobol().unit(1024, 2, key=jax.random.key(2)))
    exact = jnp.exp(-NU * jnp.pi**2 * x[:, T]) * jnp.sin(jnp.pi * x[:, X])
    return float(jnp.max(jnp.abs(jax.vmap(result.model)(x)[:, 0] - exact)))


if __name__ == "__main__":
    print(f"largest error: {main():.1e}")
