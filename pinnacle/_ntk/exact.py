import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

from .._misc import as_number_or_none
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


class Exact(AbstractNTKEstimator):
    """The NTK of the whole pool, with nothing left out but rounding.

    Holds the pool's Jacobian (rows × parameters) in memory: for pools of up to a few
    thousand rows. Then α̂ = α on every subset of the pool.

    **Arguments:**

    - `coefficients`: whether the unknown coefficients count as parameters.
    - `rcond`: singular values below `rcond·σ_1` count as rounding noise, 0 ≤ rcond < 1,
      default ε·(number of rows).
    - `chunk`: points per Jacobian chunk, default by memory.
    """

    coefficients: bool = eqx.field(static=True, default=False)
    rcond: Float[Array, ""] | None = eqx.field(
        default=None, converter=as_number_or_none
    )
    chunk: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
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
        return basis_from_rows(reference_rows(rows, pool, None, key=key), self.rcond)

    def spectrum(
        self,
        space: AugmentedSpace,
        model: Model,
        points: tuple[Block, ...],
        basis: Basis,
    ) -> NTKSpectrum:
        rows = Rows(space, model, self.coefficients, self.chunk)
        return spectrum_from_basis(rows, points, basis)
