"""How unequal are the candidates to a Gauss–Newton step? Ridge leverage scores, dense.

    python tests/benchmarks/second_order_leverage.py kdv-periodic uniform
    python tests/benchmarks/second_order_leverage.py advection-30 causal

At some steps of a run of `second_order.py`, the scores ℓ(z) = [Θ(Θ + μI)⁻¹]_zz of a
uniform pool are computed from all eigenpairs of Θ at the iterate. Printed are Σℓ, the
number of directions that the damping leaves free, and for the PDE points the
coefficient of variation of ℓ and its maximum over its mean. If all are alike, uniform
points are leverage points. The last number is the share of ‖R‖² in the free directions.
The error is that of the average of the iterates.
"""

import argparse

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from second_order import METHODS, PRESETS, made, make_model, pipeline

import pinnacle as pn
from pinnacle._ntk.jacobian import Rows


STEPS = (20, 100, 300)


@eqx.filter_jit
def rows(space, model, blocks):
    these = Rows(space, model, coefficients=True, chunk=None)
    return these.stacked(blocks), these.residual(blocks)


def spectrum(space, pool: pn.CandidatePool, model: pn.Model):
    """λ, V and R of the pool with rows scaled as in the loss, and each row's kind."""
    blocks = pool.draw(space, model.dtype, key=jr.key(5))
    kind = np.repeat(np.arange(len(blocks)), [block.size for block in blocks])
    weight = 1 / np.sqrt(np.bincount(kind)[kind])
    J, R = (np.asarray(values) for values in rows(space, model, blocks))
    J, R = J * weight[:, None], R[:, 0] * weight  # of one row a point
    eigenvalues, V = np.linalg.eigh(J @ J.T)
    return np.maximum(eigenvalues, 0), V, R, kind


def show(eigenvalues, V, R, kind, damping: float) -> str:
    free = eigenvalues / (eigenvalues + damping * eigenvalues[-1])
    score = V**2 @ free
    pde = score[kind == 0]  # the first kind of every preset
    share = np.sum(free * (V.T @ R) ** 2) / np.sum(R**2)
    return (
        f"μ/λ {damping:.0e}: Σℓ {free.sum():.0f} of {len(R)}, of the PDE points "
        f"{pde.std() / pde.mean():.2f} (variation) {pde.max() / pde.mean():.1f} "
        f"(max/mean), ‖R‖² in reach {share:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Leverage scores along a run.")
    parser.add_argument("problem", choices=PRESETS)
    parser.add_argument("method", choices=METHODS)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    problem, metrics = made(arguments.problem)
    preset, space = PRESETS[arguments.problem], problem.space
    pool = pipeline(preset, problem, "leverage").pool

    def look(progress: pn.Progress) -> None:
        if progress.selection is None and progress.step in STEPS:
            error = progress.row["relative_l2"]
            print(f"step {progress.step}, relative L2 {error:.2g}")
            found = spectrum(space, pool, progress.state.model)
            for damping in (1e-6, 1e-8):
                print(" ", show(*found, damping), flush=True)

    pn.fit(
        pipeline(preset, problem, arguments.method),
        make_model(preset, problem, key=jr.key(0)),
        pn.Averaged(pn.GaussNewton()),
        steps=max(STEPS),
        key=jr.key(1000),
        trigger=pn.EveryN(1),
        metrics=metrics,
        report_every=20,
        callbacks=[look],
    )


if __name__ == "__main__":
    main()
