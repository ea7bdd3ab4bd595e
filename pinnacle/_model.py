"""The network and the unknown coefficients, as one callable."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree


class Coefficient(eqx.Module):
    """An unknown number of the PDE or its conditions, learnt with the network.

    Its value is `transform(raw)`; training moves `raw`. With `transform=jnp.exp`, for
    example, the value stays positive.

    **Arguments:**

    - `raw`: the starting point of the trained number, any shape.
    - `transform`: maps `raw` to the value, default the identity.
    """

    raw: Float[Array, "..."]
    transform: Callable[[Array], Array] | None = eqx.field(static=True, default=None)

    def __init__(self, raw, transform=None):
        self.raw = jnp.asarray(raw, jnp.result_type(float))
        self.transform = transform

    @property
    def value(self) -> Float[Array, "..."]:
        return self.raw if self.transform is None else self.transform(self.raw)


class Model(eqx.Module):
    """A network û_θ together with the unknown coefficients of the problem.

    Called at one point `x` (shape `(d,)`) it returns the network's outputs (shape
    `(outputs,)`; a scalar network counts as one output). `model["name"]` is the value
    of a coefficient. What is trained is every floating-point array in it.

    **Arguments:**

    - `network`: any callable pytree `x -> outputs`, for instance `pinnacle.nn.MLP` or
      `equinox.nn.MLP`.
    - `coefficients`: numbers or [`Coefficient`][]s by name; they take the dtype of the
      network.
    """

    network: PyTree
    coefficients: dict[str, Coefficient]

    def __init__(self, network, coefficients: Mapping[str, Any] | None = None):
        if not callable(network):
            raise ValueError(
                f"`network` must be callable on one point, got {network!r}. Wrap "
                "parameters and an apply function in `pinnacle.nn.Apply`."
            )
        for name in coefficients or {}:
            if not isinstance(name, str) or not name or "/" in name:
                raise ValueError(
                    f"`coefficients` names one {name!r}: give it a word without a '/', "
                    "which separates name and index in the columns of a history."
                )
        self.network = network
        dtype = _common(_dtypes(network))
        given = {
            name: c if isinstance(c, Coefficient) else Coefficient(c)
            for name, c in (coefficients or {}).items()
        }
        self.coefficients = jax.tree.map(lambda raw: raw.astype(dtype), given)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " outputs"]:
        return jnp.atleast_1d(self.network(x))

    def __getitem__(self, name: str) -> Float[Array, "..."]:
        if name not in self.coefficients:
            raise KeyError(
                f"no coefficient named {name!r}; this model has "
                f"{sorted(self.coefficients) or 'none'}. Pass it to "
                f"`Model(network, coefficients={{{name!r}: start}})`."
            )
        return self.coefficients[name].value

    def partition(self) -> tuple["Model", "Model"]:
        """Split into what is trained and the rest; `equinox.combine` puts it back."""
        return eqx.partition(self, eqx.is_inexact_array)

    @property
    def dtype(self) -> jnp.dtype:
        """The floating dtype of the parameters."""
        return _common(_dtypes(self))

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The floating dtypes that occur among the parameters; it should be one."""
        return _dtypes(self) or (str(self.dtype),)


def _dtypes(tree: PyTree) -> tuple[str, ...]:
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return tuple(sorted({str(leaf.dtype) for leaf in leaves}))


def _common(dtypes: tuple[str, ...]) -> jnp.dtype:
    return jnp.result_type(*(dtypes or (float,)))
