"""Make the data of the inverse Navier–Stokes problem: a cylinder's wake, Re = 100.

    python scripts/make_cylinder_wake.py pinnacle/problems/data/cylinder_wake.npz

The flow past a cylinder of diameter 1 at the origin, free stream (1, 0), viscosity
1/Re. With r = e^ξ/2, vorticity ω and streamfunction ψ (u_r = ψ_θ/r, u_θ = −ψ_ξ/r) obey

    ω_t + (ψ_θ ω_ξ − ψ_ξ ω_θ)/r² = ((ν ω_ξ)_ξ + ν ω_θθ)/r²,     ψ_ξξ + ψ_θθ = −r² ω.

*Space.* Fourier series in θ (dealiased by the two-thirds rule), finite differences of
seven points in ξ on nodes that are fine at the wall, evenly spaced in r through the
wake and stretched from there to r = 40. Beyond the window of the data ν grows with the
spacing, so that the vortices fade before the boundary.

*Time.* Third-order semi-implicit backward differences: diffusion implicit, transport
explicit. Each Fourier mode is then one linear problem in r, whose inverse is computed
once. The value of ω at the wall is what makes ψ_ξ vanish there (an influence
coefficient a mode); the mean mode has ω_ξ = 0 at the wall, since the pressure has one
value. Far away the perturbation of ψ decays as r^{−k} and ω is 0.

*Pressure.* From the momentum equation along circles, ∂_θ(p + |u|²/2)/r = −∂_t u_θ −
ω u_r + ν ω_r; its mean over a circle from the one along r, with p = 0 far ahead.

*Result.* Strouhal number 0.1643, mean drag 1.324, lift amplitude 0.321. With the outer
boundary at r = 80 they are 0.1640, 1.320 and 0.319, and at 200 about 0.1639, 1.319 and
0.319; where the fading begins matters less. None of this touches the equations in the
window: differences of eighth order leave 4e-4 of terms of 0.01 to 0.3.

*Data.* The developed flow is periodic. It is kept as its mean and leading harmonics in
time, on an even grid of the window [1, 8] × [−2, 2], as 16-bit integers each with a
scale. See `pinnacle/problems/_reference/cylinder_wake.py` for the reader.

Needs numpy and scipy; about ten minutes on one core.
"""

import argparse
import dataclasses
import logging
import time

import numpy as np
from scipy.interpolate import make_interp_spline


RADIUS, OUTER = 0.5, 40.0
# Third-order backward differences: ω^{n+1}, ω^n, ω^{n−1}, ω^{n−2}; extrapolation.
BACKWARD = (11 / 6, 3.0, -3 / 2, 1 / 3)
FORWARD = (3.0, -3.0, 1.0)
WINDOW = ((1.0, 8.0), (-2.0, 2.0))
SPACING = 0.05
HARMONICS = 12
PHASES = 64

log = logging.getLogger("cylinder_wake")


# ------------------------------------------------------------------- discretisation


@dataclasses.dataclass(frozen=True)
class Resolution:
    """`spacing` scales the distance of the radial nodes; `angles` are in a circle."""

    spacing: float
    angles: int
    step: float

    @property
    def modes(self) -> int:
        return self.angles // 3 + 1


def distance(r):
    """Distance of the radial nodes at r, for `spacing` 1."""
    near = np.minimum(0.010 + 0.05 * (r - RADIUS), 0.075)
    return near + 0.05 * np.maximum(r - 9.5, 0.0)


def radial_nodes(spacing: float) -> np.ndarray:
    """Nodes from the wall to the outer boundary, at the wanted distances."""
    r = np.geomspace(RADIUS, OUTER, 200_001)
    rate = 1 / (spacing * distance(r))
    count = np.concatenate([[0], np.cumsum(np.diff(r) * (rate[1:] + rate[:-1]) / 2)])
    return np.interp(np.linspace(0, count[-1], round(count[-1]) + 1), count, r)


