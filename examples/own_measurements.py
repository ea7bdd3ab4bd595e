"""Ask which measurements to take next, take them, and hand the values back later.

Where a computer can read the instrument, the loop below is one call:
`pin.fit(..., oracle=thermometer)`.
"""

import pathlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax

import pinnacle as pin


def thermometer(x):
    """What somebody reads at the place x of a plate."""
    return x[0] ** 2 - x[1] ** 2


plate = pin.Box((0, 0), (1, 1))
laplace = pin.PDE(lambda u, x: sum(pin.derivatives(u, x, (0, 0), (1, 1))))
readings = pin.Component(
    "readings", plate, pin.Observation(), None, weight=10.0, group="experimental"
)
space = pin.AugmentedSpace([pin.Component("laplace", plate, laplace), readings])


def main(visits: int = 6, steps: int = 500, budget: int = 60) -> float:
    pipeline = pin.pinnacle_k(
        space, budget=budget, experimental_per_round=4, experimental_capacity=4 * visits
    )
    model = pin.Model(pin.nn.MLP(2, 1, 32, 2, key=jax.random.key(0)))
    adam, trigger = optax.adam(2e-3), pin.EveryN(steps)
    state = pin.initial_state(
        pipeline, model, adam, key=jax.random.key(1), trigger=trigger
    )
    x, values = np.zeros((0, 2)), np.zeros(0)
    for _ in range(visits + 1):
        # Trains until a point is wanted that the table does not have.
        run = pin.resume(
            pipeline,
            state,
            adam,
            steps=visits * steps - int(state.step),
            trigger=trigger,
            oracle=pin.TableOracle(x, values),
            throw=False,
        )
        wanted = pin.pending(space, run.state.selection.points)
        x = np.asarray(run.state.selection.points.x)[wanted]
        values = np.array([thermometer(place) for place in x])
        state = later(run.state)

    grid = plate.from_unit(pin.Sobol().unit(512, 2, key=jax.random.key(2)))
    error = jax.vmap(state.model)(grid)[:, 0] - jax.vmap(thermometer)(grid)
    return float(jnp.max(jnp.abs(error)))


def later(state: pin.TrainState) -> pin.TrainState:
    """The run waits in a file, and may go on on another machine."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "run.eqx")
        pin.save(file, state)
        return pin.load(file, like=state)


if __name__ == "__main__":
    print(f"largest error: {main():.1e}")
