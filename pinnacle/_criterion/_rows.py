"""Work on one row of an array after the other, in its place."""

import math
from collections.abc import Callable

import jax
from jax.lax import dynamic_slice_in_dim, dynamic_update_slice
from jaxtyping import Array, Float


_CHUNK = 4096  # rows at once


def row_by_row(
    fn: Callable[..., Array], rows: Float[Array, "n ..."], *others: Array
) -> Float[Array, "n q"]:
    """`fn(rows, *others)` for a function that makes every row of its value from one row
    of each argument.

    Of many rows some thousand are taken at a time, and overwritten with their values:
    for a value as large as `rows` XLA stores no second array. A value may have fewer
    entries a row than `rows`, but not more.
    """
    arguments, n = (rows, *others), rows.shape[0]
    if n <= _CHUNK:
        return fn(*arguments)
    width = jax.eval_shape(fn, *arguments).shape[1]
    shape = rows.shape[1:]

    def overwrite(done, start, size):
        piece = [dynamic_slice_in_dim(a, start, size) for a in (done, *others)]
        values = fn(piece[0].reshape(size, *shape), *piece[1:])
        return dynamic_update_slice(done, values, (start, 0))

    tail = n % _CHUNK
    done = overwrite(rows.reshape(n, math.prod(shape)), n - tail, tail)
    step = lambda i, done: overwrite(done, i * _CHUNK, _CHUNK)  # noqa: E731
    return jax.lax.fori_loop(0, n // _CHUNK, step, done)[:, :width]
