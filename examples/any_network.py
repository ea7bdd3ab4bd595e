"""Any Equinox module works as the network, not only those of `pinnacle.nn`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import pinnacle as pin


class Fourier(eqx.Module):
    """A network of your own: random Fourier features, then an MLP of Equinox."""

    frequencies: jax.Array
    mlp: eqx.nn.MLP

    def __init__(self, *, key: jax.Array):
        a, b = jax.random.split(key)
        self.frequencies = 2 * jax.random.normal(a, (16, 2))
        self.mlp = eqx.nn.MLP(32, 1, 32, 2, activation=jnp.tanh, key=b)

    def __call__(self, x: jax.Array) -> jax.Array:
        phase = self.frequencies @ x
        return self.mlp(jnp.concatenate([jnp.sin(phase), jnp.cos(phase)]))


def helmholtz(u, x):
    """Δu + u = f, with the solution sin(πx) sin(πy)."""
    u_, u_xx, u_yy = pin.derivatives(u, x, (), (0, 0), (1, 1))
    forcing = (1 - 2 * jnp.pi**2) * jnp.prod(jnp.sin(jnp.pi * x))
    return u_xx + u_yy + u_ - forcing


def main(steps: int = 3000, budget: int = 200) -> float:
    square = pin.Box((0, 0), (1, 1))
    space = pin.AugmentedSpace(
        [
            pin.Component("helmholtz", square, pin.PDE(helmholtz)),
            pin.Component("walls", square.boundary(), pin.Dirichlet(), weight=100.0),
        ]
    )
    result = pin.fit(
        pin.pinnacle_k(space, budget=budget),
        pin.Model(Fourier(key=jax.random.key(0))),
        optax.adam(optax.cosine_decay_schedule(2e-3, steps)),
        steps=steps,
        key=jax.random.key(1),
    )
    x = square.from_unit(pin.Sobol().unit(1024, 2, key=jax.random.key(2)))
    exact = jnp.prod(jnp.sin(jnp.pi * x), axis=1)
    return float(jnp.max(jnp.abs(jax.vmap(result.model)(x)[:, 0] - exact)))


if __name__ == "__main__":
    print(f"largest error: {main():.1e}")
