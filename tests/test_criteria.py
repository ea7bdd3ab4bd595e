"""Convergence criteria: the laws, and each formula against its definition."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from pinnacle._criterion import (
    AbstractConvergenceCriterion,
    ByKind,
    Causal,
    Constant,
    ConvergenceDegree,
    GradientNorm,
    MixedWithUniform,
    Pointwise,
    ResidualPower,
    Tempered,
    _rows,
)
from pinnacle._selector import Sampling
from pinnacle._types import Candidates, NTKSpectrum, PoolInfo
from pinnacle.testing import check_criterion, draw_pool_info, pool_infos


# name: (criterion, whether α(cR) = c²α(R))
CRITERIA = {
    "convergence": lambda: (ConvergenceDegree(), True),
    "gradient": lambda: (GradientNorm(), True),
    "rad": lambda: (ResidualPower(), False),
    "rad-offset": lambda: (ResidualPower(power=1.0, offset=1.0), False),
    "constant": lambda: (Constant(), False),
    "pointwise": lambda: (Pointwise(ConvergenceDegree()), True),
    "tempered": lambda: (Tempered(ConvergenceDegree(), 2.0), True),
    "causal": lambda: (Causal(GradientNorm(), axis=0, strength=0.1), False),
    "mixed": lambda: (MixedWithUniform(GradientNorm(), 0.2), False),
    "by-kind": lambda: (
        ByKind((ResidualPower(), Constant(), ConvergenceDegree())),
        False,
    ),
}


@pytest.mark.parametrize("name", CRITERIA)
def test_laws(name):
    criterion, homogeneous = CRITERIA[name]()
    check_criterion(criterion, homogeneous=homogeneous)


def test_laws_in_float64(x64):
    check_criterion(ConvergenceDegree(), homogeneous=True)
    check_criterion(ResidualPower(offset=0.5))


@pytest.mark.parametrize("chunk", [7, 8])  # of 24 candidates
@pytest.mark.parametrize("rows", [1, 2])
def test_many_candidates_are_embedded_chunk_by_chunk(chunk, rows, monkeypatch):
    info = draw_pool_info(np.random.default_rng(0))
    info = eqx.tree_at(
        lambda i: (i.residual, i.spectrum.eigenfunctions),
        info,
        (info.residual[:, :rows], info.spectrum.eigenfunctions[:, :rows]),
    )
    whole = ConvergenceDegree()(info)
    monkeypatch.setattr(_rows, "_CHUNK", chunk)
    np.testing.assert_allclose(ConvergenceDegree()(info), whole, rtol=1e-6, atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(pool_infos())
def test_laws_on_drawn_spectra(info):
    check_criterion(ConvergenceDegree(), info, homogeneous=True)


@eqx.filter_jit
def _embed(criterion, info):
    return criterion(info)


def test_convergence_degree_is_the_quadratic_form_of_the_kernel(both_precisions):
    rng = np.random.default_rng(0)
    info = draw_pool_info(rng)
    embedding = np.asarray(_embed(ConvergenceDegree(), info))
    residual = np.asarray(info.residual)
    psi = np.asarray(info.spectrum.eigenfunctions)
    kernel = np.einsum(
        "r,amr,bkr->ambk", np.asarray(info.spectrum.eigenvalues), psi, psi
    )
    for size in (1, 2, 7, 24):
        z = rng.choice(24, size, replace=False)
        quadratic = np.einsum(
            "am,ambk,bk->",
            residual[z],
            kernel[z][:, :, z],
            residual[z],
        )
        score = np.sum(np.sum(embedding[z], axis=0) ** 2)
        np.testing.assert_allclose(
            score, quadratic, rtol=1e-11 if both_precisions else 2e-4, atol=1e-7
        )


def test_slightly_negative_eigenvalues_count_as_zero():
    info = draw_pool_info(np.random.default_rng(0))
    values = info.spectrum.eigenvalues.at[-1].set(-1e-9)
    spectrum = NTKSpectrum(values, info.spectrum.eigenfunctions)
    embedding = _embed(
        ConvergenceDegree(), dataclasses.replace(info, spectrum=spectrum)
    )
    assert np.all(np.asarray(embedding)[:, -1] == 0)


@pytest.mark.parametrize(("power", "offset"), [(2.0, 0.0), (1.0, 1.0), (0.5, 0.2)])
def test_rad_is_the_published_density(power, offset):
    info = draw_pool_info(np.random.default_rng(1), padding=7, zeros=2)
    score = np.asarray(_embed(ResidualPower(power, offset), info))[:, 0] ** 2
    size = np.linalg.norm(np.asarray(info.residual, np.float64), axis=1) ** power
    live = np.asarray(info.mask)
    expected = size / size[live].mean() + offset
    np.testing.assert_allclose(score[live], expected[live], rtol=1e-5)


def _residual_info(residual) -> PoolInfo:
    residual = jnp.asarray(residual)
    n, m = residual.shape
    return PoolInfo(
        kind=jnp.zeros(n, jnp.int32),
        mask=jnp.ones(n, bool),
        x=jnp.zeros((n, 1), residual.dtype),
        residual=residual,
        gradient_norm=jnp.zeros(n, residual.dtype),
        spectrum=NTKSpectrum(
            jnp.zeros(1, residual.dtype), jnp.zeros((n, m, 1), residual.dtype)
        ),
    )


def test_rad_keeps_a_wide_range_of_residuals_apart():
    # 26 decades: the squares span 1e-40 to 1e10 and do not fit into float32.
    size = np.logspace(-20, 5, 60)
    residual = np.stack([size * 0.6, size * 0.8], axis=1).astype(np.float32)
    embedding = _embed(ResidualPower(), _residual_info(residual))
    root = np.asarray(embedding, np.float64)[:, 0]
    assert np.isfinite(root).all()
    density = root**2 / np.sum(root**2)
    np.testing.assert_allclose(density, size**2 / np.sum(size**2), rtol=1e-5)

    data = Candidates(
        embedding=embedding,
        kind=jnp.zeros(60, jnp.int32),
        group=jnp.zeros(60, jnp.int32),
        available=jnp.ones(60, bool),
        quota=jnp.asarray([40], jnp.int32),
        minimum=jnp.zeros(1, jnp.int32),
        retained_embedding=jnp.zeros((1, 1)),
        retained_mask=jnp.zeros(1, bool),
        retained_kind=jnp.zeros(1, jnp.int32),
    )
    sampling = Sampling(importance=True)
    chosen = eqx.filter_jit(sampling)(data, 40, key=jax.random.key(0))
    assert np.asarray(chosen.mask).all()
    assert len(set(np.asarray(chosen.index).tolist())) == 40
    assert np.isfinite(np.asarray(chosen.weight)).all()
    # Scores a hundred or more apart leave no doubt about the order by far.
    assert set(range(35, 60)) <= set(np.asarray(chosen.index).tolist())


def test_rad_of_no_residual_at_all_is_uniform():
    zero = _residual_info(np.zeros((5, 2), np.float32))
    assert np.all(np.asarray(_embed(ResidualPower(), zero)) == 0)
    assert np.all(np.asarray(_embed(ResidualPower(2.0, 4.0), zero)) == 2)


def test_rad_does_not_look_at_padding_however_large():
    info = _residual_info(np.array([[1e-15], [2e-15], [1e25]], np.float32))
    info = dataclasses.replace(info, mask=jnp.asarray([True, True, False]))
    score = np.asarray(_embed(ResidualPower(), info))[:2, 0] ** 2
    np.testing.assert_allclose(score, [1 / 2.5, 4 / 2.5], rtol=1e-5)


def test_tempering_takes_a_root_of_the_score_and_keeps_the_direction():
    info = draw_pool_info(np.random.default_rng(2), padding=0)
    plain = np.asarray(_embed(ConvergenceDegree(), info), np.float64)
    score = np.sum(plain**2, axis=1)
    for temperature in (0.5, 1.0, 3.0):
        tempered = Tempered(ConvergenceDegree(), temperature)
        phi = np.asarray(_embed(tempered, info), np.float64)
        expected = score.max() * (score / score.max()) ** (1 / temperature)
        np.testing.assert_allclose(np.sum(phi**2, axis=1), expected, rtol=1e-4)
        cosine = np.sum(phi * plain, axis=1) / np.sqrt(expected * score)
        np.testing.assert_allclose(cosine, 1, rtol=1e-4)


def test_pointwise_forgets_the_direction_only():
    info = draw_pool_info(np.random.default_rng(3))
    plain = np.asarray(_embed(ConvergenceDegree(), info))
    phi = np.asarray(_embed(Pointwise(ConvergenceDegree()), info))
    assert phi.shape == (24, 1)
    np.testing.assert_allclose(phi[:, 0] ** 2, np.sum(plain**2, axis=1), rtol=1e-5)


def test_by_kind_takes_means_over_one_kind():
    info = draw_pool_info(np.random.default_rng(4))
    phi = np.asarray(
        _embed(ByKind((ResidualPower(), ResidualPower(), Constant())), info)
    )
    kind, live = np.asarray(info.kind), np.asarray(info.mask)
    size = np.sum(np.asarray(info.residual) ** 2, axis=1)
    for k in (0, 1):
        own = live & (kind == k)
        np.testing.assert_allclose(phi[own, k] ** 2, size[own] / size[own].mean(), 1e-5)
    assert np.all(phi[live & (kind == 2), 2] == 1)
    # Each kind has its own column.
    for k in range(3):
        assert np.all(phi[kind != k, k] == 0)


@pytest.mark.parametrize(
    ("criterion", "pays"),
    [
        (ConvergenceDegree, True),
        (ResidualPower, False),
        (GradientNorm, False),
        (Constant, False),
    ],
)
def test_only_the_convergence_degree_pays_for_the_kernel(criterion, pays):
    n, p = 32, 200

    def embed(jacobian, residual):
        functions = (jacobian @ (jacobian.T @ jacobian)).reshape(n, 1, p)
        spectrum = NTKSpectrum(jnp.ones(p), functions)
        info = dataclasses.replace(_residual_info(residual), spectrum=spectrum)
        return criterion()(info)

    arguments = jnp.ones((n, p)), jnp.ones((n, 1))
    cost = jax.jit(embed).lower(*arguments).compile().cost_analysis() or {}
    assert (cost.get("flops", 0) > n * p * p) == pays


@pytest.mark.parametrize("axis", [0, -1])
def test_causal_scores_against_the_sum_over_earlier_points(axis, x64):
    # 24 candidates of 3 kinds, several of them at the same time.
    info = draw_pool_info(np.random.default_rng(3), scale=2.0)
    counted = np.random.default_rng(4).random(24) < 0.7
    pool = dataclasses.replace(info, mask=info.mask & counted)
    info = dataclasses.replace(info, population=pool)
    time, kind = np.asarray(info.x)[:, axis], np.asarray(info.kind)
    square = np.sum(np.asarray(info.residual) ** 2, axis=1)
    counted &= np.asarray(info.mask)
    before = np.zeros(24)
    for i in range(24):
        of_kind = counted & (kind == kind[i])
        earlier = of_kind & (time < time[i])
        before[i] = np.sum(square[earlier]) / np.sum(of_kind)
    assert len(set(time)) < 15
    assert before.max() > 1
    embedding = Causal(ConvergenceDegree(), axis, 3.0)(info)
    wanted = np.asarray(ConvergenceDegree()(info)) * np.exp(-1.5 * before)[:, None]
    live = np.asarray(info.mask)
    np.testing.assert_allclose(np.asarray(embedding)[live], wanted[live], rtol=1e-12)


def test_causal_follows_the_front_and_loses_no_candidate():
    n = 200
    time = np.random.default_rng(0).random(n)
    residual = np.where(time < 0.3, 0, 5.0)[:, None]  # solved up to 0.3
    info = _residual_info(jnp.asarray(residual, jnp.float32))
    info = dataclasses.replace(info, x=jnp.asarray(time[:, None], jnp.float32))
    for size in (1, 1e15, 1e30):  # ε L up to 60, and far beyond it
        large = dataclasses.replace(info, residual=info.residual * size)
        score = np.asarray(Causal(Constant(), strength=1e3)(large)[:, 0]) ** 2
        assert np.all(score[time < 0.3] == 1)
        assert np.all(score > 0)
        assert np.all(np.diff(score[np.argsort(time)]) <= 0)
        assert np.sum(score[time > 0.3]) < 0.1 * np.sum(score)
        assert score.min() == pytest.approx(np.exp(-60), rel=1e-3)
    everywhere = Causal(Constant(), strength=0)(info)
    np.testing.assert_array_equal(everywhere, Constant()(info))


def test_causal_needs_a_coordinate():
    info = draw_pool_info(np.random.default_rng(5))
    with pytest.raises(ValueError, match="`axis` is 2: the points have 2 coordinates"):
        Causal(Constant(), axis=2)(info)


def test_new_numbers_do_not_recompile():
    info = draw_pool_info(np.random.default_rng(5))
    embed = eqx.filter_jit(eqx.debug.assert_max_traces(lambda c, i: c(i), max_traces=1))
    for power, offset in [(2.0, 0.0), (1, 1), (np.float32(0.5), jnp.asarray(2))]:
        embed(ResidualPower(power, offset), info)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ResidualPower(power=-1.0), ["`power`", "-1"]),
        (lambda: ResidualPower(offset=-0.5), ["`offset`", "-0.5"]),
        (lambda: ResidualPower(power=float("nan")), ["`power`", "nan"]),
        (lambda: Tempered(Constant(), 0.0), ["`temperature`", "0.0"]),
        (lambda: MixedWithUniform(Constant(), 1.5), ["`uniform`", "1.5"]),
        (lambda: ByKind(()), ["`criteria`", "Constant()"]),
        (lambda: Causal(Constant(), strength=-1.0), ["`strength`", "-1.0"]),
    ],
)
def test_bad_numbers(make, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        make()
    for word in words:
        assert word in str(error.value)


class MeanOverPadding(AbstractConvergenceCriterion):
    def __call__(self, info):
        size = jnp.linalg.norm(info.residual, axis=1, keepdims=True)
        return size / jnp.mean(size)


class FirstEigenfunctionOnly(AbstractConvergenceCriterion):
    def __call__(self, info):
        return jnp.abs(info.spectrum.eigenfunctions[:, 0, 1:2])


class SignMatters(AbstractConvergenceCriterion):
    def __call__(self, info):
        a = jnp.einsum("nmr,nm->nr", info.spectrum.eigenfunctions, info.residual)
        return jnp.sum(a, axis=1, keepdims=True)


class OrderMatters(AbstractConvergenceCriterion):
    def __call__(self, info):
        live = info.mask[:, None] & jnp.isfinite(info.residual)
        return jnp.cumsum(jnp.where(live, info.residual, 0), axis=0)


class OneNumber(AbstractConvergenceCriterion):
    def __call__(self, info):
        return info.gradient_norm


class SquareOfTheResidual(AbstractConvergenceCriterion):
    def __call__(self, info):
        return jnp.sum(jnp.square(info.residual), axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("criterion", "words"),
    [
        (MeanOverPadding(), "padded rows"),
        (FirstEigenfunctionOnly(), "degenerate eigenspace"),
        (SignMatters(), "changes sign"),
        (OrderMatters(), "order of the candidates"),
        (OneNumber(), "shape"),
        (SquareOfTheResidual(), "c²α"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_the_laws_catch_what_is_wrong(criterion, words):
    with pytest.raises(AssertionError, match=words):
        check_criterion(criterion, homogeneous=True)
