"""A criterion of one's own, and its property test.

    python examples/criterion_property_test.py

or, with pytest: `pytest examples/criterion_property_test.py`.
"""

import jax.numpy as jnp
from hypothesis import given, settings

from pinnacle import AbstractConvergenceCriterion
from pinnacle.testing import check_criterion, pool_infos


class Saturated(AbstractConvergenceCriterion):
    """The convergence degree with no eigenvalue counting more than 1: λ → λ/(1 + λ)."""

    def __call__(self, info):
        a = jnp.einsum("nmr,nm->nr", info.spectrum.eigenfunctions, info.residual)
        values = jnp.maximum(info.spectrum.eigenvalues, 0)
        return a * jnp.sqrt(values / (1 + values))[None]


@settings(max_examples=5, deadline=None)
@given(pool_infos())
def test_saturated(info):
    check_criterion(Saturated(), info, homogeneous=True)
    trained = jnp.sum(Saturated()(info)[info.mask] ** 2)
    assert trained <= jnp.sum(info.residual[info.mask] ** 2) * 2.01


if __name__ == "__main__":
    test_saturated()
    print("Saturated keeps the laws of a criterion.")
