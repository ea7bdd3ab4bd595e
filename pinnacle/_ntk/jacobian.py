"""Rows of J = ∂(√λR)/∂θ, always in chunks: no pool-sized Jacobian ever exists."""

import functools as ft
import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import dynamic_slice_in_dim, dynamic_update_slice
from jaxtyping import Array, Float, Int

from .._misc import require_integer
from .._model import Model
from .._space.augmented import AugmentedSpace, Block


# Without a given chunk: Jacobian entries held at once, and into how many chunks a block
# of at least `_WORTH_IT` points is cut, so that a tail of padding can be left out.
_CHUNK_ENTRIES = 2**23
_CHUNKS = 8
_WORTH_IT = 256
_COLUMNS = 64  # of directions that are multiplied, or found to be 0, together


def require_chunk(chunk: int | None) -> None:
    """None, or at least one point."""
    if chunk is not None:
        require_integer("chunk", chunk, 1, "give points a chunk, or None for a default")


class Rows(eqx.Module):
    """Residual rows as functions of the parameters θ that the NTK is taken over.

    **Arguments:**

    - `space`, `model`: whose residuals.
    - `coefficients`: whether θ includes the unknown coefficients.
    - `chunk`: points per chunk; `None` chooses about 2²³ Jacobian entries.

    Raises `ValueError` where there is no parameter.
    """

    space: AugmentedSpace
    parameters: Model
    rest: Model
    chunk: int | None = eqx.field(static=True)

    def __init__(self, space, model, coefficients, chunk):
        trained = jax.tree.map(eqx.is_inexact_array, model)
        if not coefficients:
            fixed = jax.tree.map(lambda _: False, model.coefficients)
            trained = eqx.tree_at(lambda m: m.coefficients, trained, fixed)
        self.space = space
        self.parameters, self.rest = eqx.partition(model, trained)
        self.chunk = chunk
        if self.size == 0:
            raise ValueError(
                "the network of `model` has no floating-point arrays, so there is no "
                "NTK over its parameters. Those of a closure are hidden: make the "
                "network an Equinox module, or `pinnacle.nn.Apply(params, f)`. If only "
                "the coefficients are unknown, pass `coefficients=True` to the "
                "estimator."
            )

    @property
    def size(self) -> int:
        """P, the number of parameters."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.parameters))

    def jacobian(self, kind: int, block: Block) -> Float[Array, "c m P"]:
        """J(z) for every row of one block; zero on padding rows."""

        def point(kind, x, label, mask):
            leaves = self._leaves(kind, self._residual(kind, x, label))
            return jnp.where(mask, jnp.concatenate(leaves, axis=1), 0)

        shape = (self._rows(kind), self.size)
        nothing = self._zeros(block.size, math.prod(shape))
        J = self._write(nothing, 0, point, kind, block)
        return J.reshape(block.size, *shape)

    def leaves(
        self, kind: int, block: Block, scale: Float[Array, " c"]
    ) -> list[Float[Array, "n _"]]:
        """scale(z)·J(z) for every row of one block, a matrix for each array of
        parameters. All rows at once, and no copy of them."""

        def point(x, label, scale):
            residual = self._residual(kind, x, label)
            return self._leaves(kind, lambda p: scale * residual(p))

        leaves = jax.vmap(point)(block.x, block.label, scale)
        return [leaf.reshape(-1, leaf.shape[-1]) for leaf in leaves]

    def stacked(self, blocks: Sequence[Block]) -> Float[Array, "n P"]:
        """J of all rows of all blocks, in block order; for a few thousand rows."""
        jacobians = [self.jacobian(kind, block) for kind, block in enumerate(blocks)]
        return jnp.concatenate([J.reshape(-1, self.size) for J in jacobians])

    def project(
        self,
        blocks: Sequence[Block],
        directions: Float[Array, "P r"],
        live: Int[Array, ""] | None = None,
    ) -> Float[Array, "n m r"]:
        """J(z)·W for every row of every block, each chunk of J contracted at once.

        Kinds with fewer rows than others are padded with zeros.

        **Arguments:**

        - `directions`: W.
        - `live`: how many leading columns of W may be other than 0, default all.
        """
        sizes = [leaf.size for leaf in jax.tree.leaves(self.parameters)]
        ends = [sum(sizes[:i]) for i in range(1, len(sizes))]
        width = directions.shape[1]
        live = jnp.asarray(width if live is None else live)
        starts = range(0, max(width, 1), _COLUMNS)
        pieces = [jnp.split(directions[:, i : i + _COLUMNS], ends) for i in starts]

        def point(kind, x, label, mask):
            leaves = self._leaves(kind, self._residual(kind, x, label))

            def product(parts):
                return sum(J @ W for J, W in zip(leaves, parts, strict=True))

            def nothing(parts):
                columns = parts[0].shape[1]
                return jnp.zeros((len(leaves[0]), columns), jnp.result_type(*leaves))

            products = [
                jax.lax.cond(live > start, product, nothing, parts)
                for start, parts in zip(starts, pieces, strict=True)
            ]
            return jnp.where(mask, jnp.concatenate(products, axis=1), 0)

        return self._of_all(point, blocks, (self.space.rows, width))

    def residual(self, blocks: Sequence[Block]) -> Float[Array, "n m"]:
        """√λ·R(z) for every row of every block; zero on padding."""

        def point(kind, x, label, mask):
            return jnp.where(mask, self._residual(kind, x, label)(self.parameters), 0)

        return self._of_all(point, blocks, (self.space.rows,))

    def gradient_norm(self, blocks: Sequence[Block]) -> Float[Array, " n"]:
        """‖J(z)ᵀR(z)‖ for every row of every block, by one backward pass a point."""

        def point(kind, x, label, mask):
            R, pullback = jax.vjp(self._residual(kind, x, label), self.parameters)
            squares = [jnp.sum(g**2) for g in jax.tree.leaves(pullback(R))]
            return jnp.where(mask, jnp.sqrt(sum(squares)), 0)

        return self._of_all(point, blocks, ())

    def _residual(self, kind, x, label) -> Callable:
        component = self.space.components[kind]

        def residual(parameters):
            return component.residual(eqx.combine(parameters, self.rest), x, label)

        return residual

    def _leaves(self, kind, residual: Callable) -> list[Float[Array, "m _"]]:
        J = jax.jacrev(residual)(self.parameters)
        return [leaf.reshape(self._rows(kind), -1) for leaf in jax.tree.leaves(J)]

    def _rows(self, kind: int) -> int:
        return self.space.components[kind].operator.rows

    def _of_all(
        self, point: Callable, blocks: Sequence[Block], shape: tuple[int, ...]
    ) -> Array:
        """`point` of every row of all blocks, in block order, in one array.

        Each chunk is written where it belongs, so that no second array of that size
        ever exists; what `point` leaves out of `shape` is zero.
        """
        sizes = [block.size for block in blocks]
        done = self._zeros(sum(sizes), math.prod(shape))
        for kind, block in enumerate(blocks):
            done = self._write(done, sum(sizes[:kind]), point, kind, block)
        return done.reshape(sum(sizes), *shape)

    def _write(
        self, done: Array, first: int, point: Callable, kind: int, block: Block
    ) -> Array:
        """`done` with `point` of the block's rows from row `first` on, chunk by chunk
        up to the last that has a live row."""
        chunk = self.chunk or self._default_chunk(kind, block.size)
        value = jax.vmap(ft.partial(point, kind))

        def put(done, start, size):
            rows = (block.x, block.label, block.mask)
            rows = [dynamic_slice_in_dim(a, start, size) for a in rows]
            values = value(*rows).astype(done.dtype)
            values = values.reshape(size, math.prod(values.shape[1:]))
            return dynamic_update_slice(done, values, (first + start, 0))

        if block.size <= chunk:
            return put(done, 0, block.size)
        last = block.size - chunk
        live = jnp.max(jnp.where(block.mask, jnp.arange(1, block.size + 1), 0))
        step = lambda i, done: put(done, jnp.minimum(i * chunk, last), chunk)  # noqa: E731
        return jax.lax.fori_loop(0, (live + chunk - 1) // chunk, step, done)

    def _zeros(self, *shape: int) -> Array:
        return jnp.zeros(shape, jnp.result_type(*jax.tree.leaves(self.parameters)))

    def _default_chunk(self, kind: int, size: int) -> int:
        fits = max(8, _CHUNK_ENTRIES // (self._rows(kind) * self.size))
        return min(fits, size if size < _WORTH_IT else -(-size // _CHUNKS))
