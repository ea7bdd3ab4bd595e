"""Periodic conditions."""

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
from jaxtyping import Array, Float

from .base import AbstractOperator
from .derivatives import derivatives
from .outputs import as_outputs, check_axis, take


class Periodic(AbstractOperator):
    """F[u](x) = ∂^k u(x) − ∂^k u(x + L e_axis) for k = 0, …, order, along the axis.

    The rows are those of k = 0 first. The condition holds when F[u] = 0.

    **Arguments:**

    - `axis`: the coordinate that wraps around.
    - `period`: L.
    - `order`: the highest derivative that must agree, default only the value.
    - `outputs`: which outputs, default the first.
    """

    axis: int = eqx.field(static=True)
    period: Float[Array, ""]
    order: int = eqx.field(static=True)
    outputs: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, axis, period, order=0, outputs=(0,)):
        self.axis = axis
        self.period = jnp.asarray(period, jnp.result_type(float))
        self.order = order
        self.outputs = as_outputs(outputs)

    def __check_init__(self):
        if self.order < 0:
            raise ValueError(f"`order` must be at least 0, got {self.order!r}.")

    @property
    def rows(self) -> int:
        return len(self.outputs) * (self.order + 1)

    def __call__(self, u, x):
        image = x.at[self.axis].add(self.period.astype(x.dtype))
        axes = [(self.axis,) * k for k in range(self.order + 1)]
        pair = jax.vmap(lambda p: jnp.stack(derivatives(u, p, *axes)))(
            jnp.stack([x, image])
        )
        gap = pair[0] - pair[1]
        return jnp.concatenate([take(row, self.outputs) for row in gap])

    def check(self, domain):
        check_axis(self.axis, domain)
        length = getattr(domain, "period", None)
        way_out = (
            "put `Periodic` on the lower face of a pair, "
            f"`domain.periodic({self.axis})`, whose `period` is the length of the "
            "domain along the axis."
        )
        if length is None or getattr(domain, "axis", self.axis) != self.axis:
            raise ValueError(
                f"the image of `Periodic(axis={self.axis})` lies outside the domain: "
                f"{way_out}"
            )
        if isinstance(self.period, jax.core.Tracer):
            return
        if not 0 < float(self.period) / float(length) <= 1 + 1e-5:
            raise ValueError(
                f"`period` {float(self.period)!r} puts the periodic image outside the "
                f"domain, which is {float(length)!r} long along axis {self.axis}; "
                f"{way_out}"
            )
