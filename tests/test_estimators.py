"""NTK estimators: the laws of all, and the identities against dense definitions."""

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from pinnacle import (
    PDE,
    AbstractNTKEstimator,
    AugmentedSpace,
    Box,
    CandidatePool,
    Component,
    Constant,
    ConvergenceDegree,
    Dirichlet,
    Exact,
    GradientNorm,
    KeepNone,
    Model,
    NoCross,
    Nystrom,
    Points,
    PoolInfo,
    ResidualPower,
    Sampling,
    SelectionPipeline,
    Sketch,
    Uniform,
    derivatives,
    nn,
)
from pinnacle._ntk.basis import basis_from_rows, reference_rows, spread
from pinnacle._ntk.jacobian import Rows
from pinnacle._pipeline import _select
from pinnacle.testing import check_estimator, draw_estimator_case
from pinnacle.testing._estimator import dense_jacobian


ESTIMATORS = {
    "exact": (Exact(), {"exact": True}),
    "exact with coefficients": (Exact(coefficients=True), {"exact": True}),
    "nystrom of the whole pool": (Nystrom(100), {"exact": True}),
    "nystrom of 6 points": (Nystrom(6), {"projection": True}),
    "sketch": (Sketch(16), {"unbiased": True}),
    "no cross": (NoCross(Exact()), {"exact": True, "cross": False}),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_laws(name):
    estimator, laws = ESTIMATORS[name]
    check_estimator(estimator, **laws)


def test_laws_in_float64(x64):
    check_estimator(Exact(), exact=True)


class Unscaled(AbstractNTKEstimator):
    """A wrong estimator: eigenvalues that are not divided by the number of rows."""

    inner: Exact = Exact()

    def basis(self, space, model, pool, *, key):
        return self.inner.basis(space, model, pool, key=key)

    def spectrum(self, space, model, points, basis):
        s = self.inner.spectrum(space, model, points, basis)
        rows = sum(block.size for block in points) * space.rows
        return eqx.tree_at(lambda s: s.eigenvalues, s, s.eigenvalues * rows)


def test_a_wrong_estimator_is_found():
    with pytest.raises(AssertionError, match="times that of JJᵀ"):
        check_estimator(Unscaled())
    with pytest.raises(AssertionError, match="differs from JJᵀ"):
        check_estimator(NoCross(Exact()), exact=True)
    with pytest.raises(AssertionError, match="α̂ exceeds α"):
        check_estimator(Sketch(16), projection=True)


# The identities of α, J and g on one small case, in float64, by numpy.


@pytest.fixture(scope="module")
def small():
    with jax.enable_x64(True):
        case = draw_estimator_case(3)
        space, model, pool, _ = case
        key, estimator = jax.random.key(1), Nystrom(7)
        rows = Rows(space, model, coefficients=False, chunk=None)

        @eqx.filter_jit
        def look():
            basis = estimator.basis(space, model, pool, key=key)
            joined = space.join(pool)
            info = PoolInfo(
                kind=joined.kind,
                mask=joined.mask,
                x=joined.x,
                residual=space.stack(space.residual(model, pool)),
                gradient_norm=rows.gradient_norm(pool),
                spectrum=estimator.spectrum(space, model, pool, basis),
            )
            reference = reference_rows(rows, pool, 7, key=key)
            return info, ConvergenceDegree()(info), reference

        info, embedding, reference = look()
        J = np.asarray(dense_jacobian(space, model, pool))
        yield info, np.asarray(embedding), np.asarray(reference), J


def test_alpha_is_a_squared_gradient(small):
    """α(Z) = R(Z)ᵀΘ(Z)R(Z) = ‖Σ g(z)‖²; of one point ‖J(z)ᵀR(z)‖²."""
    info, _, _, J = small
    n, m = info.residual.shape
    R = np.asarray(info.residual)
    g = np.einsum("nmp,nm->np", J.reshape(n, m, -1), R)
    np.testing.assert_allclose(info.gradient_norm, np.linalg.norm(g, axis=1), rtol=1e-9)
    rng = np.random.default_rng(0)
    for subset in rng.random((5, n)) < 0.4:
        r = (R * subset[:, None]).reshape(-1)
        alpha = r @ (J @ J.T) @ r
        np.testing.assert_allclose(np.sum(g[subset].sum(0) ** 2), alpha, rtol=1e-9)


def test_nystrom_is_a_projection_of_the_gradient(small):
    """α̂(Z) = ‖ΠG(Z)‖², Π onto the row space of J_ref; 0 ≤ α̂ ≤ α."""
    info, embedding, reference, J = small
    n, m = info.residual.shape
    R = np.asarray(info.residual)
    g = np.einsum("nmp,nm->np", J.reshape(n, m, -1), R)
    W = np.linalg.svd(reference, full_matrices=False)[2]
    W = W[: np.linalg.matrix_rank(reference)]
    projected = g @ W.T
    gram = embedding @ embedding.T
    np.testing.assert_allclose(gram, projected @ projected.T, atol=1e-8)
    for subset in np.random.default_rng(0).random((5, n)) < 0.4:
        score = np.sum(embedding[subset].sum(0) ** 2)
        assert 0 <= score <= np.sum(g[subset].sum(0) ** 2) * (1 + 1e-9)


def test_embedding_is_the_paper_s(small):
    """e(z)_i = λ̃_i^{-1/2} ṽ_iᵀΘ(ref, z)R(z), up to the sign of ṽ_i."""
    info, embedding, reference, J = small
    values, vectors = np.linalg.eigh(reference @ reference.T)
    kept = values > 1e-12 * values[-1]
    values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
    n, m = info.residual.shape
    cross = (reference @ J.T).reshape(-1, n, m)
    e = np.einsum("rp,pnm,nm->nr", vectors.T, cross, np.asarray(info.residual))
    e = e / np.sqrt(values)
    signs = np.sign(np.sum(e * embedding[:, : e.shape[1]], axis=0))
    np.testing.assert_allclose(embedding[:, : e.shape[1]], e * signs, atol=1e-7)
    found = info.spectrum.eigenvalues[: e.shape[1]]
    np.testing.assert_allclose(found, values / len(reference), rtol=1e-8)


def test_alpha_grows_with_the_reference_rows(small, x64):
    info, _, reference, J = small
    r = np.asarray(info.residual).reshape(-1)
    gradient, scores = J.T @ r, []
    for p in range(1, len(reference), 3):
        basis = basis_from_rows(jnp.asarray(reference[:p]), None)
        scores.append(float(jnp.sum((basis.directions.T @ gradient) ** 2)))
    assert (np.diff(scores) >= -1e-10 * scores[-1]).all()
    assert scores[-1] <= np.sum(gradient**2) * (1 + 1e-10)


def test_small_singular_values_are_cut_relative_to_the_largest(x64):
    J = jnp.asarray(np.diag([3.0, 1e-3, 1e-9, 0.0]) @ np.eye(4, 6)) * 1e-6
    counts = [
        int(jnp.sum(basis_from_rows(J, r).eigenvalues > 0))
        for r in (None, jnp.asarray(1e-6), jnp.asarray(1e-2))
    ]
    assert counts == [3, 2, 1]


@pytest.mark.parametrize("shape", [(5, 12), (12, 5)], ids=["wide", "tall"])
def test_directions_diagonalise_the_gram_matrix(shape, x64):
    """WᵀW = 𝟙 and WᵀJᵀJW = pΛ̂ on the kept directions, here those of a rank of 3."""
    rng = np.random.default_rng(0)
    J = rng.normal(size=(shape[0], 3)) @ rng.normal(size=(3, shape[1]))
    basis = basis_from_rows(jnp.asarray(J), None)
    squares = np.zeros(5)
    squares[:3] = np.linalg.svd(J, compute_uv=False)[:3] ** 2
    np.testing.assert_allclose(shape[0] * basis.eigenvalues, squares, rtol=1e-10)
    W = np.asarray(basis.directions)
    np.testing.assert_allclose(W.T @ W, np.diag(np.sign(squares)), atol=1e-12)
    np.testing.assert_allclose(W.T @ J.T @ J @ W, np.diag(squares), atol=1e-10)


def test_jacobian_against_finite_differences(x64):
    space, model, pool, _ = draw_estimator_case(2)
    rows = Rows(space, model, coefficients=True, chunk=None)
    flat, unravel = jax.flatten_util.ravel_pytree(rows.parameters)

    @eqx.filter_jit
    def residual(p):
        here = eqx.combine(unravel(p), rows.rest)
        return [R.reshape(-1) for R in space.residual(here, pool)]

    J = eqx.filter_jit(lambda: [rows.jacobian(k, b) for k, b in enumerate(pool)])()
    h = 1e-6
    for i in range(0, flat.size, 11):
        e = jnp.zeros_like(flat).at[i].set(h)
        for kind, (up, down) in enumerate(
            zip(residual(flat + e), residual(flat - e), strict=True)
        ):
            slope = (up - down) / (2 * h)
            np.testing.assert_allclose(J[kind][..., i].reshape(-1), slope, atol=1e-8)


def test_coefficients_add_a_column(x64):
    """∂(√w(u_t + c u_x − f))/∂c = √w u_x, the last column of J."""
    space, model, pool, _ = draw_estimator_case(2)
    with_, without = (
        eqx.filter_jit(Rows(space, model, c, None).jacobian)(0, pool[0])
        for c in (True, False)
    )
    assert with_.shape[2] == without.shape[2] + 1
    np.testing.assert_allclose(with_[..., :-1], without, rtol=1e-12)
    u_x = jax.vmap(jax.grad(lambda x: model(x)[0]))(pool[0].x)[:, 0]
    expected = np.sqrt(2.0) * np.asarray(u_x) * np.asarray(pool[0].mask)
    np.testing.assert_allclose(with_[:, 0, -1], expected, rtol=1e-10)


def test_weight_is_a_square_root_on_the_rows(x64):
    space, model, pool, _ = draw_estimator_case(2)
    heavy = eqx.tree_at(
        lambda s: s.components[2].weight, space, jnp.asarray([0.5, 9.0])
    )

    @eqx.filter_jit
    def look(space):
        J = Rows(space, model, False, None).jacobian(2, pool[2])
        return J, space.residual(model, pool)[2]

    J, R = map(np.asarray, look(space))
    J9, R9 = look(heavy)
    np.testing.assert_allclose(J9, J * np.array([1.0, 3.0])[:, None], rtol=1e-12)
    np.testing.assert_allclose(R9, R * np.array([1.0, 3.0]), rtol=1e-12)


def square(width, depth, operator=None):
    """Poisson-like rows and a boundary kind on the unit square."""
    domain = Box((0, 0), (1, 1))

    def laplace(u, x):
        return jnp.trace(jax.hessian(lambda p: u(p)[0])(x)) - 1.0

    space = AugmentedSpace(
        [
            Component("pde", domain, PDE(laplace if operator is None else operator)),
            Component("bc", domain.boundary(), Dirichlet()),
        ]
    )
    return space, Model(nn.MLP(2, 1, width, depth, key=jax.random.key(0)))


@eqx.filter_jit
def drawn(space, sizes, dtype):
    pool = CandidatePool(sizes, Uniform(), everywhere=False)
    return pool.draw(space, dtype, key=jax.random.key(1))


def test_chunking_does_not_matter(both_precisions):
    """A 2000 × 300 kernel of a 2-64-64-1 network over PDE and BC points, in chunks of
    1, 7, 64 and all at once."""
    space, model = square(64, 2, lambda u, x: jax.jacfwd(u)(x)[0, 0])
    pool = drawn(space, (1500, 500), model.dtype)
    reference = tuple(b.rows(0, n) for b, n in zip(pool, (200, 100), strict=True))

    def kernel_rows(chunk):
        @eqx.filter_jit
        def compute(space, model, pool, reference):
            rows = Rows(space, model, False, chunk)
            J = [rows.jacobian(k, b)[:, 0] for k, b in enumerate(reference)]
            directions = jnp.concatenate(J).T
            return rows.project(pool, directions)[:, 0]

        return np.asarray(compute(space, model, pool, reference), np.float64)

    whole = kernel_rows(2000)
    assert whole.shape == (2000, 300)
    tolerance = 1e-10 if both_precisions else 1e-4
    for chunk in (1, 7, 64):
        gap = np.linalg.norm(kernel_rows(chunk) - whole) / np.linalg.norm(whole)
        assert gap <= tolerance
    # The kernel of the reference with itself is symmetric.
    own = np.concatenate([whole[:200], whole[1500:1600]])
    np.testing.assert_allclose(own, own.T, atol=tolerance * np.abs(own).max())


@eqx.filter_jit
def spectrum(estimator, space, model, pool):
    basis = estimator.basis(space, model, pool, key=jax.random.key(0))
    return estimator.spectrum(space, model, pool, basis)


class Linear(eqx.Module):
    w: jax.Array

    def __call__(self, x):
        return self.w @ x


def test_opposite_jacobians_do_not_cancel():
    """J = x and −x: the trace of Θ is 2‖x‖², not 0."""
    domain = Box((-1, -1), (1, 1))
    space = AugmentedSpace([Component("data", domain, Dirichlet())])
    model = Model(Linear(jnp.asarray([1.0, 2.0])))
    block, _ = drawn(square(4, 1)[0], (2, 2), model.dtype)
    x = jnp.asarray([[0.3, -0.4], [-0.3, 0.4]])
    pool = (eqx.tree_at(lambda b: b.x, block, x),)
    for estimator in (Exact(), Nystrom(1)):
        s = spectrum(estimator, space, model, pool)
        trace = jnp.sum(s.eigenvalues * jnp.sum(s.eigenfunctions**2, axis=(0, 1)))
        np.testing.assert_allclose(trace, 2 * 0.25, rtol=1e-5)


def test_a_singular_candidate_does_not_spoil_the_basis():
    # √|u_x| has no derivative where u_x = 0, as on the axis x = 0 of û = x²N.
    def residual(u, x):
        (u_x,) = derivatives(u, x, (0,))
        return jnp.sqrt(jnp.abs(u_x))

    network = nn.OutputTransform(
        nn.MLP(2, 1, 4, 1, key=jax.random.key(0)), lambda x, raw: x[0] ** 2 * raw
    )
    space = AugmentedSpace([Component("pde", Box((0, 0), (1, 1)), PDE(residual))])
    x = jnp.asarray([[0.0, 0.3], [0.5, 0.2], [0.7, 0.6]])
    block = space.split(Points(x, 0), (3,))
    s = spectrum(Nystrom(3), space, Model(network), block)
    assert s.eigenvalues[0] > 0
    assert np.isfinite(s.eigenfunctions[1:]).all()


def test_rows_of_padding_are_zero():
    space, model, (block, *_), _ = draw_estimator_case(0)
    rows = Rows(space, model, coefficients=False, chunk=None)
    J = eqx.filter_jit(rows.jacobian)(0, block)
    np.testing.assert_array_equal(np.any(np.asarray(J) != 0, axis=(1, 2)), block.mask)


def test_references_are_spread_over_the_kinds():
    assert spread(300, [800, 200, 200]) == [200, 50, 50]
    assert spread(3, [800, 1, 200]) == [1, 1, 1]
    assert spread(50, [20, 10, 0]) == [20, 10, 0]
    assert sum(spread(17, [31, 7, 5])) == 17


def numbered():
    """Two kinds with û = w·x and so J = x: the first entry of a row of J says which
    candidate it is."""
    domain = Box((0, 0), (31, 1))
    space = AugmentedSpace([Component(k, domain, Dirichlet()) for k in ("a", "b")])
    x = jnp.stack([jnp.arange(1.0, 31), jnp.arange(30.0) % 4 / 4], axis=1)
    block = space.split(Points(x, 0), (30, 0))[0]
    return space, Model(Linear(jnp.ones(2))), block


def test_references_are_drawn_afresh_from_the_live_candidates():
    space, model, block = numbered()
    rows = Rows(space, model, False, None)
    block = eqx.tree_at(lambda b: b.mask, block, jnp.arange(30) >= 10)

    @jax.jit
    def drawn(keys):
        one = lambda key: reference_rows(rows, (block, block), 20, key=key)  # noqa: E731
        return jax.vmap(one)(keys)[:, :, 0].astype(int).reshape(-1, 2, 10)

    by_kind = np.asarray(drawn(jax.random.split(jax.random.key(0), 400)))
    a, b = np.sort(by_kind, axis=2).swapaxes(0, 1)
    for number in (a, b):
        assert (np.diff(number, axis=1) > 0).all(), "distinct"
        counts = np.bincount(number.ravel(), minlength=31)
        assert not counts[:11].any(), "padding while there is something else"
        assert np.all(np.abs(counts[11:] - 200) < 5 * np.sqrt(400 / 4)), counts
    assert np.mean(np.all(a == b, axis=1)) < 0.05, "every kind draws for itself"


def test_eigenfunctions_of_a_sketch_are_orthonormal_on_the_references(x64):
    """Σ_ref ψ_i ψ_j / p = δ_ij, here with the whole pool as reference."""
    space, model, block = numbered()
    pool, estimator = (block.rows(0, 2), block.rows(4, 6)), Sketch(2)

    psi = np.asarray(spectrum(estimator, space, model, pool).eigenfunctions)[:, 0]
    np.testing.assert_allclose(psi.T @ psi / 4, np.eye(2), atol=1e-10)


@pytest.mark.parametrize("size", [0, 1.5, True])
@pytest.mark.parametrize("estimator", [Nystrom, Sketch])
def test_sizes_below_one_are_refused(estimator, size, no_type_checks):
    with pytest.raises(ValueError, match=f"is {size}: give at least one"):
        estimator(size)


@pytest.mark.parametrize("chunk", [0, -1, 1.5])
@pytest.mark.parametrize("estimator", [Exact, Nystrom, Sketch])
def test_chunks_below_one_are_refused(estimator, chunk, no_type_checks):
    with pytest.raises(ValueError, match=f"`chunk` is {chunk}: give points a chunk"):
        estimator(chunk=chunk)


@pytest.mark.parametrize("rcond", [np.nan, -0.1, 1.0])
@pytest.mark.parametrize("estimator", [Exact, Nystrom])
def test_a_cut_that_leaves_no_direction_is_refused(estimator, rcond):
    with pytest.raises(ValueError, match=f"`rcond` must be .* got {rcond}"):
        estimator(rcond=rcond)


def test_the_parameters_of_a_closure_are_hidden():
    with pytest.raises(ValueError, match="Those of a closure are hidden: make"):
        Rows(square(4, 1)[0], Model(lambda x: x[0]), coefficients=False, chunk=None)


@pytest.fixture
def optimised(quick_compile):
    """Compiled with all of XLA's optimisations."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


def cost(criterion, estimator):
    """Floating-point operations of a compiled selection round, and its program."""
    space, model = square(8, 2, lambda u, x: u(x)[0] - 1)
    pipeline = SelectionPipeline(
        space=space,
        pool=CandidatePool((200, 50), Uniform()),
        estimator=estimator,
        criterion=criterion,
        selector=Sampling(),
        retention=KeepNone(),
        budget=10,
    )
    lower = _select.lower  # pyright: ignore[reportFunctionMemberAccess]
    lowered = lower(pipeline, model, pipeline.init(), jax.random.key(0))
    analysis = lowered.compile().compiled.cost_analysis()
    return analysis["flops"], lowered.as_text()


def test_a_criterion_that_ignores_the_ntk_does_not_pay_for_it(optimised):
    """The compiled round of RAD or of a uniform method costs the same with the dearest
    estimator as with the cheapest, and knows no factorisation."""
    ntk, text = cost(ConvergenceDegree(), Exact())
    assert "lapack" in text
    flops = []
    for criterion in (Constant(), ResidualPower()):
        dear, text = cost(criterion, Exact())
        cheap, _ = cost(criterion, Sketch(1))
        assert dear <= cheap * (1 + 1e-6)
        assert dear < 0.1 * ntk
        flops.append(dear)
    constant, residual = flops
    assert cost(GradientNorm(), Exact())[0] > residual > constant
