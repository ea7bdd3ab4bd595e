"""Drawn spectra, residuals, candidates and training sets.

`draw_*` makes one from a numpy generator; the functions of the plural name are
hypothesis strategies. Shapes are fixed and only values are drawn, because a drawn
shape would be a new compilation.
"""

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from .._retention import TrainingSetInfo
from .._types import Candidates, NTKSpectrum, PoolInfo


if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def _float(values) -> jnp.ndarray:
    return jnp.asarray(values, jnp.result_type(float))


def draw_pool_info(
    rng: np.random.Generator,
    *,
    scale: float = 1.0,
    decay: float = 1.0,
    zeros: int = 0,
    padding: int = 4,
    kinds: int = 3,
) -> PoolInfo:
    """24 candidates with 2 residual rows and 6 eigenpairs, two of them degenerate.

    The eigenfunctions are orthonormal over the live rows.

    **Arguments:**

    - `rng`: where the numbers come from.
    - `scale`: typical size of a residual.
    - `decay`: decades from one eigenvalue to the next.
    - `zeros`: how many live candidates have residual exactly 0.
    - `padding`: how many rows are padding.
    - `kinds`: number of kinds, at least one candidate each.
    """
    n, m, r = 24, 2, 6
    live = rng.permutation(n) >= padding
    kind = rng.permutation(np.arange(n) % kinds)
    residual = scale * rng.normal(size=(n, m))
    residual[rng.choice(np.flatnonzero(live), zeros, replace=False)] = 0
    residual[~live] = 0
    basis, _ = np.linalg.qr(rng.normal(size=(live.sum() * m, r)))
    eigenfunctions = np.zeros((n, m, r))
    eigenfunctions[live] = basis.reshape(-1, m, r)
    # The second to fourth eigenvalue are one eigenspace.
    eigenvalues = 10.0 ** -(decay * np.array([0, 1, 1, 1, 2, 3]))
    norm = np.sqrt(np.sum(residual**2, axis=1)) * rng.uniform(0.5, 2, size=n)
    return PoolInfo(
        kind=jnp.asarray(kind, jnp.int32),
        mask=jnp.asarray(live),
        x=_float(np.round(rng.random((n, 2)), 1)),  # some at the same time
        residual=_float(residual),
        gradient_norm=_float(norm),
        spectrum=NTKSpectrum(_float(eigenvalues), _float(eigenfunctions)),
    )


def draw_candidates(
    rng: np.random.Generator,
    *,
    quota: tuple[int, int] = (8, 3),
    minimum: tuple[int, int, int, int] = (1, 1, 1, 1),
    decades: float = 1.0,
    spoilt: int = 3,
    unavailable: int = 8,
) -> Candidates:
    """40 candidates of 4 kinds in 2 groups, with an embedding of 3 columns.

    Kind 3 is group 1, the others are group 0.

    **Arguments:**

    - `rng`: where the numbers come from.
    - `quota`, `minimum`: how many to choose by group and, at least, by kind.
    - `decades`: spread of the norms, in powers of ten.
    - `spoilt`: how many rows of the embedding are not finite.
    - `unavailable`: how many rows may not be chosen.
    """
    n, q, b = 40, 3, 6
    kind = rng.permutation(np.repeat(np.arange(4), [20, 6, 4, 10]))
    embedding = rng.normal(size=(n, q)) * 10 ** rng.uniform(-decades, 0, size=(n, 1))
    bad = rng.choice(n, spoilt, replace=False)
    embedding[bad, rng.integers(q, size=spoilt)] = rng.choice([np.nan, np.inf], spoilt)
    return Candidates(
        embedding=_float(embedding),
        kind=jnp.asarray(kind, jnp.int32),
        group=jnp.asarray(kind == 3, jnp.int32),
        available=jnp.asarray(rng.permutation(n) >= unavailable),
        quota=jnp.asarray(quota, jnp.int32),
        minimum=jnp.asarray(minimum, jnp.int32),
        retained_embedding=_float(rng.normal(size=(b, q))),
        retained_mask=jnp.asarray(rng.permutation(b) < 4),
        retained_kind=jnp.asarray(rng.integers(3, size=b), jnp.int32),
    )


def draw_training_set(
    rng: np.random.Generator, *, live: int = 14, kinds: int = 3
) -> TrainingSetInfo:
    """20 rows of a training set, `live` of them points, the others padding."""
    b = 20
    return TrainingSetInfo(
        mask=jnp.asarray(rng.permutation(b) < live),
        kind=jnp.asarray(rng.integers(kinds, size=b), jnp.int32),
        score=_float(rng.exponential(size=b)),
    )


def pool_infos(kinds: int = 3) -> "SearchStrategy[PoolInfo]":
    """Hypothesis strategy of what a criterion looks at; see `draw_pool_info`."""
    from hypothesis import strategies as st

    return st.builds(
        lambda seed, exponent, decay, zeros, padding: draw_pool_info(
            np.random.default_rng(seed),
            scale=10.0**exponent,
            decay=decay,
            zeros=zeros,
            padding=padding,
            kinds=kinds,
        ),
        st.integers(0, 2**32 - 1),
        st.integers(-6, 4),
        st.floats(0, 2),
        st.integers(0, 8),
        st.integers(0, 12),
    )


def candidates() -> "SearchStrategy[Candidates]":
    """Hypothesis strategy of what a selector looks at; see `draw_candidates`."""
    from hypothesis import strategies as st

    count = st.integers(0, 12)
    return st.builds(
        lambda seed, quota, minimum, decades, spoilt, unavailable: draw_candidates(
            np.random.default_rng(seed),
            quota=quota,
            minimum=minimum,
            decades=decades,
            spoilt=spoilt,
            unavailable=unavailable,
        ),
        st.integers(0, 2**32 - 1),
        st.tuples(count, st.integers(0, 4)),
        st.tuples(*[st.integers(0, 5)] * 4),
        st.floats(0, 18),
        st.integers(0, 40),
        st.integers(0, 40),
    )


def training_sets(kinds: int = 3) -> "SearchStrategy[TrainingSetInfo]":
    """Hypothesis strategy of what a retention policy looks at."""
    from hypothesis import strategies as st

    return st.builds(
        lambda seed, live: draw_training_set(
            np.random.default_rng(seed), live=live, kinds=kinds
        ),
        st.integers(0, 2**32 - 1),
        st.integers(0, 20),
    )
