"""Rows of J = ∂(√λR)/∂θ, always in chunks: no pool-sized Jacobian ever exists."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import dynamic_slice_in_dim, dynamic_update_slice_in_dim
from jaxtyping import Array, Float, Int

from .._model import Model
from .._space.augmented import AugmentedSpace, Block


# Without a given chunk: Jacobian entries held at once, and into how many chunks a block
# of at least `_WORTH_IT` points is cut, so that a tail of padding can be left out.
_CHUNK_ENTRIES = 2**23
_CHUNKS = 8
_WORTH_IT = 256
_COLUMNS = 64  # of directions that are multiplied, or found to be 0, together


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
                "NTK over its parameters: give it some, or, if only its coefficients "
                "are unknown, pass `coefficients=True` to the estimator."
            )

    @property
    def size(self) -> int:
        """P, the number of parameters."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.parameters))

    def jacobian(self, kind: int, block: Block) -> Float[Array, "c m P"]:
        """J(z) for every row of one block; zero on padding rows."""

        def point(x, label, mask):
            leaves = self._leaves(kind, x, label)
            return jnp.where(mask, jnp.concatenate(leaves, axis=1), 0)

        return self._map(point, kind, block, (self._rows(kind), self.size))

    def stacked(self, blocks: Sequence[Block]) -> Float[Array, "n P"]:
        """J of all rows of all blocks, in block order; for a few thousand rows."""
        jacobians = [self.jacobian(kind, block) for kind, block in enumerate(blocks)]
        return jnp.concatenate([J.reshape(-1, self.size) for J in jacobians])

    def project(
        self,
        kind: int,
        block: Block,
        directions: Float[Array, "P r"],
        live: Int[Array, ""] | None = None,
    ) -> Float[Array, "c m r"]:
        """J(z)·W for every row of one block, each chunk of J contracted at once.

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

        def point(x, label, mask):
            leaves = self._leaves(kind, x, label)

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

        return self._map(point, kind, block, (self._rows(kind), width))

    def residual(self, kind: int, block: Block) -> Float[Array, "c m"]:
        """√λ·R(z) for every row of one block; zero on padding rows."""

        def point(x, label, mask):
            return jnp.where(mask, self._residual(kind, x, label)(self.parameters), 0)

        return self._map(point, kind, block, (self._rows(kind),))

    def gradient_norm(self, kind: int, block: Block) -> Float[Array, " c"]:
        """‖J(z)ᵀR(z)‖ for every row of one block, by one backward pass a point."""

        def point(x, label, mask):
            R, pullback = jax.vjp(self._residual(kind, x, label), self.parameters)
            squares = [jnp.sum(g**2) for g in jax.tree.leaves(pullback(R))]
            return jnp.where(mask, jnp.sqrt(sum(squares)), 0)

        return self._map(point, kind, block, ())

    def _residual(self, kind, x, label) -> Callable:
        component = self.space.components[kind]

        def residual(parameters):
            return component.residual(eqx.combine(parameters, self.rest), x, label)

        return residual

    def _leaves(self, kind, x, label) -> list[Float[Array, "m _"]]:
        J = jax.jacrev(self._residual(kind, x, label))(self.parameters)
        return [leaf.reshape(self._rows(kind), -1) for leaf in jax.tree.leaves(J)]

    def _rows(self, kind: int) -> int:
        return self.space.components[kind].operator.rows

    def _map(
        self, point: Callable, kind: int, block: Block, shape: tuple[int, ...]
    ) -> Array:
        """`point` at every row, chunk by chunk up to the last that has a live row;
        `shape` is that of its value."""
        arguments = (block.x, block.label, block.mask)
        chunk = self.chunk or self._default_chunk(kind, block.size)
        if block.size <= chunk:
            return jax.vmap(point)(*arguments)
        dtype = jnp.result_type(*jax.tree.leaves(self.parameters))
        nothing = jnp.zeros((block.size, *shape), dtype)

        def step(i, done):
            start = jnp.minimum(i * chunk, block.size - chunk)
            piece = [dynamic_slice_in_dim(a, start, chunk) for a in arguments]
            values = jax.vmap(point)(*piece).astype(dtype)
            return dynamic_update_slice_in_dim(done, values, start, axis=0)

        live = jnp.max(jnp.where(block.mask, jnp.arange(1, block.size + 1), 0))
        return jax.lax.fori_loop(0, (live + chunk - 1) // chunk, step, nothing)

    def _default_chunk(self, kind: int, size: int) -> int:
        fits = max(8, _CHUNK_ENTRIES // (self._rows(kind) * self.size))
        return min(fits, size if size < _WORTH_IT else -(-size // _CHUNKS))
