"""The records that travel between the parts. Nothing here computes."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32


class Points(eqx.Module):
    """A fixed-length array of augmented points z = (x, kind).

    Rows with `mask == False` are padding: they are never trained on, never scored and
    never chosen.

    **Attributes:**

    - `x`: coordinates, shape `(n, d)`, in the units of the domain.
    - `kind`: index of the component that each row belongs to, shape `(n,)`.
    - `mask`: which rows are points at all, shape `(n,)`.
    - `label`: what was measured at the point, shape `(n, m)`; only rows whose
      component has no target of its own (experimental points) look at it.
    - `weight`: importance weight of the row in the loss, shape `(n,)`; 1 unless the
      selector offers importance weights.
    """

    x: Float[Array, "n d"]
    kind: Int32[Array, " n"]
    mask: Bool[Array, " n"]
    label: Float[Array, "n m"]
    weight: Float[Array, " n"]

    def __init__(self, x, kind, mask=None, label=None, weight=None):
        self.x = jnp.asarray(x)
        n = self.x.shape[0]
        self.kind = jnp.broadcast_to(jnp.asarray(kind, jnp.int32), (n,))
        self.mask = jnp.ones(n, bool) if mask is None else mask
        self.label = jnp.zeros((n, 1), self.x.dtype) if label is None else label
        self.weight = jnp.ones(n, self.x.dtype) if weight is None else weight

    @property
    def size(self) -> int:
        """Number of rows, padding included."""
        return self.x.shape[0]


class NTKSpectrum(eqx.Module):
    """Leading eigenpairs of the empirical NTK, the eigenfunctions evaluated on a pool.

    Θ(z, z') ≈ Σ_i λ_i ψ_i(z) ψ_i(z')ᵀ, with ψ_i(z) one number per residual row of z.
    Padded rows are zero.
    """

    eigenvalues: Float[Array, " r"]
    eigenfunctions: Float[Array, "n m r"]


class PoolInfo(eqx.Module):
    """What a convergence criterion may look at. All fields are in pool order.

    **Attributes:**

    - `kind`: component index of each candidate, shape `(n,)`.
    - `mask`: which rows are candidates at all, shape `(n,)`.
    - `x`: coordinates of each candidate, shape `(n, d)`.
    - `residual`: weighted residual rows √w·R(z), shape `(n, m)`, zero-padded to the
      largest number of rows m of any kind.
    - `gradient_norm`: ‖J(z)ᵀR(z)‖, the norm of the gradient of ½‖R(z)‖², shape `(n,)`.
    - `spectrum`: eigenpairs of the NTK on the pool: `eigenvalues` of shape `(r,)`,
      `eigenfunctions` of shape `(n, m, r)`.
    - `population`: the candidates, where these rows are not the candidates themselves
      but rows of the old training set, which are embedded beside them.

    Fields that a criterion does not touch cost nothing under `jax.jit`.
    """

    kind: Int32[Array, " n"]
    mask: Bool[Array, " n"]
    x: Float[Array, "n d"]
    residual: Float[Array, "n m"]
    gradient_norm: Float[Array, " n"]
    spectrum: NTKSpectrum
    population: "PoolInfo | None" = None

    @property
    def pool(self) -> "PoolInfo":
        """The candidates: what averages and sums go over, these rows or others."""
        return self if self.population is None else self.population


class Candidates(eqx.Module):
    """What a selector may look at.

    **Attributes:**

    - `embedding`: φ(z) of each candidate, shape `(n, q)`; the score of a candidate is
      ‖φ(z)‖², of a set ‖Σφ‖².
    - `kind`, `group`: component index and budget group of each candidate; all
      candidates of a kind are in one group.
    - `available`: which rows may be chosen.
    - `quota`: how many points to choose in each group.
    - `minimum`: how many points of each kind must be among them at least.
    - `retained_embedding`, `retained_mask`, `retained_kind`: embedding and component
      index of the rows kept from the previous round, for selectors that want to stay
      away from them or to count them.
    """

    embedding: Float[Array, "n q"]
    kind: Int32[Array, " n"]
    group: Int32[Array, " n"]
    available: Bool[Array, " n"]
    quota: Int32[Array, " groups"]
    minimum: Int32[Array, " kinds"]
    retained_embedding: Float[Array, "b q"]
    retained_mask: Bool[Array, " b"]
    retained_kind: Int32[Array, " b"]


class Selection(eqx.Module):
    """Which candidates were chosen.

    **Attributes:**

    - `index`: distinct rows of the pool where `mask` holds, anything elsewhere.
    - `mask`: which entries of `index` count, shape `(k,)`.
    - `weight`: importance weight of each chosen row, 1 unless the selector offers it.
    """

    index: Int32[Array, " k"]
    mask: Bool[Array, " k"]
    weight: Float[Array, " k"]
