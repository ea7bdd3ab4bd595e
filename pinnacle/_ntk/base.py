"""Approximations of the empirical NTK's leading eigenpairs."""

import abc

import equinox as eqx
from jaxtyping import PRNGKeyArray, PyTree

from .._model import Model
from .._space.augmented import AugmentedSpace, Block
from .._types import NTKSpectrum


class AbstractNTKEstimator(eqx.Module):
    """Θ(z, z') = J(z)J(z')ᵀ ≈ Σ_i λ_i ψ_i(z)ψ_i(z')ᵀ, J = ∂(√w R)/∂θ.

    Made in two steps, so that the same eigenbasis can be evaluated on another set of
    points: `basis` looks at the pool once, `spectrum` evaluates the eigenfunctions.
    """

    @abc.abstractmethod
    def basis(
        self,
        space: AugmentedSpace,
        model: Model,
        pool: tuple[Block, ...],
        *,
        key: PRNGKeyArray,
    ) -> PyTree:
        """Whatever `spectrum` needs to evaluate the eigenfunctions anywhere.

        **Arguments:**

        - `space`: the augmented space.
        - `model`: network and coefficients at this moment of the training.
        - `pool`: the candidates, one block a kind.
        - `key`: a JAX random key.
        """

    @abc.abstractmethod
    def spectrum(
        self,
        space: AugmentedSpace,
        model: Model,
        points: tuple[Block, ...],
        basis: PyTree,
    ) -> NTKSpectrum:
        """Evaluate the eigenpairs on `points`, in block order.

        **Returns:**

        Eigenvalues in descending order and eigenfunctions, zero on padded rows.
        """
