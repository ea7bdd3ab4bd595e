"""Which points wait for a measurement, who measures them, and what came back."""

import reprlib
from collections.abc import Iterable, Iterator, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._space.augmented import AugmentedSpace
from .._types import Points
from .base import AbstractOracle
from .function import as_oracle


class OracleError(RuntimeError):
    """What went wrong at which point; its cause is what the oracle raised, if any."""


def measured_kinds(space: AugmentedSpace) -> tuple[str, ...]:
    """Names of the kinds whose labels are measured: those without a target."""
    pairs = zip(space.names, space.measured, strict=True)
    return tuple(name for name, measured in pairs if measured)


def pending(space: AugmentedSpace, points: Points) -> Bool[np.ndarray, " n"]:
    """Which points have been chosen for a measurement that nobody has made yet.

    Their label is NaN.

    **Arguments:**

    - `space`: the augmented space.
    - `points`: a training set, for instance `FitResult.state.selection.points`.

    **Returns:**

    A mask over its rows.
    """
    live = np.asarray(points.mask) & space.measured[np.asarray(points.kind)]
    return live & np.isnan(np.asarray(points.label)[:, 0])


def oracles_by_name(
    space: AugmentedSpace, oracle, wanted: Iterable[str]
) -> dict[str, AbstractOracle]:
    """Who measures which kind.

    **Arguments:**

    - `space`: the augmented space.
    - `oracle`: what the user gave: an oracle or a function, where one kind is measured,
      a mapping from names to these, or None.
    - `wanted`: names of the kinds that may be asked for.

    **Raises:** `ValueError` where an oracle is missing, or is one too many.
    """
    measured = measured_kinds(space)
    if oracle is None:
        given = {}
    elif isinstance(oracle, Mapping):
        given = {name: as_oracle(one) for name, one in oracle.items()}
    elif len(measured) == 1:
        given = {measured[0]: as_oracle(oracle)}
    elif measured:
        raise ValueError(
            f"`oracle` is one oracle, but {len(measured)} kinds are measured, "
            f"{list(measured)}: give a mapping from their names to oracles."
        )
    else:
        raise ValueError(
            "`oracle` is given, but nothing is measured: a component is when it has "
            "target=None and group='experimental'."
        )
    _check_names(measured, given, wanted)
    return given


def _check_names(measured, given, wanted) -> None:
    strange = [name for name in given if name not in measured]
    if strange:
        raise ValueError(
            f"`oracle` names {strange}, but the kinds that are measured (those with "
            f"target=None) are {list(measured)}: leave the others out."
        )
    missing = [name for name in wanted if name not in given]
    if missing:
        raise ValueError(
            f"`oracle` is missing for the kind(s) {missing}: pass "
            f"`oracle={{{missing[0]!r}: function_or_oracle}}`, give the component a "
            "`target`, or set experimental_per_round=0."
        )


def measure(
    space: AugmentedSpace,
    oracles: Mapping[str, AbstractOracle],
    points: Points,
    *,
    key: PRNGKeyArray,
) -> Iterator[Float[Array, "n m"]]:
    """Measure the pending points one after the other, and give all labels after each.

    A place of which the same kind has a label already is not measured again: its label
    is used once more. The key of a measurement depends on `key` and the row only.

    **Raises:** `OracleError` when an oracle raises, or gives something else than finite
    numbers, one a row of the operator.
    """
    for row in np.flatnonzero(pending(space, points)).tolist():
        label = _known_label(points, row)
        if label is None:
            row_key = jax.random.fold_in(key, row)
            label = _ask(space, oracles, points, row, key=row_key)
        labels = np.array(points.label)
        labels[row] = label
        points = eqx.tree_at(lambda p: p.label, points, jnp.array(labels))
        yield points.label


def _known_label(points: Points, row: int) -> Float[np.ndarray, " m"] | None:
    """The label of another point of the same kind at the same place, if there is."""
    x, kind, label = map(np.asarray, (points.x, points.kind, points.label))
    same = np.asarray(points.mask) & (kind == kind[row]) & (x == x[row]).all(axis=1)
    (rows,) = np.nonzero(same & ~np.isnan(label[:, 0]))
    return label[rows[0]] if rows.size else None


def _ask(space, oracles, points, row: int, *, key) -> Float[np.ndarray, " m"]:
    """The label of one row, measured; zero-padded to the length of labels."""
    component = space.components[int(np.asarray(points.kind)[row])]
    x = np.array(np.asarray(points.x)[row])
    where = f"the oracle of {component.name!r} at ({', '.join(map(str, x))})"
    try:
        measured = oracles[component.name].measure(x, key=key)
        values = np.asarray(measured)
    except Exception as error:
        raise OracleError(f"{where} raised {type(error).__name__}: {error}") from error
    rows = component.operator.rows
    _check_values(where, values, rows, x.dtype)
    label = np.zeros(points.label.shape[1], x.dtype)
    label[:rows] = values
    return label


def _check_values(where: str, values: np.ndarray, rows: int, dtype) -> None:
    """Raise `OracleError` unless these are `rows` numbers, finite in the dtype."""
    back = f"{where} returned {reprlib.repr(values.tolist())}"
    real = any(jnp.issubdtype(values.dtype, t) for t in (jnp.floating, jnp.integer))
    if not real:
        raise OracleError(f"{back}, which is not made of real numbers.")
    if values.shape != (rows,) and not (rows == 1 and values.shape == ()):
        raise OracleError(
            f"{back} of shape {values.shape}: return {rows} number(s), shape ({rows},)."
        )
    with np.errstate(over="ignore"):
        finite = np.isfinite(values.astype(dtype)).all()
    if not finite:
        raise OracleError(f"{back}, which is not finite in {np.dtype(dtype)}.")
