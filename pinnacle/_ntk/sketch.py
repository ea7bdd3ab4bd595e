import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from .._misc import require_integer
from .._model import Model
from .._space.augmented import AugmentedSpace, Block
from .._types import NTKSpectrum
from .base import AbstractNTKEstimator
from .basis import Basis, reference_rows, spectrum_from_basis
from .jacobian import Rows, require_chunk


class Sketch(AbstractNTKEstimator):
    """A random projection of parameter space: Θ ≈ (JΩ)(JΩ)ᵀ with E[ΩΩᵀ] = 𝟙.

    Ω has independent random signs. Unbiased: E[α̂(Z)] = α(Z), with relative deviation
    √(2/directions) at most for every set Z (Johnson–Lindenstrauss). Needs no reference
    set and no large factorisation, so a round costs a few dozen training steps. The
    basis Ω is rotated so that its directions are the principal ones of a few reference
    points; this changes no embedding distance.

    **Arguments:**

    - `directions`: number of random directions.
    - `coefficients`: whether the unknown coefficients count as parameters.
    - `chunk`: points per Jacobian chunk, default by memory.
    """

    directions: int = eqx.field(static=True, default=64)
    coefficients: bool = eqx.field(static=True, default=False)
    chunk: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        advice = "give at least one random direction, 64 are usual"
        require_integer("directions", self.directions, 1, advice)
        require_chunk(self.chunk)

    def basis(
        self,
        space: AugmentedSpace,
        model: Model,
        pool: tuple[Block, ...],
        *,
        key: PRNGKeyArray,
    ) -> Basis:
        rows = Rows(space, model, self.coefficients, self.chunk)
        omega_key, reference_key = jax.random.split(key)
        omega = jax.random.rademacher(
            omega_key, (rows.size, self.directions), model.dtype
        )
        omega = omega / jnp.sqrt(jnp.asarray(self.directions, model.dtype))
        J = reference_rows(rows, pool, 2 * self.directions, key=reference_key)
        _, sigma, Vt = jnp.linalg.svd(J @ omega, full_matrices=True)
        eigenvalues = jnp.zeros(self.directions, model.dtype)
        eigenvalues = eigenvalues.at[: sigma.size].set(sigma**2 / J.shape[0])
        # A direction that no reference point sees still counts: give it a tiny λ.
        floor = jnp.finfo(model.dtype).eps * eigenvalues[0]
        return Basis(omega @ Vt.T, jnp.maximum(eigenvalues, floor))

    def spectrum(
        self,
        space: AugmentedSpace,
        model: Model,
        points: tuple[Block, ...],
        basis: Basis,
    ) -> NTKSpectrum:
        rows = Rows(space, model, self.coefficients, self.chunk)
        return spectrum_from_basis(rows, points, basis)
