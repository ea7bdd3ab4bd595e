import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

from .._misc import as_number_or_none, require_integer
from .._model import Model
from .._space.augmented import AugmentedSpace, Block
from .._types import NTKSpectrum
from .base import AbstractNTKEstimator
from .basis import (
    Basis,
    basis_from_rows,
    reference_rows,
    require_rcond,
    spectrum_from_basis,
)
from .jacobian import Rows, require_chunk


class Nystrom(AbstractNTKEstimator):
    """The paper's estimator: eigenfunctions extended from a random reference set.

    Θ(z, z') ≈ Θ(z, ref) Θ(ref)⁺ Θ(ref, z'), eq. `eq:nystrom`, computed by a thin
    factorisation of the reference Jacobian. 0 ≤ α̂ ≤ α, and α̂ grows with the set.

    **Arguments:**

    - `references`: number of reference points, drawn afresh from each pool and spread
      over the kinds in proportion to their candidates, at least one each.
    - `coefficients`: whether the unknown coefficients count as parameters.
    - `rcond`: singular values below `rcond·σ_1` count as rounding noise, 0 ≤ rcond < 1,
      default ε·(number of reference rows).
    - `chunk`: points per Jacobian chunk, default by memory.
    """

    references: int = eqx.field(static=True, default=300)
    coefficients: bool = eqx.field(static=True, default=False)
    rcond: Float[Array, ""] | None = eqx.field(
        default=None, converter=as_number_or_none
    )
    chunk: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        advice = "give at least one reference point, a few hundred are usual"
        require_integer("references", self.references, 1, advice)
        require_rcond(self.rcond)
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
        J = reference_rows(rows, pool, self.references, key=key)
        return basis_from_rows(J, self.rcond)

    def spectrum(
        self,
        space: AugmentedSpace,
        model: Model,
        points: tuple[Block, ...],
        basis: Basis,
    ) -> NTKSpectrum:
        rows = Rows(space, model, self.coefficients, self.chunk)
        return spectrum_from_basis(rows, points, basis)
