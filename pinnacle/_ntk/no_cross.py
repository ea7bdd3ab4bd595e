import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from .._misc import require_part
from .._model import Model
from .._space.augmented import AugmentedSpace, Block
from .._types import NTKSpectrum
from .base import AbstractNTKEstimator


class NoCross(AbstractNTKEstimator):
    """The ablation that ignores the NTK's blocks between different kinds.

    Every kind gets eigenfunctions of its own, zero on all other kinds, so that
    Θ((x, r), (x', r')) = 0 for r ≠ r'.

    **Arguments:**

    - `estimator`: how each diagonal block is approximated. `Nystrom(n)` draws n
      reference points of each kind here, not n in all.
    """

    estimator: AbstractNTKEstimator

    def __check_init__(self):
        require_part("estimator", self.estimator, AbstractNTKEstimator, "Nystrom()")

    def basis(
        self,
        space: AugmentedSpace,
        model: Model,
        pool: tuple[Block, ...],
        *,
        key: PRNGKeyArray,
    ) -> tuple[PyTree, ...]:
        keys = jax.random.split(key, len(pool))
        return tuple(
            self.estimator.basis(space, model, _only(pool, kind), key=k)
            for kind, k in enumerate(keys)
        )

    def spectrum(
        self,
        space: AugmentedSpace,
        model: Model,
        points: tuple[Block, ...],
        basis: tuple[PyTree, ...],
    ) -> NTKSpectrum:
        parts = [
            self.estimator.spectrum(space, model, _only(points, kind), b)
            for kind, b in enumerate(basis)
        ]
        eigenvalues = jnp.concatenate([part.eigenvalues for part in parts])
        order = jnp.argsort(-eigenvalues)
        ends = [part.eigenvalues.size for part in parts]
        total = sum(ends)
        blocks = [
            jnp.pad(
                part.eigenfunctions,
                ((0, 0), (0, 0), (sum(ends[:k]), total - sum(ends[: k + 1]))),
            )
            for k, part in enumerate(parts)
        ]
        eigenfunctions = jnp.concatenate(blocks)
        return NTKSpectrum(eigenvalues[order], eigenfunctions[:, :, order])


def _only(blocks: tuple[Block, ...], kind: int) -> tuple[Block, ...]:
    """The same blocks with every other kind emptied."""
    return tuple(b if k == kind else b.rows(0, 0) for k, b in enumerate(blocks))
