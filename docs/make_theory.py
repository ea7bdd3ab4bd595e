"""Measures every number and draws every figure of `docs/theory.md`.

    python docs/make_theory.py

The network is a 2×32 tanh MLP on the advection problem, in float64. Numbers go between
`<!--name-->` and `<!--/-->` in the page, figures into `docs/figures`. About two minutes
on two cores.
"""

import argparse
import dataclasses
import pathlib
import re
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import optax

from pinnacle import Component, Dirichlet, Model, nn, problems, theory
from pinnacle._space import AugmentedSpace


matplotlib.use("Agg")
import matplotlib.pyplot as plt


DOCS = pathlib.Path(__file__).parent
BLUE, ORANGE, GREY, GREEN = "#1f5fa8", "#d9662b", "#8a8a8a", "#2b8a57"


class Numbers(dict):
    """Values by name, printed as they are measured."""

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        print(f"{name:24} {value}", flush=True)


@dataclasses.dataclass
class Setup:
    """The problem with its solution as a further kind, and three stages of training."""

    space: AugmentedSpace
    solution: Model
    stages: dict[int, Model]

    def rows(self, model, blocks):
        return theory.residual_function(self.space, model, blocks)

    def blocks(self, sizes, seed):
        rng = np.random.default_rng(seed)
        return theory.blocks_at(
            self.space,
            [
                c.domain.from_unit(jnp.asarray(rng.uniform(size=(n, c.domain.dof))))
                for c, n in zip(self.space.components, sizes, strict=True)
            ],
        )


def setup(steps) -> Setup:
    problem = problems.advection(1.0, problems.Sine())
    initial = problem.space.components[1].target
    assert callable(initial)
    solution = Model(
        lambda x: initial(jnp.stack([jnp.mod(x[0] - x[1], 1.0), 0 * x[1]]))
    )
    domain = problem.space.components[0].domain
    output = Component("output", domain, Dirichlet(), solution)
    space = AugmentedSpace((output, *problem.space.components))
    model = Model(nn.MLP(2, 1, 32, 2, key=jax.random.key(0)))
    made = Setup(space, solution, {0: model})
    blocks = made.blocks((0, 300, 60, 60), seed=1)
    for before, after in zip([0, *steps[:-1]], steps, strict=True):
        made.stages[after] = adam(
            space, made.stages[before], blocks, jnp.asarray(after - before)
        )
    return made


@eqx.filter_jit
def adam(space, model, blocks, steps):
    """Adam on the mean squared residuals of PDE, initial and boundary points."""
    rows, parameters = theory.residual_function(space, model, blocks)
    count = jnp.asarray([300.0] * 300 + [60.0] * 120)
    optimiser = optax.adam(2e-3)

    def step(_, carry):
        p, state = carry
        gradient = jax.grad(lambda p: 0.5 * jnp.sum(rows(p) ** 2 / count))(p)
        updates, state = optimiser.update(gradient, state)
        return optax.apply_updates(p, updates), state

    start = (parameters, optimiser.init(parameters))
    trained, _ = jax.lax.fori_loop(0, steps, step, start)
    return eqx.combine(trained, model)


@eqx.filter_jit
def everything(space, model, blocks):
    """J, Θ, R of one set; compiled once for all sets of the same sizes."""
    rows, parameters = theory.residual_function(space, model, blocks)
    J = theory.jacobian(rows, parameters)
    return J, theory.kernel(J), rows(parameters)


