"""Initial conditions of the benchmark problems, as functions of x."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray


# PDEBench's generator: how many modes there are, how many of them are drawn, how often
# a variant occurs, and the width of the window's flanks as a share of the length.
_MODES = 8
_DRAWN = 2
_VARIANT_PROBABILITY = 0.1
_FLANK = 0.01

# Seeds of the benchmark problems. Advection: modes 4 and 3, both strong. Burgers: modes
# 5 and 1, whose waves steepen and merge into one shock.
ADVECTION_SEED = 7
BURGERS_SEED = 6


class Sine(eqx.Module):
    """u0(x) = A sin(2π n x/L + φ), elementwise.

    **Arguments:**

    - `amplitude`, `wavenumber`, `phase`: A, n and φ. The function is periodic on
      (0, L) if n is a whole number.
    - `length`: L > 0.
    """

    amplitude: Float[Array, ""] = eqx.field(converter=jnp.asarray)
    wavenumber: Float[Array, ""] = eqx.field(converter=jnp.asarray)
    phase: Float[Array, ""] = eqx.field(converter=jnp.asarray)
    length: float = eqx.field(static=True)

    def __init__(self, amplitude=1.0, wavenumber=1.0, phase=0.0, *, length=1.0):
        self.amplitude = jnp.asarray(amplitude, float)
        self.wavenumber = jnp.asarray(wavenumber, float)
        self.phase = jnp.asarray(phase, float)
        self.length = float(length)

    def __check_init__(self):
        _check_length(self.length)

    def __call__(self, x: Float[ArrayLike, "*shape"]) -> Float[Array, "*shape"]:
        """The value at each entry of `x`, in the dtype of `x`."""
        x = _floating(x)
        return _wave(x, self.amplitude, self.wavenumber, self.phase, self.length)


class PDEBenchInitial(eqx.Module):
    """One initial condition of the PDEBench family, elementwise.

    u0(x) = s · W(x) · |Σ_i A_i sin(2π n_i x/L + φ_i) + c|, where the absolute value is
    taken only if `absolute`, W(x) = ½(tanh((x/L − a)/w) − tanh((x/L − b)/w)) with
    w = 0.01 only if `windowed` (else W = 1), and s = ±1.

    The window vanishes at both ends of (0, L) but is not a periodic function: outside
    (0, L), wrap x first. Drawn by [`pdebench_initial`][]. Source: the initial
    conditions of the advection and Burgers data of PDEBench (Takamoto et al., 2022).

    **Attributes:**

    - `amplitude`, `wavenumber`, `phase`: A_i, n_i and φ_i of the modes.
    - `offset`: c.
    - `sign`: s.
    - `absolute`, `windowed`: which variants apply.
    - `window`: (a, b), as shares of the length.
    - `length`: L > 0.
    """

    amplitude: Float[Array, " modes"] = eqx.field(converter=jnp.asarray)
    wavenumber: Float[Array, " modes"] = eqx.field(converter=jnp.asarray)
    phase: Float[Array, " modes"] = eqx.field(converter=jnp.asarray)
    offset: Float[Array, ""] = eqx.field(converter=jnp.asarray)
    sign: Float[Array, ""] = eqx.field(converter=jnp.asarray)
    absolute: Bool[Array, ""] = eqx.field(converter=jnp.asarray)
    windowed: Bool[Array, ""] = eqx.field(converter=jnp.asarray)
    window: Float[Array, "2"] = eqx.field(converter=jnp.asarray)
    length: float = eqx.field(static=True)

    def __check_init__(self):
        _check_length(self.length)

    def __call__(self, x: Float[ArrayLike, "*shape"]) -> Float[Array, "*shape"]:
        """The value at each entry of `x`, in the dtype of `x`."""
        x = _floating(x)
        waves = (
            _wave(x, a, n, p, self.length)
            for a, n, p in zip(self.amplitude, self.wavenumber, self.phase, strict=True)
        )
        u = sum(waves, start=self.offset.astype(x.dtype))
        u = jnp.where(self.absolute, jnp.abs(u), u)
        u = jnp.where(self.windowed, self._mask(x) * u, u)
        return self.sign.astype(x.dtype) * u

    def _mask(self, x):
        left, right = self.window.astype(x.dtype)
        share = x / self.length
        rise, fall = (jnp.tanh((share - edge) / _FLANK) for edge in (left, right))
        return 0.5 * (rise - fall)


def pdebench_initial(
    *,
    key: PRNGKeyArray,
    length: float = 1.0,
    variants: bool = True,
    offset: bool = False,
) -> PDEBenchInitial:
    """Draw an initial condition as PDEBench's generator does.

    u0(x) = Σ_{i=1,2} A_i sin(2π n_i x/L + φ_i), n_i uniform in 1..8, A_i in [0, 1],
    φ_i in [0, 2π), with a random sign; with probability 0.1 its absolute value; with
    probability 0.1 inside a window with edges a ∈ [0.1, 0.45] and b ∈ [0.55, 0.9].

    The draws are made in float32 whatever the precision, so that a key names the same
    function in float32 and in float64.

    **Arguments:**

    - `key`: the source of all randomness.
    - `length`: L, the period.
    - `variants`: whether the absolute value and the window may occur. Without them the
      function is smooth and periodic, and otherwise the same one.
    - `offset`: whether to add the constant Σ A_k sin φ_k over the modes that were not
      drawn, as in the published data files (whose generator sets the wave number of
      these modes to zero, but not their amplitude).

    **Returns:**

    The initial condition, a function of x.
    """
    keys = jr.split(key, 8)
    wavenumber = jr.randint(keys[0], (_DRAWN,), 1, _MODES + 1, jnp.int32)
    amplitude = _uniform(keys[1], (_DRAWN,))
    phase = 2 * jnp.pi * _uniform(keys[2], (_DRAWN,))
    absolute, windowed = _uniform(keys[4], (2,)) < _VARIANT_PROBABILITY
    edge = _uniform(keys[5], (2,), 0.0, 0.35)
    return PDEBenchInitial(
        amplitude=amplitude,
        wavenumber=wavenumber.astype(jnp.float32),
        phase=phase,
        offset=_rest(wavenumber, keys[6]) if offset else jnp.zeros((), jnp.float32),
        sign=jnp.where(_uniform(keys[3], ()) < 0.5, -1.0, 1.0).astype(jnp.float32),
        absolute=absolute & variants,
        windowed=windowed & variants,
        window=edge + jnp.asarray([0.1, 0.55], jnp.float32),
        length=float(length),
    )


def perturbed(initial: PDEBenchInitial) -> PDEBenchInitial:
    """The same waves with other amplitudes and phases, for transfer learning.

    Amplitudes are multiplied by 1.3 and 0.7, phases moved by 0.6 and −0.6 in turn.
    """
    sign = jnp.where(jnp.arange(initial.amplitude.shape[0]) % 2 == 0, 1.0, -1.0)
    sign = sign.astype(initial.amplitude.dtype)
    return dataclasses.replace(
        initial,
        amplitude=initial.amplitude * (1 + 0.3 * sign),
        phase=initial.phase + 0.6 * sign,
    )


def _rest(wavenumber, key):
    """Σ A_k sin φ_k over the modes k of 1..8 that are not in `wavenumber`."""
    amplitude, turn = _uniform(key, (2, _MODES))
    drawn = jnp.isin(jnp.arange(1, _MODES + 1), wavenumber)
    return jnp.sum(jnp.where(drawn, 0.0, amplitude * jnp.sin(2 * jnp.pi * turn)))


def _uniform(key, shape, low=0.0, high=1.0):
    return jr.uniform(key, shape, jnp.float32, low, high)


def _wave(x, amplitude, wavenumber, phase, length):
    """A sin(2π n x/L + φ), in the dtype of x throughout.

    A float32 product 2πn would spoil the period in float64.
    """
    amplitude, wavenumber, phase = (
        v.astype(x.dtype) for v in (amplitude, wavenumber, phase)
    )
    return amplitude * jnp.sin(2 * jnp.pi * wavenumber * x / length + phase)


def _floating(x):
    x = jnp.asarray(x)
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(float)


def _check_length(length):
    if not 0 < length < float("inf"):
        raise ValueError(f"`length` must be positive and finite, got {length}.")