def weights(nodes: np.ndarray, at: float, order: int) -> np.ndarray:
    """Coefficients of the nodes' values in the derivative of their polynomial."""
    powers = np.arange(nodes.size)
    scale = np.abs(nodes - at).max()
    right = np.zeros(nodes.size)
    right[order] = np.prod(np.arange(1, order + 1)) / scale**order
    return np.linalg.solve((((nodes - at) / scale)[None, :]) ** powers[:, None], right)


def differentiation(nodes: np.ndarray, order: int, width: int = 7) -> np.ndarray:
    """Matrix of the derivative, by the `width` nearest nodes."""
    n = nodes.size
    matrix = np.zeros((n, n))
    for i in range(n):
        first = min(max(i - width // 2, 0), n - width)
        here = slice(first, first + width)
        matrix[i, here] = weights(nodes[here], nodes[i], order)
    return matrix


class Cylinder:
    """The discrete equations, and the inverses of each mode's problem.

    Fields are arrays `(modes, nodes)` of Fourier coefficients f_k with
    f(θ) = f_0 + 2 Re Σ f_k e^{ikθ}.
    """

    def __init__(self, resolution: Resolution, reynolds: float = 100.0):
        self.resolution = resolution
        self.nu = 1 / reynolds
        self.r = radial_nodes(resolution.spacing)
        self.xi = np.log(self.r / RADIUS)
        self.k = np.arange(resolution.modes)
        self.d1, self.d2 = (differentiation(self.xi, order) for order in (1, 2))
        self.viscosity = self._viscosity()
        # Close to the wall the angles are finer than needed: the transport of the
        # highest modes is left out there, which permits a longer step.
        reach = 40 + 50 * (self.r - RADIUS)
        self.kept = 1 / (1 + np.exp((self.k[:, None] - reach) / 2))
        modes = [self._mode(k) for k in self.k]
        self.to_vorticity, self.to_stream, self.from_stream = map(
            np.stack, zip(*modes, strict=True)
        )
        self.stream_far = self._far(1)
        self.vorticity_far = self.from_stream[1] * (self.d1[0] @ self.stream_far)

    def _viscosity(self):
        ramp = np.clip((self.r - 10.0) / 8.0, 0, 1)
        ramp = ramp**2 * (3 - 2 * ramp)
        return self.nu + ramp * 0.25 * distance(self.r)

    def _poisson(self, k):
        matrix = self.d2 - k**2 * np.eye(self.r.size)
        matrix[0] = np.eye(self.r.size)[0]
        matrix[-1] = self.d1[0] if k == 0 else self.d1[-1]
        matrix[-1, -1] += k if k else 0
        return np.linalg.inv(matrix)

    def _far(self, k):
        """ψ of a free stream of ψ = r e^{iθ}, by the outer condition alone."""
        right = np.zeros(self.r.size)
        right[-1] = 2 * self.r[-1]
        return self._poisson(k) @ right

    def _mode(self, k):
        """Maps right side ↦ ω with no slip, ω ↦ ψ, and the slip's effect on ω."""
        n, r2 = self.r.size, self.r**2
        diffusion = self.viscosity[:, None] * (self.d2 - k**2 * np.eye(n))
        diffusion += (self.d1 @ self.viscosity)[:, None] * self.d1
        helmholtz = BACKWARD[0] / self.resolution.step * np.eye(n)
        helmholtz -= diffusion / r2[:, None]
        helmholtz[0] = self.d1[0] if k == 0 else np.eye(n)[0]
        helmholtz[-1] = np.eye(n)[-1]
        inverse = np.linalg.inv(helmholtz)
        wall = inverse[:, 0].copy()
        inverse[:, [0, -1]] = 0
        source = -r2.copy()
        source[[0, -1]] = 0
        stream = self._poisson(k) * source
        if k == 0:
            return inverse, stream, np.zeros(n)
        slip = self.d1[0] @ stream  # ω ↦ ψ_ξ at the wall
        answer = -wall / (slip @ wall)
        return inverse + np.outer(answer, slip @ inverse), stream, answer

    def stream(self, vorticity, cross=0.0):
        """ψ of ω and of a free stream (1, `cross`)."""
        psi = apply(self.to_stream, vorticity)
        psi[1] += (-0.5j - 0.5 * cross) * self.stream_far
        return psi

    def transport(self, vorticity, psi):
        """−(ψ_θ ω_ξ − ψ_ξ ω_θ)/r²."""
        ik = 1j * self.k[:, None]
        n = self.resolution.angles
        psi_a, psi_r, omega_a, omega_r = (
            to_angles(f, n)
            for f in (ik * psi, psi @ self.d1.T, ik * vorticity, vorticity @ self.d1.T)
        )
        product = psi_r * omega_a - psi_a * omega_r
        return self.kept * to_modes(product, self.k.size) / self.r**2

    def force(self, vorticity):
        """Drag and lift coefficients, from ω and ω_ξ at the wall."""
        # F = ν a ∮ (ω_ξ − ω)(sin θ, −cos θ) dθ; the coefficients are 2F.
        g = self.d1[0] @ vorticity[1] - vorticity[1, 0]
        scale = 4 * np.pi * self.nu * RADIUS
        return -scale * g.imag, -scale * g.real


def apply(matrices, fields):
    """One real matrix a mode, applied to complex coefficients."""
    pairs = np.stack([fields.real, fields.imag], axis=-1)
    pairs = np.matmul(matrices, pairs)
    return pairs[..., 0] + 1j * pairs[..., 1]


def to_angles(modes, n):
    return np.fft.irfft(modes.T, n, axis=1, norm="forward")


def to_modes(values, count):
    return np.fft.rfft(values, axis=1, norm="forward")[:, :count].T


# ---------------------------------------------------------------------------- time


def push(t):
    """Free stream across the wake, for a moment, to start the shedding."""
    return 0.3 * np.sin(np.pi * t / 6) ** 2 if t < 6 else 0.0


def run(flow: Cylinder, vorticity, start: float, end: float, keep_from: float, every=1):
    """Step from `start` to `end`.

    Returns ω at the end, (time, drag, lift) at all steps, and (time, ω) every `every`
    steps from `keep_from` on.
    """
    dt = flow.resolution.step
    past = [vorticity] * 3
    rates = [flow.transport(vorticity, flow.stream(vorticity, push(start)))] * 3
    forces, kept = [], []
    for step in range(1, round((end - start) / dt) + 1):
        t = start + step * dt
        right = sum(b * w for b, w in zip(BACKWARD[1:], past, strict=True)) / dt
        right = right + sum(f * n for f, n in zip(FORWARD, rates, strict=True))
        omega = apply(flow.to_vorticity, right)
        omega[1] += (-0.5j - 0.5 * push(t)) * flow.vorticity_far
        psi = flow.stream(omega, push(t))
        past = [omega, *past[:2]]
        rates = [flow.transport(omega, psi), *rates[:2]]
        forces.append((t, *flow.force(omega)))
        if t > keep_from and step % every == 0:
            kept.append((t, omega))
        if step % round(5 / dt) == 0:
            log.info("t = %6.2f  drag %.5f  lift %+.5f", *forces[-1])
            if not np.isfinite(forces[-1][1]):
                raise FloatingPointError("the flow is not finite: shorten the step")
    return past[0], np.array(forces), kept


def refined(coarse: Cylinder, vorticity, fine: Cylinder):
    """ω on the nodes and modes of a finer discretisation."""
    spline = make_interp_spline(coarse.xi, vorticity, k=5, axis=1)
    result = np.zeros((fine.k.size, fine.r.size), complex)
    result[: coarse.k.size] = spline(np.minimum(fine.xi, coarse.xi[-1]))
    return result


# ---------------------------------------------------------------- the periodic flow


@dataclasses.dataclass(frozen=True)
class Shedding:
    """What the forces say: frequency, mean drag, amplitude of the lift, and the time
    at which the lift passes zero upwards."""

    frequency: float
    drag: float
    lift: float
    origin: float


def shedding(forces) -> Shedding:
    """From the last three periods of the forces."""
    t, drag, lift = forces.T
    up = np.flatnonzero((lift[:-1] < 0) & (lift[1:] >= 0))
    zero = t[up] - lift[up] * (t[up + 1] - t[up]) / (lift[up + 1] - lift[up])
    here = (t > zero[-4]) & (t <= zero[-1])
    amplitude = (lift[here].max() - lift[here].min()) / 2
    return Shedding(3 / (zero[-1] - zero[-4]), drag[here].mean(), amplitude, zero[-4])


def periodic(kept, forces, shed: Shedding, harmonics: int = 16):
    """Least-squares harmonics of ω in time, `(2 harmonics + 1, modes, nodes)`.

    Also returns how far ω is from periodic where the data are, relative to its norm.
    """
    n = np.arange(-harmonics, harmonics + 1)
    times = np.array([t for t, _ in kept]) - shed.origin
    omega = np.stack([w for _, w in kept])
    basis = np.exp(2j * np.pi * shed.frequency * times[:, None] * n)
    flat = omega.reshape(times.size, -1)
    found = np.linalg.lstsq(basis, flat, rcond=None)[0]
    rest = (flat - basis @ found).reshape(omega.shape)[..., : omega.shape[2] * 2 // 3]
    gap = np.linalg.norm(rest) / np.linalg.norm(omega[..., : rest.shape[2]])
    return found.reshape(n.size, *omega.shape[1:]), gap


def phases(coefficients, frequency):
    """ω and ∂_t ω at the phases of one period."""
    half = coefficients.shape[0] // 2
    n = np.arange(-half, half + 1)
    rate = 2j * np.pi * frequency * n
    wave = np.exp(2j * np.pi * np.outer(np.arange(PHASES) / PHASES, n))
    field = np.tensordot(wave, coefficients, 1)
    return field, np.tensordot(wave * rate, coefficients, 1)


def velocity_and_pressure(flow: Cylinder, omega, omega_t):
    """u_r, u_θ and p at one instant, as Fourier modes."""
    n, ik, r = flow.resolution.angles, 1j * flow.k[:, None], flow.r
    psi, psi_t = flow.stream(omega), apply(flow.to_stream, omega_t)
    u_r, u_a = ik * psi / r, -psi @ flow.d1.T / r
    u_a_t = -psi_t @ flow.d1.T / r
    w, radial, angular = (to_angles(f, n) for f in (omega, u_r, u_a))
    # The head H = p + |u|²/2: ∂_θ H / r along circles.
    along = -u_a_t - to_modes(w * radial, flow.k.size)
    along = along + flow.nu * omega @ flow.d1.T / r
    head = np.zeros_like(along)
    head[1:] = r * along[1:] / ik[1:]
    # The mean over circles: dH_0/dr = (ω u_θ)_0, from the circle r = 5 on; and there
    # from the ray θ = π, ahead of the wake, where ∂_r H = −∂_t u_r and H → 1/2.
    far, near = r.size - 1, int(np.argmin(np.abs(r - 5)))
    sign = np.where(flow.k == 0, 1, 2) * (-1.0) ** flow.k
    rate = np.sum(sign[:, None] * (ik * psi_t / r), axis=0).real
    ahead = primitive(flow, -rate, far, 0.5)[near]
    mean = ahead - np.sum(sign[:, None] * head, axis=0).real[near]
    slope = to_modes(w * angular, flow.k.size)[0].real
    head[0] = primitive(flow, slope, near, mean)
    return u_r, u_a, head - to_modes((radial**2 + angular**2) / 2, flow.k.size)


def primitive(flow: Cylinder, slope, node: int, value: float):
    """F with dF/dr = `slope` and F = `value` at a node."""
    matrix, right = flow.d1.copy(), flow.r * slope
    matrix[node], right[node] = np.eye(flow.r.size)[node], value
    return np.linalg.solve(matrix, right)


def grid():
    """Even coordinates of the window."""
    return [
        np.linspace(lower, upper, round((upper - lower) / SPACING) + 1)
        for lower, upper in WINDOW
    ]


def on_grid(flow: Cylinder, fields):
    """u, v, p on the window's grid from the modes of u_r, u_θ, p, `(nx, ny, 3)`."""
    x, y = np.meshgrid(*grid(), indexing="ij")
    r, angle = np.hypot(x, y).ravel(), np.arctan2(y, x).ravel()
    wave = np.exp(1j * np.outer(angle, flow.k)) * np.where(flow.k == 0, 1, 2)
    at = [
        np.sum(wave * make_interp_spline(flow.xi, f.T, k=7)(np.log(r / RADIUS)), 1).real
        for f in fields
    ]
    u = at[0] * np.cos(angle) - at[1] * np.sin(angle)
    v = at[0] * np.sin(angle) + at[1] * np.cos(angle)
    return np.stack([u, v, at[2]], axis=-1).reshape(*x.shape, 3)


def wake(flow: Cylinder, coefficients, frequency):
    """Harmonics of u, v, p in time, complex `(HARMONICS + 1, nx, ny, 3)`.

    The flow is Re Σ c_n e^{2πi n f t}.
    """
    instants = zip(*phases(coefficients, frequency), strict=True)
    values = [on_grid(flow, velocity_and_pressure(flow, *pair)) for pair in instants]
    modes = np.fft.rfft(np.stack(values), axis=0, norm="forward")
    modes[1:] *= 2
    rest = np.abs(modes[HARMONICS + 1 :]).max()
    log.info("largest harmonic left out: %.1e", rest)
    return modes[: HARMONICS + 1]


def develop(flow: Cylinder, vorticity, start: float, end: float):
    """Run, and return ω at the end, the forces' summary and the data."""
    every = round(0.1 / flow.resolution.step)
    omega, forces, kept = run(flow, vorticity, start, end, end - 20.0, every)
    shed = shedding(forces)
    coefficients, gap = periodic(kept, forces, shed)
    log.info("%s, not periodic: %.1e", shed, gap)
    return omega, shed, wake(flow, coefficients, shed.frequency)


# -------------------------------------------------------------------------- the file


def quantised(fields):
    """16-bit integers and the scale of each harmonic of each output."""
    scale = np.abs(fields).max(axis=(-3, -2)) / 32767
    divisor = np.where(scale > 0, scale, 1)[..., None, None, :]
    return np.round(fields / divisor).astype(np.int16), scale


def save(path, shed: Shedding, modes, error):
    """Harmonics as 16-bit integers, cosine and sine parts apart."""
    parts = np.stack([modes.real, -modes.imag])  # of cos and sin
    values, scale = quantised(parts)
    x, y = grid()
    np.savez_compressed(
        path,
        values=values,
        scale=scale,
        x=x,
        y=y,
        frequency=shed.frequency,
        drag=shed.drag,
        lift=shed.lift,
        error=error,
    )


def main():
    """Develop the flow on a coarse grid, go on with a fine one, and write the file."""
    parser = argparse.ArgumentParser(description="Make the wake's data file.")
    parser.add_argument("out")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    began = time.perf_counter()
    coarse = Cylinder(Resolution(1.5, 192, 0.008))
    still = np.zeros((coarse.k.size, coarse.r.size), complex)
    omega, _, rough = develop(coarse, still, 0.0, 140.0)
    fine = Cylinder(Resolution(0.9, 288, 0.004))
    _, shed, modes = develop(fine, refined(coarse, omega, fine), 140.0, 200.0)
    error = np.abs(modes - rough).max(axis=(0, 1, 2))
    log.info("change between the two grids (u, v, p): %s", error)
    save(arguments.out, shed, modes, error)
    log.info("%.0f s", time.perf_counter() - began)


if __name__ == "__main__":
    main()