def measure_rkhs(made, numbers):
    model = made.stages[10_000]
    blocks = made.blocks((40, 100, 30, 30), seed=2)
    J, theta, R = everything(made.space, model, blocks)
    system = theory.eigensystem(theta)
    error = jnp.max(jnp.abs(theory.mercer(system) - theta)) / jnp.max(theta)
    numbers["mercer"] = f"{error:.0e}"
    alphas = jnp.stack(
        [
            theory.alpha_from_kernel(theta, R),
            theory.alpha_from_gradient(J, R),
            theory.alpha_from_spectrum(system, R),
            theory.alpha_from_norm(theta, R),
        ]
    )
    numbers["alpha"] = f"{alphas[0]:.3g}"
    numbers["alpha-spread"] = f"{(alphas.max() - alphas.min()) / alphas[0]:.0e}"
    numbers["effective-rank"] = f"{theory.effective_rank(system.eigenvalues):.1f}"
    share = np.asarray(theory.trace_share(system.eigenvalues))
    numbers["rank-99"] = str(int(np.argmax(share > 0.99)) + 1)
    l2 = theory.coefficients(system, theory.residual_change(theta, R))
    kept = system.eigenvalues > 0
    printed = jnp.sum(
        jnp.where(kept, (l2 / jnp.where(kept, system.eigenvalues, 1)) ** 2, 0)
        / jnp.where(kept, system.eigenvalues, 1)
    )
    numbers["alpha-printed"] = f"{printed / alphas[0]:.1g}"
    traces = theory.kernel_traces(made.space, model, made.space.join(blocks))
    numbers["traces"] = " : ".join(f"{t:.3g}" for t in traces)
    weights = theory.ntk_weights(made.space, model, made.space.join(blocks))
    numbers["weights"] = " : ".join(f"{w:.3g}" for w in weights)
    cross = theta[:40, 40:140]
    own = jnp.sqrt(
        jnp.linalg.norm(theta[:40, :40]) * jnp.linalg.norm(theta[40:140, 40:140])
    )
    numbers["cross"] = f"{jnp.linalg.norm(cross) / own:.2f}"


def measure_step(made, numbers):
    model = made.stages[1000]
    rows, parameters = made.rows(model, made.blocks((0, 40, 10, 10), seed=3))
    rows_z, _ = made.rows(model, made.blocks((20, 20, 5, 5), seed=4))

    @jax.jit
    def sizes(rate):
        J, Jz = (theory.jacobian(r, parameters) for r in (rows, rows_z))
        change = theory.one_step_change(theory.kernel(Jz, J), rows(parameters), rate)
        rest = theory.one_step_remainder(rows_z, rows, parameters, rate)
        return jnp.linalg.norm(change), jnp.linalg.norm(rest)

    change, rest = sizes(1e-6)
    numbers["step-error"] = f"{rest / change:.1e}"
    numbers["step-ratio"] = f"{rest / sizes(5e-7)[1]:.3f}"


def measure_window(made, numbers):
    """Loss, departure and drift over a window; decay along the eigenvectors."""
    model, steps = made.stages[1000], 10_000
    blocks = made.blocks((0, 40, 10, 10), seed=3)
    rows, parameters = made.rows(model, blocks)
    _, theta, R = everything(made.space, model, blocks)
    top = float(jnp.linalg.eigvalsh(theta)[-1])
    rate = 0.2 / top
    window = jax.jit(lambda p: theory.training_window(rows, p, rate, steps))(parameters)
    residuals, trained = jax.jit(lambda p: theory.descend(rows, p, rate, steps))(
        parameters
    )
    numbers["window-steps"] = str(steps)
    numbers["window-drift"] = f"{100 * window.drift:.1f} %"
    numbers["window-departure"] = f"{100 * window.departure[-1]:.1f} %"
    numbers["window-early"] = f"{100 * window.departure[100]:.2f} %"
    fallen = window.measured[-1] / window.measured[0]
    numbers["window-fallen"] = f"{fallen:.3f}"
    numbers["window-predicted"] = f"{window.predicted[-1] / window.measured[0]:.3f}"
    system = theory.eigensystem(theta)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    t = np.arange(steps + 1)
    axes[0].semilogx(t[1:], window.measured[1:], color=BLUE, label="real network")
    axes[0].semilogx(
        t[1:],
        window.predicted[1:],
        "--",
        color=ORANGE,
        label="predicted from $\\Theta_0$",
    )
    axes[0].set(xlabel="step", ylabel="loss $\\frac{1}{2}\\Vert R_t\\Vert^2$")
    axes[0].legend(frameon=False)
    a = np.abs(np.asarray(residuals @ system.eigenfunctions))
    rates = np.asarray(theory.decay_rates(system, rate))
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.85, 4))
    for i, colour in zip((0, 1, 3, 7), colours, strict=True):
        axes[1].semilogy(t, a[:, i] / a[0, i], color=colour, label=f"$i = {i + 1}$")
        axes[1].semilogy(t, np.exp(-rates[i] * t), "--", color=colour)
    axes[1].set(
        xlabel="step",
        ylabel="$|a_i(t)|/|a_i(0)|$",
        ylim=(1e-2, 2),
        xlim=(0, 200),
    )
    axes[1].legend(frameon=False, title="solid: real\ndashed: $e^{-\\eta\\lambda_i t}$")
    save(figure, "theory-dynamics")
    return rows, parameters, trained, residuals, window, theta, R, rate, steps


