"""The multilayer perceptron, and how derivatives run through it."""

from collections.abc import Callable, Mapping

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from .activation import AbstractActivation, as_activation
from .base import AbstractNetwork
from .layer import linear
from .multi_index import MultiIndex, closure, partitions


class MLP(AbstractNetwork):
    """A multilayer perceptron: N(x) = W_L h_{L-1} + b_L, h_l = σ(W_l h_{l-1} + b_l).

    Weights are Glorot-uniform, biases zero.

    **Arguments:**

    - `in_size`, `out_size`: number of coordinates and of outputs.
    - `width`, `depth`: size and number of the hidden layers.
    - `activation`: `"tanh"`, `"sin"`, an elementwise function, or an activation of
      `pinnacle.nn` such as `LAAF()`; each hidden layer has its own copy.
    - `dtype`: of the parameters, default JAX's floating dtype.
    - `key`: a JAX random key.

    **Raises:** `ValueError` for a size below 1 or an unknown activation.
    """

    weights: tuple[Float[Array, "_out _in"], ...]
    biases: tuple[Float[Array, " _out"], ...]
    activations: tuple[AbstractActivation, ...]

    def __init__(
        self,
        in_size: int,
        out_size: int,
        width: int,
        depth: int,
        *,
        activation: str | Callable = "tanh",
        dtype=None,
        key: PRNGKeyArray,
    ):
        sizes = {
            "in_size": in_size,
            "out_size": out_size,
            "width": width,
            "depth": depth,
        }
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"`{name}` must be at least 1, got {size!r}.")
        dtype = jnp.result_type(float) if dtype is None else dtype
        widths = [in_size, *[width] * depth, out_size]
        keys = jr.split(key, depth + 1)
        self.weights = tuple(
            _glorot_uniform(n, m, dtype, key=k)
            for m, n, k in zip(widths, widths[1:], keys, strict=False)
        )
        self.biases = tuple(jnp.zeros(n, dtype) for n in widths[1:])
        self.activations = (as_activation(activation),) * depth

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " outputs"]:
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for (weight, bias), activation in zip(hidden, self.activations, strict=True):
            x = activation(weight @ x + bias)
        return last[0] @ x + last[1]

    def derivatives(self, x, indices):
        # Of the input's streams only the value x and the first derivatives e_i are not
        # zero.
        axes = [index for index in closure(indices) if len(index) == 1]
        basis = jnp.eye(x.shape[0], dtype=x.dtype)
        return self.compose(
            {(): x} | {index: basis[index[0]] for index in axes}, indices
        )

    def compose(
        self,
        streams: Mapping[MultiIndex, Float[Array, " _"]],
        indices: tuple[MultiIndex, ...],
    ) -> tuple[Float[Array, " outputs"], ...]:
        """Partial derivatives ∂^α (N∘f)(x) from those of f, the network's input.

        **Arguments:**

        - `streams`: ∂^β f(x) for every β below one of the `indices`; those that are
          zero everywhere may be left out.
        - `indices`: multi-indices α, each sorted.

        **Returns:**

        One array a multi-index.
        """
        needed = closure(indices)
        wanted = tuple(dict.fromkeys(indices))
        streams = dict(streams)
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for i, ((weight, bias), activation) in enumerate(
            zip(hidden, self.activations, strict=True)
        ):
            streams = _linear(weight, bias, streams)
            kept = wanted if i == len(hidden) - 1 else needed
            streams = _activate(activation, streams, kept)
        streams = _linear(*last, streams)
        return tuple(streams[index] for index in indices)


# A derivative stream is ∂^α of a layer's units with respect to the network's input;
# streams that are zero are left out of the dictionary.
Streams = dict[MultiIndex, Float[Array, " _"]]


def _linear(weight, bias, streams: Streams) -> Streams:
    """W h for all streams in one matrix product; the value comes first, if at all."""
    order = sorted(streams, key=len)
    affine = bias if () in streams else None
    outs = linear(weight, affine, [streams[index] for index in order])
    return dict(zip(order, outs, strict=True))


def _activate(activation, streams: Streams, kept: tuple[MultiIndex, ...]) -> Streams:
    """Streams of σ(z) from those of z, by Faà di Bruno's formula."""
    tower = activation.tower(streams[()], max(map(len, kept)))
    return {index: _chain(tower, streams, index) for index in kept}


def _chain(tower, streams: Streams, index: MultiIndex) -> Array:
    terms = [
        _term(tower[len(blocks)], count, [streams[b] for b in blocks])
        for count, blocks in partitions(index)
        if all(block in streams for block in blocks)
    ]
    return sum(terms[1:], terms[0])


def _term(derivative, count: int, factors) -> Array:
    for factor in factors:
        derivative = derivative * factor
    return derivative if count == 1 else count * derivative


def _glorot_uniform(n: int, m: int, dtype, *, key) -> Float[Array, "{n} {m}"]:
    limit = (6 / (n + m)) ** 0.5
    return jr.uniform(key, (n, m), dtype, -limit, limit)


__all__ = ["MLP"]
