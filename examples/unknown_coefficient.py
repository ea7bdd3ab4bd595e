"""Find an unknown coefficient from a table of measurements, most telling ones first."""

import jax
import jax.numpy as jnp
import numpy as np

import pinnacle as pin


X, T = 0, 1
TRUE = 0.3


def heat(u, x):
    """u_t = ν u_xx with ν unknown; it may stand in conditions, too."""
    u_t, u_xx = pin.derivatives(u, x, (T,), (X, X))
    return u_t - u["nu"] * u_xx


def start(x):
    return jnp.sin(jnp.pi * x[X])


def main(steps: int = 100, budget: int = 100) -> float:
    rod = pin.SpaceTime(pin.Interval(0, 1), 0, 1)
    x = np.random.default_rng(0).uniform(size=(50, 2))
    values = np.exp(-TRUE * np.pi**2 * x[:, T]) * np.sin(np.pi * x[:, X])

    table = pin.FiniteSet(x)  # of these places, ten a round are measured
    space = pin.AugmentedSpace(
        [
            pin.Component("heat", rod, pin.PDE(heat)),
            pin.Component("walls", rod.boundary(), pin.Dirichlet()),
            pin.Component("start", rod.initial(), pin.Dirichlet(), start),
            pin.Component(
                "sensors", table, pin.Observation(), None, group="experimental"
            ),
        ]
    )
    pipeline = pin.pinnacle_k(
        space, budget=budget, experimental_per_round=10, experimental_capacity=20
    )
    nu = pin.Coefficient(0.0, jnp.exp)  # e⁰ = 1 at the start, and never negative
    model = pin.Model(pin.nn.MLP(2, 1, 16, 2, key=jax.random.key(0)), {"nu": nu})
    result = pin.fit(
        pipeline,
        model,
        pin.GaussNewton(),
        steps=steps,
        key=jax.random.key(1),
        trigger=pin.EveryN(50),
        oracle=pin.Noisy(pin.TableOracle(x, values), 0.001),
    )
    return float(result.history.training["coefficient/nu"][-1])


if __name__ == "__main__":
    print(f"ν = {main():.4f}, where {TRUE} is right")