def measure_movement(made, numbers, run):
    _, _, _, _, window, theta, R, rate, steps = run
    line = theory.gradient_descent(theta, R, rate, jnp.asarray([steps]))
    numbers["moved"] = f"{window.movement:.3f}"
    numbers["moved-linear"] = f"{theory.movement(theta, line.dual)[0]:.3f}"
    # A set that is small enough for its kernel to be well conditioned.
    blocks = made.blocks((0, 8, 3, 2), seed=5)
    few, p = made.rows(made.stages[0], blocks)
    _, theta, R = everything(made.space, made.stages[0], blocks)
    values = jnp.linalg.eigvalsh(theta)
    alpha = theory.alpha_from_kernel(theta, R)
    numbers["kappa"] = f"{values[-1] / values[0]:.1e}"
    numbers["limit"] = f"{theory.movement_limit(theta, R):.1f}"
    bounds = {
        name: theory.movement_bound(R, alpha, values[-1], values[0], kantorovich=k)
        for name, k in (("bound", False), ("kantorovich", True))
    }
    for name, bound in bounds.items():
        numbers[name] = f"{bound:.1f}"
    operator = theory.ntk_operator(few, p)
    dense, free = theory.limit(theta, R), theory.limit(operator, R)
    both = jnp.linalg.norm(dense - free) / jnp.linalg.norm(dense)
    numbers["cholesky-cg"] = f"{both:.0e}"
    # Matrix-free on a set whose Jacobian and kernel are never formed.
    big, p = made.rows(made.stages[0], made.blocks((0, 9_000, 500, 500), seed=6))
    R = big(p)
    many = eqx.filter_jit(
        lambda p: (
            theory.gradient_flow(
                theory.ntk_operator(big, p), big(p), jnp.asarray([0.0, 1e-4, 1e-2])
            ).residual
        )
    )(p)
    numbers["free-rows"] = f"{R.size:,}"
    fallen = jnp.linalg.norm(many[2]) / jnp.linalg.norm(R)
    numbers["free-fallen"] = f"{fallen:.3f}"


def measure_linearisation(made, numbers, run):
    _, parameters, trained, _, window, *_ = run
    z = made.blocks((50, 50, 0, 0), seed=7)
    rows_z, _ = made.rows(made.stages[1000], z)
    gap = jax.jit(lambda p, q: theory.linearisation_gap(rows_z, p, q))(
        parameters, trained
    )
    J = jax.jit(lambda p: theory.jacobian(rows_z, p))(parameters)
    rho = theory.gradient_bound(J)
    remainder = jnp.max(jnp.abs(gap[:50]))
    numbers["gap-output"] = f"{remainder:.3f}"
    numbers["gap-pde"] = f"{jnp.max(jnp.abs(gap[50:])):.3f}"
    bound = theory.linearisation_bound(rho, window.movement, 2**0.5, remainder)
    numbers["gap-bound"] = f"{bound:.0f}"


def measure_training(made, numbers):
    run = measure_window(made, numbers)
    measure_linearisation(made, numbers, run)
    measure_movement(made, numbers, run)


