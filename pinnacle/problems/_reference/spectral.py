"""Reference solutions by a Fourier pseudo-spectral method, in float64 on the CPU.

Both equations are of the form

    u_t + c (u²/2)_x = ν u_xx − δ u_xxx,     periodic with length L.

The linear part acts on the Fourier coefficient û_k as multiplication by the symbol
ℓ_k = −νk² + iδk³. From time 0 on, v_k = e^{−ℓ_k t} û_k obeys

    v_k' = −½ c i k e^{−ℓ_k t} F[u²]_k,     v_k(0) = û_k(0),

in which the stiff part has been solved exactly. Modes above two thirds of the highest
one are kept at zero, which frees the product u² from aliasing. diffrax's `Dopri8`
(order 8) integrates this with a constant step over one block of time; the next block
starts again from time 0, before e^{νk²t} has grown too much.
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .base import Reference
from .grid import check_positive, evaluate, on_cpu, space_time


# Bounds on step × rate, for c·max|u0|·k (transport), νk² (decay) and δk³ (rotation) at
# the highest mode kept, and on block × νk².
_TRANSPORT, _DECAY, _ROTATION = 2.0, 8.0, 40.0
_BLOCK_DECAY = 100.0


def burgers_reference(
    initial: Callable[[Array], Array],
    *,
    viscosity: float = 0.02,
    length: float = 1.0,
    duration: float = 2.0,
    cells: int = 256,
    intervals: int = 100,
    resolution: int = 512,
    steps: int | None = None,
) -> Reference:
    """u_t + (u²/2)_x = (ν/π) u_xx on (0, L), periodic, with u(x, 0) = u0(x).

    The division by π is that of the PDEBench data; the paper leaves it out.

    For a smooth u0 of PDEBench (no variants) and the default ν, halving the step and
    doubling the grid changes the result by about 2e-9 relative where the slopes reach
    100, and by 1e-14 where they stay below 20. A u0 with kinks or
    steep flanks, or a smaller ν, may need a higher `resolution`.

    **Arguments:**

    - `initial`: u0 on [0, L), elementwise.
    - `viscosity`: ν > 0.
    - `length`, `duration`: L and the final time.
    - `cells`, `intervals`: the grid of the result has `cells + 1` points in x, both
      ends included, and `intervals + 1` in t, the initial time included.
    - `resolution`: least number of points of the solver's grid; it is rounded up to a
      multiple of `cells`.
    - `steps`: time steps in one interval, rounded up to a multiple of the number of
      blocks; by default chosen from max|u0| and the equation.

    **Returns:**

    The solution on the grid, axes (x, t), one output. Raises `ValueError` for sizes
    that are not positive and if the result is not finite, `ImportError` if diffrax is
    missing.
    """
    check_positive(viscosity=viscosity)
    return _reference(
        initial,
        equation=_Equation(1.0, viscosity / math.pi, 0.0),
        box=(0.0, length, duration, cells, intervals),
        resolution=resolution,
        steps=steps,
    )


def kdv_reference(
    initial: Callable[[Array], Array] | None = None,
    *,
    convection: float = 1.0,
    dispersion: float = 0.0025,
    duration: float = 1.0,
    cells: int = 256,
    intervals: int = 100,
    resolution: int = 256,
    steps: int | None = None,
) -> Reference:
    """u_t + λ1 u u_x + λ2 u_xxx = 0 on (−1, 1), periodic, with u(x, 0) = u0(x).

    For the default λ and u0, halving the step and doubling the grid changes the result
    by 3e-10 relative.

    **Arguments:**

    - `initial`: u0 on [−1, 1), elementwise; by default cos(πx).
    - `convection`, `dispersion`: λ1 and λ2.
    - `duration`, `cells`, `intervals`, `resolution`, `steps`: as in
      [`burgers_reference`][].

    **Returns:**

    The solution on the grid, axes (x, t), one output. Raises as
    [`burgers_reference`][] does.
    """
    return _reference(
        _cosine if initial is None else initial,
        equation=_Equation(convection, 0.0, dispersion),
        box=(-1.0, 2.0, duration, cells, intervals),
        resolution=resolution,
        steps=steps,
    )


def _cosine(x):
    return jnp.cos(jnp.pi * x)


class _Equation(eqx.Module):
    """c, ν and δ of the module's equation."""

    convection: float
    diffusion: float
    dispersion: float

    def steps(self, span: float, largest: float, highest: float) -> int:
        """Steps in a time `span`, for max|u0| = `largest` and modes up to `highest`."""
        rate = max(
            abs(self.convection) * largest * highest / _TRANSPORT,
            self.diffusion * highest**2 / _DECAY,
            abs(self.dispersion) * highest**3 / _ROTATION,
        )
        return max(1, math.ceil(span * rate))

    def blocks(self, span: float, highest: float) -> int:
        """Blocks in a time `span`."""
        return max(1, math.ceil(span * self.diffusion * highest**2 / _BLOCK_DECAY))


