"""Measurement noise."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .base import AbstractOracle
from .function import as_oracle


class Noisy(AbstractOracle):
    """Adds std·N(0, 1) to what another oracle measures, independently for each row.

    The same key gives the same noise, so a run that is resumed measures what it would
    have measured.

    **Arguments:**

    - `oracle`: an oracle or a function of one point.
    - `std`: standard deviation of the noise ≥ 0, one number or one a row.

    **Raises:** `ValueError` for a `std` that is negative or not finite.
    """

    oracle: AbstractOracle = eqx.field(converter=as_oracle)
    std: Float[Array, "..."] = eqx.field(
        converter=lambda std: jnp.asarray(std, jnp.result_type(float))
    )

    def __check_init__(self):
        std = np.asarray(self.std)
        if std.ndim > 1 or not (np.isfinite(std).all() and (std >= 0).all()):
            raise ValueError(
                f"`std` is {std.tolist()}: give the standard deviation of the noise, "
                "one number ≥ 0 or one a row."
            )

    def measure(self, x, *, key) -> ArrayLike:
        own, inner = jax.random.split(key)
        values = np.asarray(self.oracle.measure(x, key=inner))
        noise = jax.random.normal(own, values.shape, self.std.dtype)
        return values + np.asarray(self.std) * np.asarray(noise)