def measure_nystrom(made, numbers):
    model, k = made.stages[10_000], 5
    blocks = made.blocks((0, 300, 50, 50), seed=8)
    _, theta, R = everything(made.space, model, blocks)
    n, rng = theta.shape[0], np.random.default_rng(0)
    sizes = np.array([5, 10, 20, 40, 80, 160, 320])
    error = jax.jit(theory.nystrom_error)
    kept = jax.jit(theory.nystrom_trace_share)
    ratio = jax.jit(
        lambda theta, ref, R: (
            theory.nystrom_alpha(theta, ref, R) / theory.alpha_from_kernel(theta, R)
        )
    )
    references = [
        [jnp.asarray(rng.permutation(n)[:p]) for _ in range(10)] for p in sizes
    ]
    observed = np.array([[error(theta, r) for r in draws] for draws in references])
    ratios = np.array([[ratio(theta, r, R) for r in draws] for draws in references])
    values = np.maximum(np.asarray(jnp.linalg.eigvalsh(theta))[::-1], 0)
    tau = theory.coherence(theta, k)
    epsilon, delta = 0.3, 0.1
    least = theory.reference_size(tau, k, epsilon, delta)
    numbers["coherence"] = f"{tau:.1f}"
    numbers["p-min"] = f"{least:.0f}"
    numbers["pool"] = str(n)
    reached = [p for p in sizes if p >= least]
    at = reached[0] if reached else sizes[-1]
    numbers["p"] = str(at)
    bound = theory.spectral_error_bound(theta, k, int(at), epsilon, delta)
    index = int(np.flatnonzero(sizes == at)[0])
    numbers["spectral-bound"] = f"{bound:.3g}"
    numbers["spectral-error"] = f"{np.max(observed[index]):.2g}"
    alpha = theory.alpha_from_kernel(theta, R)
    gap = (1 - ratios[index].min()) * alpha
    numbers["alpha-gap"] = f"{max(gap, 0):.1g}"
    numbers["alpha-bound"] = f"{theory.alpha_error_bound(bound, R):.3g}"
    numbers["alpha-own"] = f"{theory.alpha_error_bound(np.max(observed[index]), R):.2g}"
    numbers["alpha-hat-20"] = f"{np.median(ratios[2]):.4f}"
    numbers["trace-kept-20"] = (
        f"{np.median([kept(theta, r) for r in references[2]]):.4f}"
    )
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    axes[0].loglog(
        sizes, np.median(observed, 1), "o-", color=BLUE, label="observed, median of 10"
    )
    axes[0].fill_between(sizes, observed.min(1), observed.max(1), color=BLUE, alpha=0.2)
    axes[0].loglog(
        sizes, values[sizes], "--", color=GREY, label="best possible, $\\lambda_{p+1}$"
    )
    promise = jax.jit(theory.spectral_error_bound, static_argnums=1)
    promised = np.array(
        [
            min(promise(theta, j, p, epsilon, delta) for j in (1, 2, 3, 5, 8))
            for p in sizes
        ]
    )
    axes[0].loglog(
        sizes,
        promised,
        "s",
        color=ORANGE,
        label="$\\hat{c}$, best $k$ (from $p_{\\min}$ on)",
    )
    axes[0].set(
        xlabel="reference rows $p$", ylabel="$\\Vert\\Theta - \\hat{\\Theta}\\Vert_2$"
    )
    axes[0].legend(frameon=False)
    axes[1].semilogx(sizes, np.median(ratios, 1), "o-", color=BLUE)
    axes[1].fill_between(sizes, ratios.min(1), ratios.max(1), color=BLUE, alpha=0.2)
    axes[1].axhline(1, color=GREY, linewidth=0.8)
    axes[1].set(
        xlabel="reference rows $p$", ylabel="$\\hat{\\alpha}/\\alpha$ of the whole pool"
    )
    save(figure, "theory-nystrom")


