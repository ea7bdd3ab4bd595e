"""Conditions on derivatives: Neumann, Robin, initial velocity."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .base import AbstractOperator
from .derivatives import derivatives
from .outputs import as_outputs, check_axis, take


class Neumann(AbstractOperator):
    """F[u](x) = ∂u/∂n(x) = Σ_i n_i(x) ∂u/∂x_i(x), for chosen outputs.

    The flux through the right end of a rod, say, and through all of a boundary:

    ```python
    end = domain.boundary(0, "upper")
    Component("end", end, Neumann(end), 0.0)  # the face knows its normal
    Component("walls", domain.boundary(), Neumann(domain.boundary()), 0.0)
    ```

    `Neumann(0)` is ∂u/∂x₀ on whatever face: on a lower one it points inwards.

    **Arguments:**

    - `normal`: an axis (n = e_axis), a face of a domain (its outward normal), or a
      function `x -> n` at one point.
    - `outputs`: which outputs, default the first.
    """

    normal: Any
    outputs: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, normal, outputs=(0,)):
        self.normal = _as_normal(normal)
        self.outputs = as_outputs(outputs)

    @property
    def rows(self) -> int:
        return len(self.outputs)

    def __call__(self, u, x):
        return take(_value_and_slope(u, x, self.normal)[1], self.outputs)

    def check(self, domain):
        _check_normal(self.normal, domain)


class Robin(AbstractOperator):
    """F[u](x) = α u(x) + β ∂u/∂n(x), for chosen outputs.

    **Arguments:**

    - `normal`: an axis (n = e_axis), a face of a domain (its outward normal), or a
      function `x -> n` at one point.
    - `alpha`, `beta`: α and β, a number or one for each of `outputs`.
    - `outputs`: which outputs, default the first.
    """

    normal: Any
    alpha: Float[Array, "..."]
    beta: Float[Array, "..."]
    outputs: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, normal, alpha, beta, outputs=(0,)):
        self.normal = _as_normal(normal)
        self.alpha = jnp.asarray(alpha, jnp.result_type(float))
        self.beta = jnp.asarray(beta, jnp.result_type(float))
        self.outputs = as_outputs(outputs)

    def __check_init__(self):
        for name in ("alpha", "beta"):
            shape = getattr(self, name).shape
            if shape not in ((), (self.rows,)):
                raise ValueError(
                    f"`{name}` must be a number or one number for each of the "
                    f"{self.rows} outputs, got shape {shape}."
                )

    @property
    def rows(self) -> int:
        return len(self.outputs)

    def __call__(self, u, x):
        value, slope = _value_and_slope(u, x, self.normal)
        alpha, beta = self.alpha.astype(value.dtype), self.beta.astype(value.dtype)
        return alpha * take(value, self.outputs) + beta * take(slope, self.outputs)

    def check(self, domain):
        _check_normal(self.normal, domain)


class TimeDerivative(AbstractOperator):
    """F[u](x) = ∂^k u/∂t^k (x), for chosen outputs: initial velocity and the like.

    **Arguments:**

    - `axis`: the coordinate that is time.
    - `order`: k, at least 1.
    - `outputs`: which outputs, default the first.
    """

    axis: int = eqx.field(static=True)
    order: int = eqx.field(static=True, default=1)
    outputs: tuple[int, ...] = eqx.field(
        static=True, default=(0,), converter=as_outputs
    )

    def __check_init__(self):
        if self.order < 1:
            raise ValueError(
                f"`order` must be at least 1, got {self.order!r}; the value itself is "
                "`Dirichlet`."
            )

    @property
    def rows(self) -> int:
        return len(self.outputs)

    def __call__(self, u, x):
        (rate,) = derivatives(u, x, (self.axis,) * self.order)
        return take(rate, self.outputs)

    def check(self, domain):
        check_axis(self.axis, domain)
        time = domain.time_axis
        if time is not None and self.axis != time:
            raise ValueError(
                f"`axis` {self.axis} of `TimeDerivative` is not the time axis of the "
                f"domain, which is {time}; a derivative in space is `Neumann`."
            )


def _as_normal(normal):
    """An axis stays an integer in the pytree's structure; a function, too."""
    if isinstance(normal, int):
        return _Axis(normal)
    if callable(getattr(normal, "normal", None)) or isinstance(normal, eqx.Module):
        return normal
    if callable(normal):
        return jax.tree_util.Partial(normal)
    raise ValueError(
        "`normal` must be an axis, a face of a domain or a function of one point, got "
        f"{normal!r}."
    )


class _Axis(eqx.Module):
    index: int = eqx.field(static=True)


def _value_and_slope(u, x, normal):
    """u(x) and ∂u/∂n(x)."""
    if isinstance(normal, _Axis):
        return derivatives(u, x, (), normal.index)
    value, *gradient = derivatives(u, x, (), *range(x.shape[0]))
    direction: Callable = getattr(normal, "normal", normal)
    n = jnp.asarray(direction(x), x.dtype)
    return value, jnp.tensordot(n, jnp.stack(gradient), axes=1)


def _check_normal(normal, domain) -> None:
    if isinstance(normal, _Axis):
        check_axis(normal.index, domain)
        if normal.index == domain.time_axis:
            raise ValueError(
                f"`normal` {normal.index} is the time axis of the domain; for an "
                "initial velocity use `TimeDerivative`."
            )
    elif getattr(normal, "dim", domain.dim) != domain.dim:
        raise ValueError(
            f"`normal` is a face of a domain of {normal.dim} coordinates, but the "
            f"points have {domain.dim}; use a face of the same domain."
        )
    for face in (normal, domain):
        time = getattr(face, "time_axis", None)
        if time is not None and time in getattr(face, "fixed_axes", ()):
            raise ValueError(
                "a spatial normal derivative was asked for on the initial face of the "
                "domain (time is fixed there); use a boundary face, or "
                "`TimeDerivative`."
            )
    face = getattr(normal, "bounds", None)
    if face is not None and not _within(domain.bounds, face):
        raise ValueError(
            f"`normal` is that of {normal!r}, on which not all points of {domain!r} "
            "lie; use the face that they are on."
        )


def _within(inner, outer) -> bool:
    (low, high), (least, most) = inner, outer
    sides = zip(least, low, high, most, strict=True)
    return all(a <= b and c <= d for a, b, c, d in sides)
