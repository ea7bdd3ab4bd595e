"""How far a prediction is from a reference."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def mse(
    prediction: Float[Array | np.ndarray, "n outputs"],
    reference: Float[Array | np.ndarray, "n outputs"],
) -> Float[Array, ""]:
    """Mean squared error, Σ(p − r)² / (n · outputs).

    **Arguments:**

    - `prediction`, `reference`: p and r, one point a row.
    """
    return jnp.mean(_difference(prediction, reference) ** 2)


def relative_l2(
    prediction: Float[Array | np.ndarray, "n outputs"],
    reference: Float[Array | np.ndarray, "n outputs"],
) -> Float[Array, ""]:
    """Relative error in the Euclidean norm, ‖p − r‖ / ‖r‖.

    **Arguments:**

    - `prediction`, `reference`: p and r, one point a row; r must not vanish.
    """
    difference = _difference(prediction, reference)
    return jnp.sqrt(jnp.sum(difference**2) / jnp.sum(jnp.asarray(reference) ** 2))


def max_error(
    prediction: Float[Array | np.ndarray, "n outputs"],
    reference: Float[Array | np.ndarray, "n outputs"],
) -> Float[Array, ""]:
    """Largest absolute error, max |p − r|.

    **Arguments:**

    - `prediction`, `reference`: p and r, one point a row.
    """
    return jnp.max(jnp.abs(_difference(prediction, reference)))


def _difference(prediction, reference):
    return jnp.asarray(prediction) - jnp.asarray(reference)