def measure_generalisation(made, numbers):
    """The bound for a small training set, and the error it is about."""
    model, (n_s, n_p) = made.stages[0], (5, 5)
    n, delta = n_s + n_p, 0.05
    blocks = made.blocks((n_s, n_p, 0, 0), seed=9)
    rows, parameters = made.rows(model, blocks)
    J, theta, R = everything(made.space, model, blocks)
    values = jnp.linalg.eigvalsh(theta)
    rate = 1 / float(values[-1])
    residuals, trained = jax.jit(lambda p: theory.descend(rows, p, rate, 5000))(
        parameters
    )
    alpha = theory.alpha_from_kernel(theta, R)
    many = made.blocks((400, 400, 0, 0), seed=10)
    rows_z, _ = made.rows(model, many)
    rho = theory.gradient_bound(everything(made.space, model, many)[0])
    kernels = jnp.stack(
        [
            everything(made.space, model, made.blocks((n_s, n_p, 0, 0), seed=s))[1]
            for s in range(20, 30)
        ]
    )
    low, high = theory.eigenvalue_range(kernels)
    movement = theory.movement_limit(theta, R)
    numbers["rho"] = f"{rho:.1f}"
    numbers["b-range"] = f"{low:.1e} to {high:.0f}"
    ball = theory.rademacher_ball(J, movement, 2000, key=jax.random.key(0))
    path = theory.rademacher_trajectory(residuals[::10], 2000, key=jax.random.key(0))
    bound = theory.movement_bound(R, alpha, values[-1], values[0])
    numbers["rademacher"] = f"{path:.3f}"
    numbers["rademacher-ball"] = f"{ball:.2f}"
    numbers["rademacher-trace"] = (
        f"{theory.rademacher_trace_bound(theta, movement):.2f}"
    )
    numbers["rademacher-bound"] = f"{theory.rademacher_bound(rho, n, bound):.3g}"
    numbers["rademacher-printed"] = (
        f"{theory.rademacher_bound(rho, n, bound, printed=True):.3g}"
    )
    arguments: dict[str, Any] = dict(
        points=n,
        rho=rho,
        largest=values[-1],
        smallest=values[0],
        residual_norm=jnp.linalg.norm(R),
        stability=2**0.5,
        delta=delta,
        low_density=0.0,
        remainder=jnp.max(
            jnp.abs(theory.linearisation_gap(rows_z, parameters, trained))
        ),
    )
    constants = theory.generalisation_constants(**arguments)
    numbers["c"] = f"{constants.c1:.2g}, {constants.c2:.2g}, {constants.c3:.2g}"
    whole = theory.generalisation_bound(constants, residuals[-1], alpha)
    printed = theory.generalisation_bound(
        theory.generalisation_constants(**arguments, printed=True), residuals[-1], alpha
    )
    error = jnp.mean(jnp.abs(rows_z(trained)[:400]))
    numbers["generalisation"] = f"{whole:.2g}"
    numbers["generalisation-printed"] = f"{printed:.2g}"
    numbers["error"] = f"{error:.2f}"
    numbers["train-residual"] = f"{jnp.sum(jnp.abs(residuals[-1])) / n:.2f}"


def measure_stability(_, numbers):
    waves = np.stack(np.meshgrid(np.arange(-20, 21), np.arange(-20, 21)), -1)
    waves = waves.reshape(-1, 2).astype(float)
    advection = jnp.asarray(1j * (waves[:, 1] + waves[:, 0]))
    diffusion = jnp.asarray(1j * waves[:, 1] + waves[:, 0] ** 2)
    k = jnp.asarray(waves)
    numbers["c-advection"] = f"{theory.stability_constant(advection, k, 1):.4f}"
    numbers["c-diffusion"] = f"{theory.stability_constant(diffusion, k, 2):.4f}"
    numbers["c-plain"] = f"{theory.stability_constant(advection, k, 0):.0f}"


