"""DeepXDE for `peers.py`: `Model.train`, derivatives by `dde.grad`.

The backend comes from the environment variable DDE_BACKEND; the mode is DeepXDE's
`autodiff`, `reverse` (its default) or `forward`. PyTorch runs eagerly, DeepXDE's way.

The equation's points are anchors, the initial ones a `PointSetBC`. `PeriodicBC` takes
its points from among the equation's, so that a subclass gives it its own. DeepXDE
evaluates the equation on all rows, those of the conditions too (330 rather than 240),
and drops the rest.
"""

import deepxde as dde  # pyright: ignore[reportMissingImports]
import numpy as np
from peers_problem import CHECKED_STEPS, LEARNING_RATE, Problem, T, X


backend = dde.backend.backend_name
lib = dde.backend.lib
if backend == "pytorch":
    lib.set_num_threads(1)


class PeriodicAt(dde.icbc.PeriodicBC):
    """`PeriodicBC` in x at given points."""

    def __init__(self, geometry, points):
        super().__init__(geometry, X, lambda x, on_boundary: on_boundary)
        self.points = points

    def collocation_points(self, X):
        return np.vstack([self.points, self.geom.periodic_point(self.points, 1)])


def equation(problem: Problem):
    def values(derivative):
        """DeepXDE pairs an array with its function, except in PyTorch's reverse."""
        return derivative[0] if isinstance(derivative, tuple) else derivative

    def residual(x, u):
        u_t = dde.grad.jacobian(u, x, i=0, j=T)
        u_x = dde.grad.jacobian(u, x, i=0, j=X)
        top = dde.grad.hessian(u, x, i=X, j=X)
        for _ in range(problem.order - 2):
            top = dde.grad.jacobian(top, x, i=0, j=X)
        advection = values(u) * values(u_x)
        return values(u_t) + advection - problem.coefficient * values(top)

    return residual


def give_parameters(model, problem: Problem) -> None:
    """Start from the given network."""
    layers = list(zip(problem.weights, problem.biases, strict=True))
    if backend == "pytorch":
        for linear, (weight, bias) in zip(model.net.linears, layers, strict=True):
            linear.weight.data.copy_(lib.as_tensor(weight))
            linear.bias.data.copy_(lib.as_tensor(bias))
    else:
        dense = {
            f"denses_{i}": {"kernel": weight.T, "bias": bias}
            for i, (weight, bias) in enumerate(layers)
        }
        model.params = [{"params": dense}, []]


def prepare(problem: Problem, mode: str, steps: int):
    dde.config.set_default_autodiff(mode)
    geometry = dde.geometry.Rectangle([0, -1], [1, 1])
    conditions = [
        dde.icbc.PointSetBC(problem.initial, problem.initial_values),
        PeriodicAt(geometry, problem.periodic),
    ]
    data = dde.data.PDE(geometry, equation(problem), conditions, anchors=problem.inside)
    model = dde.Model(data, dde.nn.FNN(problem.sizes, "tanh", "Glorot uniform"))
    model.compile("adam", lr=LEARNING_RATE)
    give_parameters(model, problem)

    def train(iterations):
        model.train(iterations=iterations, display_every=10**9, verbose=0)

    train(CHECKED_STEPS)
    loss = np.sum(model.train_state.loss_train)
    versions = f"DeepXDE {dde.__version__}, {backend} {lib.__version__}"
    return versions, loss, lambda: train(steps)
