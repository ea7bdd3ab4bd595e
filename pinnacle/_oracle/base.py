"""What answers a measurement."""

import abc
from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import ArrayLike, Float, PRNGKeyArray


class AbstractOracle(eqx.Module):
    """Measures the true solution at one point; it runs on the host, outside of JAX.

    An instrument, a simulation, a file, a person. Whatever it raises ends the run with
    an error that says where; what had been measured before stays in the state, and
    `resume` asks only for what is missing.
    """

    @abc.abstractmethod
    def measure(
        self, x: Float[np.ndarray, " d"], *, key: PRNGKeyArray
    ) -> ArrayLike | Sequence[float]:
        """F[u](x), as measured.

        **Arguments:**

        - `x`: the point, with the coordinates of the domain.
        - `key`: a JAX random key for noise, another one for every measurement.

        **Returns:**

        One finite number a row of the component's operator, for an `Observation` one
        an observed output.
        """
