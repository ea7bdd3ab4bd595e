"""What every program of `peers.py` is given: points, first network, optimiser."""

from typing import NamedTuple, Self

import numpy as np


T, X = 0, 1
LEARNING_RATE = 1e-3
CHECKED_STEPS = 20  # after these, all programs must have the same loss


class Problem(NamedTuple):
    """u_t + u u_x = coefficient · ∂u^order/∂x^order, u(0, x) = cos πx, periodic.

    Rows of points are (t, x). Weights are (outputs, inputs), with tanh between them.
    """

    name: str
    order: int
    coefficient: float
    inside: np.ndarray
    initial: np.ndarray
    periodic: np.ndarray
    weights: list[np.ndarray]
    biases: list[np.ndarray]

    @property
    def sizes(self) -> list[int]:
        return [2, *(len(bias) for bias in self.biases)]

    @property
    def opposite(self) -> np.ndarray:
        """The other end of each periodic pair."""
        return self.periodic + np.array([0, 2], self.periodic.dtype)

    @property
    def initial_values(self) -> np.ndarray:
        return np.cos(np.pi * self.initial[:, X:])

    def save(self, file) -> None:
        fields = self._asdict()
        layers = {
            f"{kind}{i}": array
            for kind in ("weights", "biases")
            for i, array in enumerate(fields.pop(kind))
        }
        np.savez(file, **fields, **layers)

    @classmethod
    def load(cls, file) -> Self:
        with np.load(file) as data:
            depth = sum(name.startswith("biases") for name in data)
            return cls(
                *(data[name].item() for name in ("name", "order", "coefficient")),
                *(data[name] for name in ("inside", "initial", "periodic")),
                *(
                    [data[f"{kind}{i}"] for i in range(depth)]
                    for kind in ("weights", "biases")
                ),
            )
