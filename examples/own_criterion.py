"""Write your own criterion: an embedding of the candidates, nothing else."""

import jax
import jax.numpy as jnp

import pinnacle as pin
from pinnacle.testing import check_criterion


class WhitenedConvergence(pin.AbstractConvergenceCriterion):
    """The convergence degree with every eigendirection weighted alike: Σ a_i(Z)²."""

    def __call__(self, info: pin.PoolInfo) -> jax.Array:
        return jnp.einsum("nmr,nm->nr", info.spectrum.eigenfunctions, info.residual)


def main(budget: int = 60) -> list[int]:
    check_criterion(WhitenedConvergence())  # the laws that every criterion keeps

    domain = pin.Box((0, 0), (1, 1))
    poisson = pin.PDE(lambda u, x: sum(pin.derivatives(u, x, (0, 0), (1, 1))) + 1)
    space = pin.AugmentedSpace(
        [
            pin.Component("poisson", domain, poisson),
            pin.Component("walls", domain.boundary(), pin.Dirichlet()),
        ]
    )
    pipeline = pin.pinnacle_k(space, budget=budget, criterion=WhitenedConvergence())
    model = pin.Model(pin.nn.MLP(2, 1, 16, 2, key=jax.random.key(0)))
    _, info = pin.select_points(pipeline, model, pipeline.init(), key=jax.random.key(1))
    return info.counts.tolist()


if __name__ == "__main__":
    print("points by kind:", main())
