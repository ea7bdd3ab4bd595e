"""Gauss–Newton steps against dense linear algebra, and runs with them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import pinnacle as pn
from pinnacle import nn
from pinnacle._training import linearised
from pinnacle._training.loss import residual_rows
from pinnacle._training.rows import jacobian_blocks


X, T = 0, 1


class LinearRows(eqx.Module):
    A: jax.Array
    b: jax.Array

    def __call__(self, parameters):
        return self.A @ ravel_pytree(parameters)[0] - self.b


@eqx.filter_jit
def problem(rows, parameters, *, key):
    """A and b of a least-squares problem, and a start split over two leaves."""
    keys = jr.split(key, 3)
    A = jr.normal(keys[0], (rows, parameters))
    b = jr.normal(keys[1], (rows,))
    start = jr.normal(keys[2], (parameters,))
    return A, b, {"a": start[:3].reshape(3, 1), "b": start[3:]}


def flat(parameters):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(parameters)])


@eqx.filter_jit
def step(optimiser, rows, parameters, state):
    return optimiser.step(rows, parameters, state)


def one_step(optimiser, rows, parameters):
    return step(optimiser, rows, parameters, optimiser.init(parameters))


# Functions of the module, so that spaces are equal and share compiled functions.


def diffusion(u, x):
    u0, u_t, u_xx = pn.derivatives(u, x, (), (T,), (X, X))
    return jnp.concatenate([u_t - u["nu"] * u_xx, u0 * u_t])


def initial(x):
    return jnp.sin(3 * x[X])


def side(x):
    return x[T]


def space(residual=diffusion):
    """Two rows inside, one at t = 0, one unknown coefficient."""
    domain = pn.SpaceTime(pn.Interval(0, 1), 0, 1)
    return pn.AugmentedSpace(
        [
            pn.Component("pde", domain, pn.PDE(residual, rows=2)),
            pn.Component("ic", domain.initial(), pn.Dirichlet(), initial),
            pn.Component("bc", domain.boundary(), pn.Dirichlet(), side),
        ]
    )


def model(width=6, *, key):
    return pn.Model(nn.MLP(2, 1, width, 2, key=key), {"nu": 0.3})


@eqx.filter_jit
def points(counts, *, key):
    """Uniform points with random weights."""
    kind = np.repeat(np.arange(3), counts)
    x = jr.uniform(key, (kind.size, 2))
    x = jnp.where(jnp.asarray(kind == 1)[:, None], x.at[:, T].set(0), x)
    x = jnp.where(jnp.asarray(kind == 2)[:, None], x.at[:, X].set(1), x)
    weight = jr.uniform(key, (kind.size,)) + 0.5
    return pn.Points(x, kind, jnp.ones(kind.size, bool), weight=weight)


@eqx.filter_jit
def split(where, chosen, layout):
    return where.split(chosen, layout)


def rows_of(net, layout, chosen, where=None):
    where = space() if where is None else where
    parameters, rest = net.partition()
    return pn.ResidualRows(where, rest, split(where, chosen, layout)), parameters


@pytest.mark.parametrize("whole", [1, 3, 12])
def test_the_gram_matrix_in_blocks(whole, monkeypatch):
    monkeypatch.setattr(linearised, "_WHOLE", whole)
    A = np.random.default_rng(0).integers(-9, 9, (13, 5)).astype(float)
    G = np.asarray(linearised._gram(jnp.asarray(A)))
    np.testing.assert_array_equal(G, A @ A.T)


# Linear problems: closed forms ------------------------------------------------------


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("shape", [(7, 12), (12, 7)], ids=["dual", "primal"])
def test_one_undamped_step_solves_linear_least_squares(shape):
    A, b, start = problem(*shape, key=jr.key(0))
    optimiser = pn.GaussNewton(damping=0.0, floor=0.0)
    new, _, info = one_step(optimiser, LinearRows(A, b), start)
    # The least-squares solution nearest to the start.
    nearest = flat(start) + np.linalg.lstsq(A, b - A @ flat(start))[0]
    np.testing.assert_allclose(flat(new), nearest, rtol=0, atol=1e-10)
    assert info.details["step_length"] == 1
    assert not info.refused


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("shape", [(7, 12), (12, 7)], ids=["wide", "tall"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_dual_primal_and_conjugate_gradients_take_the_same_step(shape, momentum):
    A, b, start = problem(*shape, key=jr.key(1))
    variants = [
        pn.GaussNewton(0.01, momentum=momentum, form="dual"),
        pn.GaussNewton(0.01, momentum=momentum, form="primal"),
        pn.GaussNewton(0.01, momentum=momentum, iterations=100),
    ]
    ends = []
    for optimiser in variants:
        parameters, state = start, optimiser.init(start)
        for _ in range(2):
            parameters, state, _ = step(optimiser, LinearRows(A, b), parameters, state)
        ends.append(flat(parameters))
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-10)
    # Conjugate gradients stop at a residual of √ε.
    np.testing.assert_allclose(ends[0], ends[2], rtol=0, atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_momentum_minimises_the_regularised_model():
    """d = argmin ½‖Jd − R‖² + ½μ‖d − m d₋‖², solved as one stacked system."""
    A, b, start = problem(7, 12, key=jr.key(2))
    optimiser = pn.GaussNewton(0.1, momentum=0.8)
    before = jr.normal(jr.key(3), (12,))
    state = eqx.tree_at(lambda s: s.direction, optimiser.init(start), before)
    _, state, _ = step(optimiser, LinearRows(A, b), start, state)
    mu = 0.1 * np.linalg.norm(A, 2) ** 2
    stacked = np.concatenate([A, np.sqrt(mu) * np.eye(12)])
    target = np.concatenate([A @ flat(start) - b, np.sqrt(mu) * 0.8 * before])
    expected = np.linalg.lstsq(stacked, target)[0]
    # λ_max comes from a power iteration and is a little too small.
    np.testing.assert_allclose(state.direction, expected, rtol=0.02, atol=0.01)


@pytest.mark.usefixtures("x64")
def test_condition_is_that_of_the_damped_kernel():
    A, b, start = problem(5, 12, key=jr.key(4))
    A = jnp.diag(jnp.array([1.0, 0.3, 0.1, 0.03, 0.01])) @ jnp.linalg.qr(A.T)[0].T
    _, _, info = one_step(pn.GaussNewton(1e-3), LinearRows(A, b), start)
    exact = (1 + 1e-3) / (1e-4 + 1e-3)
    np.testing.assert_allclose(info.details["condition"], exact, rtol=0.02)
    np.testing.assert_allclose(info.details["damping"], 1e-3)


def arctan(p):
    return jnp.arctan(p)


@pytest.mark.parametrize(("start", "change"), [(0.1, 1 / 3), (1.0, 1), (1.3, 3)])
def test_the_damping_follows_the_quality_of_the_linear_model(start, change):
    """One undamped step from p leads to p − (1 + p²) arctan p, where the linear model
    promises a loss of 0."""
    loss = np.arctan([start, start - (1 + start**2) * np.arctan(start)]) ** 2
    decrease = 1 - loss[1] / loss[0]
    assert change == (1 / 3 if decrease > 0.75 else 3 if 0 < decrease < 0.25 else 1)
    optimiser = pn.GaussNewton(1e-4, factor=3.0, lengths=1)
    _, state, info = one_step(optimiser, arctan, jnp.asarray([start]))
    assert info.details["step_length"] == 1
    np.testing.assert_allclose(state.damping, 1e-4 * change, rtol=1e-5)


def test_a_shortened_step_leaves_the_damping_as_it_is():
    """Half a step does better than the linear model promises, the whole one worse."""
    optimiser = pn.GaussNewton(1e-4, factor=3.0)
    _, state, info = one_step(optimiser, arctan, jnp.asarray([1.3]))
    assert info.details["step_length"] == 0.5
    np.testing.assert_allclose(state.damping, 1e-4, rtol=1e-5)


def test_the_damping_does_not_fall_below_the_floor():
    optimiser = pn.GaussNewton(1e-4, floor=5e-5, factor=3.0)
    _, state, _ = one_step(optimiser, arctan, jnp.asarray([0.1]))
    np.testing.assert_allclose(state.damping, 5e-5, rtol=1e-5)


# Dependent rows ---------------------------------------------------------------------


@eqx.filter_jit
def dependent(case):
    A, b, start = problem(9, 6, key=jr.key(5))
    if case == "duplicates":
        A, b = A[:4][jnp.array([0, 1, 2, 3, 0])], b[:5]
    elif case == "zero row":
        A, b = A[:5].at[2].set(0), b[:5].at[2].set(0)
    elif case == "more rows than rank":
        A = A @ jnp.diag(jnp.array([1.0, 1, 1, 0, 0, 0]))
    return A, b, start


@pytest.mark.parametrize("case", ["duplicates", "zero row", "more rows than rank"])
def test_dependent_rows_raise_the_damping_and_give_no_nan(case, both_precisions):
    A, b, start = dependent(case)
    rows = LinearRows(A, b)
    optimiser = pn.GaussNewton(damping=0.0, floor=0.0)
    parameters, state = start, optimiser.init(start)
    losses, dampings = [], []
    for _ in range(12):
        parameters, state, info = step(optimiser, rows, parameters, state)
        assert np.all(np.isfinite(flat(parameters)))
        losses.append(float(info.loss))
        dampings.append(float(state.damping))
        if info.details["step_length"] == 0:
            assert info.details["refusals"] >= 1
            assert state.damping > info.details["damping"]
    assert max(dampings) > 0
    assert np.all(np.diff(losses) <= 0)
    smallest = np.sum((A @ np.linalg.pinv(A, rtol=1e-5) @ b - b) ** 2) / 2
    np.testing.assert_allclose(losses[-1], smallest, rtol=1e-3, atol=1e-6)


def test_the_default_floor_keeps_singular_kernels_solvable(both_precisions):
    A, b, start = dependent("duplicates")
    optimiser = pn.GaussNewton(damping=0.0)
    _, state, info = one_step(optimiser, LinearRows(A, b), start)
    assert info.details["step_length"] > 0
    assert np.all(np.isfinite(np.asarray(state.direction)))
    assert np.isfinite(info.details["condition"])


# Refusals ---------------------------------------------------------------------------


def test_no_step_increases_the_loss(both_precisions):
    """Steep and curved rows, from where full steps overshoot."""

    def rows(p):
        return jnp.stack([10 * (p[1] - p[0] ** 2), 1 - p[0], jnp.sin(20 * p[1])])

    optimiser = pn.GaussNewton(1e-8, lengths=2)
    parameters = jnp.array([-1.2, 1.0])
    state, losses, lengths = optimiser.init(parameters), [], []
    for _ in range(60):
        parameters, state, info = step(optimiser, rows, parameters, state)
        losses.append(info.loss)
        lengths.append(float(info.details["step_length"]))
    assert np.all(np.diff(losses) <= 0)
    np.testing.assert_array_equal(np.diff(losses) < 0, np.array(lengths[:-1]) > 0)
    assert 0.5 in lengths or 0 in lengths


@jax.custom_jvp
def lying(rows):
    """The identity, with a derivative of the wrong sign."""
    return rows


@lying.defjvp
def _(primals, tangents):
    return primals[0], -tangents[0]


def test_ten_refusals_in_a_row_end_the_run():
    A, b, start = problem(4, 6, key=jr.key(6))
    optimiser = pn.GaussNewton()

    def rows(parameters):
        return lying(LinearRows(A, b)(parameters))

    parameters, state = start, optimiser.init(start)
    for i in range(1, 11):
        damping = state.damping
        parameters, state, info = step(optimiser, rows, parameters, state)
        assert info.refused == (i == 10)
        assert info.details["refusals"] == i
        assert info.details["step_length"] == 0
        assert state.damping > damping
    np.testing.assert_array_equal(flat(parameters), flat(start))


def test_a_refusal_leaves_no_direction_and_a_step_taken_ends_the_count():
    A, b, start = problem(4, 6, key=jr.key(6))
    optimiser = pn.GaussNewton(momentum=0.5)

    def rows(parameters):
        return lying(LinearRows(A, b)(parameters))

    parameters, state = start, optimiser.init(start)
    for _ in range(2):
        parameters, state, _ = step(optimiser, rows, parameters, state)
    assert state.refusals == 2
    np.testing.assert_array_equal(state.direction, 0)
    _, state, info = step(optimiser, LinearRows(A, b), parameters, state)
    assert info.details["step_length"] > 0
    assert state.refusals == info.details["refusals"] == 0


def pipeline(where, sizes=(12, 4, 4), budget=14):
    return pn.SelectionPipeline(
        space=where,
        pool=pn.CandidatePool(sizes, pn.Uniform(), everywhere=False),
        estimator=pn.Nystrom(4),
        criterion=pn.Constant(),
        selector=pn.Sampling(),
        retention=pn.KeepNone(),
        budget=budget,
    )


def test_fit_says_that_the_optimiser_refused():
    start = model(key=jr.key(0))
    done = pn.fit(
        pipeline(space(lambda u, x: lying(diffusion(u, x))), (20, 1, 1), 22),
        start,
        pn.GaussNewton(patience=3),
        steps=30,
        key=jr.key(1),
        throw=False,
    )
    assert done.result == pn.RESULTS.refused
    assert done.state.phase_steps == 1, "once more on other points"
    assert done.history.rounds["reason"].tolist() == ["first", "refused"]
    assert bool(eqx.tree_equal(done.model, done.state.model))


# Residual rows of a space -----------------------------------------------------------


@eqx.filter_jit
def jacobians(rows, parameters):
    """By all points at once, point by point, and of rows that are a plain function."""
    theta, unflatten = ravel_pytree(parameters)
    dense = jax.jacfwd(lambda t: rows(unflatten(t)))(theta)
    plain = jacobian_blocks(lambda p: rows(p), parameters)
    blocks = jacobian_blocks(rows, parameters)
    return dense, rows.jacobian(parameters), jnp.concatenate(plain, 1), blocks


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("counts", [(4, 2, 1), (5, 0, 3)], ids=["all", "empty kind"])
@pytest.mark.parametrize(("width", "number"), [(6, 1), (33, 3)])
def test_jacobian_of_the_rows(counts, width, number):
    """Per-point Jacobians, joined and in blocks, against `jax.jacfwd` through all
    points. An array of 33 × 33 parameters has a block of its own."""
    rows, parameters = rows_of(
        model(width, key=jr.key(0)), (6, 3, 3), points(counts, key=jr.key(1))
    )
    dense, J, plain, blocks = jacobians(rows, parameters)
    assert len(blocks) == number
    np.testing.assert_allclose(J, dense, atol=1e-12)
    np.testing.assert_array_equal(jnp.concatenate(blocks, axis=1), J)
    np.testing.assert_allclose(plain, dense, atol=1e-12)
    pde, ic, bc = counts
    live = np.concatenate(
        [np.arange(12) < 2 * pde, np.arange(3) < ic, np.arange(3) < bc]
    )
    np.testing.assert_array_equal(np.any(np.asarray(J) != 0, axis=1), live)


@pytest.mark.usefixtures("x64")
def test_the_step_is_the_natural_gradient_of_the_empirical_fisher():
    """Rows R with Gaussian likelihood N(y; R, 𝟙): the Fisher matrix is F = JᵀJ, and
    the natural gradient F⁺∇(½‖R‖²)."""
    where, net = space(), model(key=jr.key(0))
    chosen = points((3, 2, 1), key=jr.key(2))
    rows, parameters = rows_of(net, (3, 2, 1), chosen, where)
    theta, unflatten = ravel_pytree(parameters)

    def loss(theta):
        trained = eqx.combine(unflatten(theta), net.partition()[1])
        return 0.5 * jnp.sum(residual_rows(where, trained, rows.blocks) ** 2)

    J = np.asarray(jax.jit(jax.jacfwd(lambda t: rows(unflatten(t))))(theta))
    sigma = np.linalg.svd(J, compute_uv=False)
    assert sigma[-1] > 1e-4 * sigma[0]
    gradient = np.asarray(jax.jit(jax.grad(loss))(theta))
    natural = np.linalg.pinv(J.T @ J, rtol=1e-10) @ gradient
    _, state, info = one_step(pn.GaussNewton(0.0, floor=0.0), rows, parameters)
    assert info.details["step_length"] > 0
    np.testing.assert_allclose(
        state.direction, natural, atol=1e-6 * float(np.linalg.norm(natural))
    )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("width", [6, 33])
def test_conjugate_gradients_on_a_network(width):
    rows, parameters = rows_of(
        model(width, key=jr.key(0)), (6, 3, 2), points((5, 3, 2), key=jr.key(2))
    )
    dense = one_step(pn.GaussNewton(1e-3), rows, parameters)
    free = one_step(pn.GaussNewton(1e-3, iterations=200), rows, parameters)
    np.testing.assert_allclose(flat(free[0]), flat(dense[0]), atol=1e-6)


def test_coefficients_are_trained_too():
    rows, parameters = rows_of(
        model(key=jr.key(0)), (5, 3, 2), points((5, 3, 2), key=jr.key(2))
    )
    new, _, _ = one_step(pn.GaussNewton(), rows, parameters)
    assert new.coefficients["nu"].raw != parameters.coefficients["nu"].raw


# Changing training sets -------------------------------------------------------------


def test_nothing_of_the_old_training_set_stays_in_the_state():
    """A step on new points is that of an optimiser that never saw the old ones."""
    net = model(key=jr.key(0))
    old, parameters = rows_of(net, (5, 3, 2), points((5, 3, 2), key=jr.key(1)))
    new, _ = rows_of(net, (9, 1, 1), points((9, 1, 0), key=jr.key(2)))
    optimiser = pn.GaussNewton()
    after, state, _ = one_step(optimiser, old, parameters)
    state = optimiser.points_changed(after, state)
    fresh = eqx.tree_at(
        lambda s: s.damping, optimiser.init(after), jnp.array(state.damping)
    )
    continued = step(optimiser, new, after, state)
    assert bool(eqx.tree_equal(continued, step(optimiser, new, after, fresh)))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("second", [jnp.float32, jnp.float64])
def test_every_leaf_keeps_its_dtype(second):
    A, b, start = problem(4, 6, key=jr.key(3))
    start = {"a": start["a"].astype(jnp.float32), "b": start["b"].astype(second)}
    optimiser = pn.GaussNewton(momentum=0.5)
    state = optimiser.init(start)
    new, new_state, _ = step(optimiser, LinearRows(A, b), start, state)
    assert jax.tree.map(jnp.shape, new) == jax.tree.map(jnp.shape, start)
    assert [v.dtype for v in jax.tree.leaves(new)] == [jnp.float32, second]
    assert eqx.tree_equal(
        jax.tree.map(lambda v: v.dtype, new_state),
        jax.tree.map(lambda v: v.dtype, state),
    )
    assert state.damping.dtype == second


def test_lbfgs_forgets_its_history_when_points_change():
    A, b, start = problem(4, 6, key=jr.key(4))
    optimiser = pn.lbfgs()
    new, state, _ = one_step(optimiser, LinearRows(A, b), start)
    assert bool(
        eqx.tree_equal(optimiser.points_changed(new, state), optimiser.init(new))
    )


def same_bits(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(left, right)  # NaN equals NaN


def test_fit_and_resume_repeat_a_longer_fit_bit_for_bit():
    method = pipeline(space())
    optimiser = pn.GaussNewton(momentum=0.5)
    options = {"trigger": pn.EveryN(3), "report_every": 4}
    start = model(key=jr.key(0))
    whole = pn.fit(method, start, optimiser, steps=11, key=jr.key(1), **options)
    half = pn.fit(method, start, optimiser, steps=5, key=jr.key(1), **options)
    rest = pn.resume(method, half.state, optimiser, steps=6, **options)
    for part in ("model", "optimiser", "selection"):
        same_bits(getattr(whole.state, part), getattr(rest.state, part))
    assert {"damping", "step_length", "condition", "refusals"} <= set(
        whole.history.training
    )


# Leverage ---------------------------------------------------------------------------


def pool_info(F, kind, mask, population=None):
    """A pool whose NTK is FFᵀ; the eigenvalues are arbitrary, as the factor is thin."""
    n, m, r = F.shape
    eigenvalues = jnp.linspace(2.0, 0.1, r, dtype=F.dtype)
    spectrum = pn.NTKSpectrum(eigenvalues, F / jnp.sqrt(eigenvalues)[None, None])
    norms = jnp.zeros(n, F.dtype)
    return pn.PoolInfo(
        kind=jnp.asarray(kind, jnp.int32),
        mask=jnp.asarray(mask),
        x=jnp.zeros((n, 1), F.dtype),
        residual=jnp.zeros((n, m), F.dtype),
        gradient_norm=norms,
        spectrum=spectrum,
        population=population,
    )


@eqx.filter_jit
def leverage(criterion, F, kind, mask, counted=None):
    """The embedding; with `counted`, beside the pool of so many first rows."""
    rows, pool = (F, kind, mask), None
    if counted is not None:
        pool = pool_info(*(array[:counted] for array in rows))
    return criterion(pool_info(*rows, pool))


def dense_leverage(F, kind, mask, damping, by_kind):
    """tr [Θ(Θ + μI)⁻¹]_zz from the whole matrix, zero for rows that do not count."""
    n, m, _ = F.shape
    number = np.array([np.sum((kind == k) & mask) for k in kind])
    rows = np.asarray(F) * mask[:, None, None]
    rows = (rows / np.sqrt(number)[:, None, None] if by_kind else rows).reshape(
        n * m, -1
    )
    kernel = rows @ rows.T
    mu = damping * np.linalg.eigvalsh(kernel)[-1]
    smoother = kernel @ np.linalg.inv(kernel + mu * np.eye(n * m))
    return np.diag(smoother).reshape(n, m).sum(axis=1), smoother


KIND = np.array([0] * 9 + [1] * 3 + [2] * 2)
MASK = np.arange(14) != 4


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("by_kind", [True, False])
@pytest.mark.parametrize("damping", [1e-6, 0.1])
def test_leverage_is_the_dense_definition(by_kind, damping):
    F = jr.normal(jr.key(0), (14, 2, 5))
    F = F * jnp.array([3.0, 1, 0.3, 0.1, 0.01])[None, None]
    criterion = pn.Leverage(damping, by_kind=by_kind)
    embedding = np.asarray(leverage(criterion, F, KIND, MASK))
    scores, smoother = dense_leverage(F, KIND, MASK, damping, by_kind)
    np.testing.assert_allclose(
        np.sum(embedding**2, axis=1)[MASK], scores[MASK], rtol=1e-7
    )
    # Inner products are traces of the off-diagonal blocks.
    blocks = smoother.reshape(14, 2, 14, 2).trace(axis1=1, axis2=3)
    np.testing.assert_allclose(
        (embedding @ embedding.T)[np.ix_(MASK, MASK)],
        blocks[np.ix_(MASK, MASK)],
        atol=1e-7,
    )


def test_leverage_of_rows_beside_the_population(both_precisions):
    """Rows that do not count change no other row, and are embedded all the same."""
    F = jr.normal(jr.key(0), (14, 2, 5))
    criterion = pn.Leverage(0.01)
    both = np.asarray(leverage(criterion, F, KIND, MASK, 10))
    alone = np.asarray(leverage(criterion, F[:10], KIND[:10], MASK[:10]))
    np.testing.assert_allclose(
        np.sum(both[:10] ** 2, axis=1), np.sum(alone**2, axis=1), rtol=1e-3
    )
    assert np.all(np.sum(both[10:] ** 2, axis=1) > 0)


def test_leverage_of_broken_and_of_empty_kernels(both_precisions):
    F = jr.normal(jr.key(0), (14, 2, 5)).at[3, 1, 2].set(jnp.nan)
    embedding = leverage(pn.Leverage(0.01), F, KIND, MASK)
    finite = np.isfinite(embedding).all(axis=1)
    np.testing.assert_array_equal(finite, np.arange(14) != 3)
    assert embedding.dtype == F.dtype
    nothing = leverage(pn.Leverage(0.01), jnp.zeros((14, 2, 5)), KIND, MASK)
    np.testing.assert_array_equal(nothing, 0)
    with pytest.raises(ValueError, match="`damping`"):
        pn.Leverage(0.0)


@pytest.mark.usefixtures("x64")
def test_leverage_of_the_exact_kernel_in_a_pipeline():
    """Scores of drawn candidates against J of the pool, and weights in the loss."""
    where, net = space(), model(key=jr.key(0))
    method = eqx.tree_at(
        lambda p: (p.estimator, p.criterion, p.selector),
        pipeline(where),
        (pn.Exact(coefficients=True), pn.Leverage(1e-3), pn.Sampling(importance=True)),
    )
    state, info = pn.select_points(method, net, method.init(), key=jr.key(1))
    state, info = pn.select_points(method, net, state, key=jr.key(2))
    assert np.all(np.asarray(state.points.weight) > 0)
    assert len(np.unique(np.asarray(state.points.weight))) > 5
    parameters, rest = net.partition()

    @eqx.filter_jit
    def of_pool(where, parameters):
        key = jr.split(jr.key(2), 4)[0]
        blocks = method.pool.draw(where, jnp.float64, key=key)
        return pn.ResidualRows(where, rest, blocks).jacobian(parameters)

    J = np.asarray(of_pool(where, parameters))
    kernel = J @ J.T
    mu = 1e-3 * np.linalg.eigvalsh(kernel)[-1]
    scores = np.diag(kernel @ np.linalg.inv(kernel + mu * np.eye(len(kernel))))
    by_kind = np.array([scores[:24].sum(), scores[24:28].sum(), scores[28:].sum()])
    np.testing.assert_allclose(info.score_share, by_kind / by_kind.sum(), rtol=1e-6)


# Mistakes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("damping", -1.0, "must be a number ≥ 0, got -1.0"),
        ("floor", -1.0, "must be a number ≥ 0, or None, got -1.0"),
        ("factor", 1.0, "must be a number > 1, for instance 2, got 1.0"),
        ("momentum", 1.0, "must be a number from 0 to below 1, got 1.0"),
        ("lengths", 0, "is 0: give at least 1"),
        ("patience", 0, "is 0: give at least 1"),
        ("iterations", 0, "is 0: give at least 1"),
        ("form", "other", "is 'other': choose"),
    ],
)
def test_mistakes_are_named(argument, value, words):
    with pytest.raises(ValueError, match=f"`{argument}` {words}"):
        pn.GaussNewton(**{argument: value})