def _reference(initial, *, equation, box, resolution, steps) -> Reference:
    _diffrax()  # if it is missing, say so before any work is done
    lower, length, _, cells, intervals = box
    x, t = space_time(*box)
    check_positive(resolution=resolution, **({} if steps is None else {"steps": steps}))
    stride = math.ceil(resolution / cells)
    n = stride * cells
    u0 = evaluate(initial, lower + length * np.arange(n) / n)
    highest = 2 * np.pi / length * (n // 3)
    if steps is None:
        steps = equation.steps(t[1], float(np.max(np.abs(u0))), highest)
    blocks = equation.blocks(t[1], highest)
    u = _solve(equation, u0, length, t[1] / blocks, intervals, blocks, steps)
    if not np.all(np.isfinite(u)):
        raise ValueError(
            f"the reference solution is not finite with `steps`={steps} and "
            f"`resolution`={n}: give more `steps`, and check that `initial` is finite."
        )
    u = u[:, ::stride]
    u = np.concatenate([u, u[:, :1]], axis=1).T
    return Reference((x, t), u[..., None])


def _solve(equation, u0, length, block, intervals, blocks, steps) -> np.ndarray:
    """u0 and u at the ends of the intervals, shape `(intervals + 1, n)`."""
    with on_cpu():
        per_block = math.ceil(steps / blocks)
        numbers = [equation.convection, equation.diffusion, equation.dispersion]
        u = _integrate(
            jnp.asarray([*numbers, length]),
            jnp.asarray(u0),
            block * jnp.arange(per_block + 1) / per_block,
            intervals,
            blocks,
        )
        return np.concatenate([u0[None], np.asarray(u)])


@eqx.filter_jit
def _integrate(
    numbers: Float[Array, "4"],
    u0: Float[Array, " n"],
    times: Float[Array, " steps"],
    intervals: int,
    blocks: int,
) -> Float[Array, "intervals n"]:
    """u at the ends of the intervals; `times` are the ends of the steps in a block."""
    diffrax = _diffrax()
    convection, diffusion, dispersion, length = numbers
    n = u0.size
    mode = np.arange(n // 2 + 1)
    k = 2 * jnp.pi * jnp.asarray(mode, u0.dtype) / length
    kept = jnp.asarray(mode <= n // 3)
    symbol = jnp.where(kept, -diffusion * k**2 + 1j * dispersion * k**3, 0.0)

    def field(t, v, _):
        u = jnp.fft.irfft(jnp.exp(symbol * t) * _complex(v), n)
        flux = jnp.where(kept, jnp.fft.rfft(0.5 * convection * u**2), 0.0)
        return _pair(-1j * k * jnp.exp(-symbol * t) * flux)

    def advance(u_hat, _):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Dopri8(),
            t0=times[0],
            t1=times[-1],
            dt0=None,
            y0=_pair(u_hat),
            stepsize_controller=diffrax.StepTo(ts=times),
            max_steps=times.size,
            throw=False,
        )
        return jnp.exp(symbol * times[-1]) * _complex(
            jnp.asarray(solution.ys)[-1]
        ), None

    def interval(u_hat, _):
        u_hat, _ = jax.lax.scan(advance, u_hat, length=blocks)
        return u_hat, jnp.fft.irfft(u_hat, n)

    start = jnp.where(kept, jnp.fft.rfft(u0), 0.0)
    return jax.lax.scan(interval, start, length=intervals)[1]


def _pair(z):
    """Complex numbers as a leading axis (real, imaginary): diffrax states are real."""
    return jnp.stack([z.real, z.imag])


def _complex(pair):
    return pair[0] + 1j * pair[1]


def _diffrax():
    try:
        import diffrax
    except ImportError as error:
        raise ImportError(
            "the Burgers and KdV reference solutions are computed with diffrax, which "
            "is not installed: pip install 'pinnacle-pinn[cli]'"
        ) from error
    return diffrax