def measure_alignment(made, numbers):
    """How the eigenfunctions come to describe the solution (Figure `fig:eigspect`)."""
    x, t = np.meshgrid(np.linspace(0, 1, 21), np.linspace(0, 2, 21), indexing="ij")
    grid = jnp.asarray(np.stack([x.ravel(), t.ravel()], 1))
    nothing = [
        c.domain.from_unit(jnp.zeros((0, c.domain.dof)))
        for c in made.space.components[2:]
    ]
    blocks = theory.blocks_at(made.space, [grid, grid, *nothing])
    output = theory.row_kinds(made.space, blocks) == 0
    figure, axes = plt.subplots(
        1, 2, figsize=(9, 3.4), layout="constrained", sharey=True
    )
    picture = {}
    for (stage, model), colour in zip(
        made.stages.items(), (GREY, ORANGE, BLUE), strict=True
    ):
        _, theta, R = everything(made.space, model, blocks)
        system = theory.eigensystem(theta)
        for axis, u in zip(axes, (model, made.solution), strict=True):
            y = theory.operate(made.space, u, blocks)
            error = theory.reconstruction_error(system, y, output)
            axis.loglog(
                np.arange(1, 201), error[:200], color=colour, label=f"{stage} steps"
            )
            picture[stage, u is model] = theory.reconstruction(system, y, 20)[:441]
        y = theory.operate(made.space, made.solution, blocks)
        power = theory.cumulative_power(system, y)
        numbers[f"power-{stage}"] = f"{100 * power[19]:.1f} %"
        numbers[f"kta-{stage}"] = f"{theory.kernel_target_alignment(theta, y):.3f}"
        numbers[f"residual-power-{stage}"] = (
            f"{100 * theory.cumulative_power(system, R)[19]:.0f} %"
        )
    axes[0].set(
        title="prediction $\\hat{u}$",
        xlabel="eigenfunctions $k$",
        ylabel="error on the output rows",
    )
    axes[1].set(title="solution $u$", xlabel="eigenfunctions $k$")
    axes[1].legend(frameon=False, title="after")
    save(figure, "theory-alignment")
    draw_reconstruction(made, picture, grid)


def draw_reconstruction(made, picture, grid):
    stages = list(made.stages)
    figure, axes = plt.subplots(
        1, len(stages) + 1, figsize=(10, 2.7), layout="constrained", sharey=True
    )
    truth = jax.vmap(made.solution)(grid)[:, 0]
    panels = [("solution", truth)] + [
        (f"20 eigenfunctions, {stage} steps", picture[stage, False]) for stage in stages
    ]
    limit, image = float(jnp.max(jnp.abs(truth))), None
    for axis, (title, values) in zip(axes, panels, strict=True):
        image = axis.imshow(
            np.asarray(values).reshape(21, 21),
            origin="lower",
            extent=(0, 2, 0, 1),
            aspect="auto",
            cmap="RdBu_r",
            vmin=-limit,
            vmax=limit,
        )
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("$t$")
    axes[0].set_ylabel("$x$")
    assert image is not None
    figure.colorbar(image, ax=axes, shrink=0.9)
    save(figure, "theory-reconstruction")


def save(figure, name):
    (DOCS / "figures").mkdir(exist_ok=True)
    figure.savefig(DOCS / "figures" / f"{name}.png", dpi=130)
    plt.close(figure)


def fill(numbers):
    page = DOCS / "theory.md"
    text = page.read_text()
    missing = set(numbers) - set(re.findall(r"<!--([a-z0-9-]+)-->", text))
    if missing:
        print("not in the page:", sorted(missing))
    for name, value in numbers.items():
        pattern = rf"<!--{name}-->.*?<!--/-->"
        text = re.sub(pattern, f"<!--{name}-->{value}<!--/-->", text)
    page.write_text(text)


PARTS = {
    "rkhs": measure_rkhs,
    "step": measure_step,
    "training": measure_training,
    "nystrom": measure_nystrom,
    "generalisation": measure_generalisation,
    "stability": measure_stability,
    "alignment": measure_alignment,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    made, numbers = setup([1000, 10_000]), Numbers()
    for part in parser.parse_args().only:
        PARTS[part](made, numbers)
    fill(numbers)


if __name__ == "__main__":
    with jax.enable_x64(True):
        main()
