"""One kind of training point: where it lives, what is checked there, against what."""

from collections.abc import Callable, Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Float

from .._geometry.base import AbstractDomain, AbstractFace
from .._geometry.finite_set import AbstractFiniteSet
from .._misc import as_real, require_instance, said_by
from .._model import Model
from .._operator.base import AbstractOperator


Group = Literal["collocation", "experimental"]
GROUPS: tuple[Group, ...] = ("collocation", "experimental")


class Component(eqx.Module):
    """One kind of augmented point: (name, domain, operator, target, weight, group).

    **Arguments:**

    - `name`: unique within the space; it labels histories, tables and figures.
    - `domain`: where points of this kind live.
    - `operator`: F, what is applied to the model at a point.
    - `target`: F[u](x), what it should give: a number, an array of `operator.rows`
      numbers, or a function `x -> numbers`. `None`, for experimental points only,
      means the label measured at the point.
    - `weight`: λ in the loss (the paper's eq. (3)), one number or one a row. It enters
      the NTK as √λ on the residual rows.
    - `group`: which budget pays for the points.

    Raises `ValueError` where rows, weight, group or domain do not fit together.
    """

    name: str = eqx.field(static=True)
    domain: AbstractDomain
    operator: AbstractOperator
    target: Float[Array, " m"] | Callable | None
    weight: Float[Array, " m"]
    group: Group = eqx.field(static=True)

    def __init__(
        self,
        name: str,
        domain: AbstractDomain,
        operator: AbstractOperator,
        target: ArrayLike | Sequence[float] | Callable | None = 0.0,
        weight: ArrayLike | Sequence[float] = 1.0,
        group: Group = "collocation",
    ):
        what = "`{}` " + f"of component {name!r}"
        require_instance(
            what.format("domain"),
            domain,
            AbstractDomain,
            "give a domain such as `Interval(0, 1)`, or a face of one",
        )
        require_instance(
            what.format("operator"),
            operator,
            AbstractOperator,
            "wrap a function of (u, x) in `PDE(...)`",
        )
        rows = operator.rows
        self.name = name
        self.domain = domain
        self.operator = operator
        self.weight = _per_row(what.format("weight"), weight, rows)
        self.group = group
        if target is None or callable(target):
            self.target = target
        else:
            self.target = _per_row(what.format("target"), target, rows)

    def __check_init__(self):
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(
                f"`name` of a component is {self.name!r}: give it a word, which labels "
                "histories, tables and figures."
            )
        if self.group not in GROUPS:
            raise ValueError(
                f"`group` of component {self.name!r} is {self.group!r}; "
                f"choose one of {', '.join(map(repr, GROUPS))}."
            )
        if self.target is None and self.group != "experimental":
            raise ValueError(
                f"`target` of component {self.name!r} is None, but only experimental "
                "points carry labels: give a number or a function of x, or set "
                "group='experimental'."
            )
        _check_weight(self.name, self.weight)
        _check_target(self.name, self.target, self.operator.rows, self.domain.dim)
        self.operator.check(self.domain)

    @property
    def fills_domain(self) -> bool:
        """Whether this is a collocation kind of the interior, such as a PDE residual,
        and not a condition on a face, on the rows of a table, or a measurement."""
        part = isinstance(self.domain, AbstractFace | AbstractFiniteSet)
        part = part or bool(self.domain.fixed_axes)
        return self.group == "collocation" and not part

    def residual(
        self, model: Model, x: Float[Array, " d"], label: Float[Array, " l"]
    ) -> Float[Array, " m"]:
        """√λ·(F[û](x) − F[u](x)) at one point, `operator.rows` numbers."""
        with said_by(
            f"the operator of component {self.name!r} at one point x of shape "
            f"{x.shape}, not a batch; a `PDE` calls its function as f(u, x)"
        ):
            applied = self.operator(model, x)
        if applied.shape != (self.operator.rows,):
            raise ValueError(
                f"the operator of component {self.name!r} returned shape "
                f"{applied.shape}, but declares {self.operator.rows} row(s): return "
                "one number a row, or declare `rows`."
            )
        weight = self.weight.astype(applied.dtype)
        return jnp.sqrt(weight) * (applied - self._target(x, label))

    def _target(self, x, label):
        if self.target is None:
            return label[: self.operator.rows]
        if callable(self.target):
            value = _called(self.name, self.target, x)
            return jnp.reshape(value, (self.operator.rows,)).astype(x.dtype)
        return self.target.astype(x.dtype)


def _per_row(what: str, value, rows: int) -> Float[Array, " m"]:
    array = as_real(f"{what} is", value, "give real numbers")
    array = array.astype(jnp.result_type(float))
    if array.shape not in ((), (rows,)):
        raise ValueError(
            f"{what} has shape {array.shape}, but the operator has {rows} row(s): "
            "give one number, or one a row."
        )
    return jnp.broadcast_to(array, (rows,))


def _called(name: str, target: Callable, x: Float[Array, " d"]) -> Array:
    what = f"`target` of component {name!r}"
    with said_by(f"{what}, called with one point x of shape {x.shape}, not a batch"):
        value = target(x)
    return as_real(f"{what} returns", value, "return real numbers, one a row")


def _check_weight(name: str, weight: Array) -> None:
    if isinstance(weight, Tracer):
        return
    values = np.asarray(weight)
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(
            f"`weight` of component {name!r} is {values.tolist()}: weights must be "
            "positive and finite. Leave the component out to ignore it."
        )


def _check_target(name: str, target, rows: int, dim: int) -> None:
    if not callable(target):
        return
    point = jax.ShapeDtypeStruct((dim,), jnp.result_type(float))
    shape = eqx.filter_eval_shape(lambda x: _called(name, target, x), point).shape
    if shape != (rows,) and not (rows == 1 and shape == ()):
        raise ValueError(
            f"`target` of component {name!r} returns shape {shape} at one point, but "
            f"its operator has {rows} row(s): return {rows} number(s)."
        )
