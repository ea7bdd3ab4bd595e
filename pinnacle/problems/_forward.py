"""The paper's problems in one space dimension and time."""

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from .._geometry import Interval, SpaceTime
from .._operator import PDE, Dirichlet, Periodic, derivatives
from .._space import AugmentedSpace, Component
from ..nn import LAAF, MLP, OutputTransform, PeriodicInput
from ._initial_conditions import (
    ADVECTION_SEED,
    BURGERS_SEED,
    Sine,
    pdebench_initial,
    perturbed,
)
from ._pdebench import PDEBenchData
from ._problem import Problem, Settings
from ._reference import (
    Reference,
    advection_reference,
    burgers_reference,
    diffusion_reference,
    diffusion_source,
    kdv_reference,
)


X, T = 0, 1


def advection(
    speed: float = 1.0,
    initial=None,
    data: PDEBenchData | None = None,
    periodic: str = "value",
) -> Problem:
    """u_t + β u_x = 0 on (0, 1) × (0, 2], periodic in x.

    **Arguments:**

    - `speed`: β.
    - `initial`: u0, elementwise; by default a fixed sample of PDEBench's family.
    - `data`: a sample of a PDEBench file of the same equation, instead of `initial`.
    - `periodic`: how the solution is made periodic, see [`PERIODICITY`][].
    """
    domain = SpaceTime(Interval(0, 1), 0, 2)
    initial, given = _from_data(domain, initial, data)
    u0 = _pdebench(ADVECTION_SEED) if initial is None else initial
    if data is not None:
        _check_speed(data.reference, u0, speed)

    def residual(u, x):
        u_t, u_x = derivatives(u, x, (T,), (X,))
        return u_t + speed * u_x

    return Problem(
        name="advection",
        title=f"Advection, β = {speed:g}",
        **_periodic(domain, residual, u0, periodic, (128, 8)),
        settings=Settings(1e-4, 200_000, 1000, 200, 5000, (2000, 500)),
        solve=given or functools.partial(advection_reference, u0, speed=speed),
    )


def advection_timing() -> Problem:
    """u_t + 5 u_x = 0 with u0 = sin(2πx): the paper's timing experiment."""
    base = advection(5.0, Sine())
    return Problem(
        name="advection-timing",
        title=base.title,
        space=base.space,
        network=lambda key: MLP(2, 1, 64, 6, activation=LAAF(), key=key),
        settings=base.settings,
        solve=base.solve,
    )


def advection_transfer() -> Problem:
    """Advection of a perturbed u0, from the network that was trained on the first."""
    return _transfer("advection-transfer", advection, ADVECTION_SEED)


def burgers_transfer() -> Problem:
    """Burgers with a perturbed u0, from the network that was trained on the first."""
    return _transfer("burgers-transfer", burgers, BURGERS_SEED)


def burgers(
    viscosity: float = 0.02,
    initial=None,
    data: PDEBenchData | None = None,
    periodic: str = "value",
) -> Problem:
    """u_t + u u_x = (ν/π) u_xx on (0, 1) × (0, 2], periodic in x.

    **Arguments:**

    - `viscosity`: ν.
    - `initial`: u0, elementwise; by default a fixed sample of PDEBench's family.
    - `data`: a sample of a PDEBench file of the same equation, instead of `initial`.
    - `periodic`: how the solution is made periodic, see [`PERIODICITY`][].
    """
    domain = SpaceTime(Interval(0, 1), 0, 2)
    initial, given = _from_data(domain, initial, data)
    u0 = _pdebench(BURGERS_SEED) if initial is None else initial

    def residual(u, x):
        u_, u_t, u_x, u_xx = derivatives(u, x, (), (T,), (X,), (X, X))
        return u_t + u_ * u_x - viscosity / jnp.pi * u_xx

    return Problem(
        name="burgers",
        title=f"Burgers, ν = {viscosity:g}/π",
        **_periodic(domain, residual, u0, periodic, (128, 4), order=1),
        settings=Settings(1e-4, 200_000, 300, 100, 5000, (800, 200)),
        solve=given or functools.partial(burgers_reference, u0, viscosity=viscosity),
    )


def diffusion() -> Problem:
    """u_t = u_xx + f on (−1, 1) × (0, 3), conditions held by the network's form.

    û = t(1 − x²)N(x, t) + sin(4πx), so only PDE points are trained on. The solution is
    e^{−2t} sin(4πx).
    """

    def residual(u, x):
        u_t, u_xx = derivatives(u, x, (T,), (X, X))
        return u_t - u_xx - diffusion_source(x[X], x[T])

    def constrain(x, raw):
        return x[T] * (1 - x[X] ** 2) * raw + jnp.sin(4 * jnp.pi * x[X])

    domain = SpaceTime(Interval(-1, 1), 0, 3)
    return Problem(
        name="diffusion",
        title="Diffusion, hard constraint",
        space=AugmentedSpace([Component("pde", domain, PDE(residual))]),
        network=lambda key: OutputTransform(MLP(2, 1, 32, 2, key=key), constrain),
        settings=Settings(1e-3, 30_000, 100, 50, 1000, (800, 0)),
        solve=diffusion_reference,
    )


def kdv(
    convection: float = 1.0, dispersion: float = 0.0025, periodic: str = "value"
) -> Problem:
    """u_t + λ1 u u_x + λ2 u_xxx = 0 on (−1, 1) × (0, 1), periodic, u0 = cos(πx).

    **Arguments:**

    - `convection`, `dispersion`: λ1 and λ2.
    - `periodic`: how the solution is made periodic, see [`PERIODICITY`][].
    """
    domain = SpaceTime(Interval(-1, 1), 0, 1)

    def residual(u, x):
        u_, u_t, u_x, u_xxx = derivatives(u, x, (), (T,), (X,), (X, X, X))
        return u_t + convection * u_ * u_x + dispersion * u_xxx

    def u0(x):
        return jnp.cos(jnp.pi * x)

    return Problem(
        name="kdv",
        title="Korteweg–de Vries",
        **_periodic(domain, residual, u0, periodic, (32, 4), order=2),
        settings=Settings(1e-3, 100_000, 300, 100, 5000, (800, 200)),
        solve=functools.partial(
            kdv_reference, convection=convection, dispersion=dispersion
        ),
    )


# How a solution is made periodic in x: by the paper's condition, on the value alone,
# which leaves an equation of order n > 1 more than one solution; by conditions on all
# derivatives below n, which leave it one; or by the network, see `nn.PeriodicInput`.
PERIODICITY = ("value", "derivatives", "network")


def _periodic(
    domain: SpaceTime,
    residual,
    initial,
    periodic: str,
    size: tuple[int, int],
    *,
    order: int = 0,
) -> dict[str, Any]:
    """Space and network of an equation with derivatives in x up to `order` + 1."""
    if periodic not in PERIODICITY:
        raise ValueError(
            f"`periodic` is {periodic!r}: choose one of {', '.join(PERIODICITY)}."
        )
    sides = domain.periodic(X)
    components = [
        Component("pde", domain, PDE(residual)),
        Component("ic", domain.initial(), Dirichlet(), lambda x: initial(x[X])),
    ]
    if periodic == "network":
        return {
            "space": AugmentedSpace(components),
            "network": lambda key: PeriodicInput(
                MLP(3, 1, *size, key=key), X, float(sides.period)
            ),
        }
    condition = Periodic(X, sides.period, order if periodic == "derivatives" else 0)
    return {
        "space": AugmentedSpace([*components, Component("bc", sides, condition)]),
        "network": lambda key: MLP(2, 1, *size, key=key),
    }


def _transfer(name: str, source, seed: int) -> Problem:
    base = source(initial=perturbed(_pdebench(seed)))
    settings = dataclasses.replace(base.settings, budget=200, new=50)
    return dataclasses.replace(
        base,
        name=name,
        title=f"{base.title}, perturbed initial condition",
        settings=settings,
        source=source,
    )


def _from_data(domain: SpaceTime, initial, data: PDEBenchData | None):
    """u0 and the solution: what was given, or what the data say."""
    if data is None:
        return initial, None
    if initial is not None:
        raise ValueError("give `initial` or `data`, not both.")
    data.check(domain, ("u",))
    return data.initial, functools.partial(_same, data.reference)


def _check_speed(reference: Reference, u0, speed: float) -> None:
    """Raise `ValueError` unless the data are near u0(x − βt), the solution."""
    x, t = reference.x.T
    expected = np.asarray(u0(jnp.asarray(x - speed * t)))
    apart = np.linalg.norm(reference.values[:, 0] - expected)
    apart /= np.linalg.norm(expected)
    if apart > 0.5:
        raise ValueError(
            f"the data are no solution for a `speed` of {speed:g}: they are "
            f"{apart:.0%} away from it. PDEBench's files carry β in their names; give "
            "it as `advection(speed=..., data=...)`."
        )


def _same(reference: Reference) -> Reference:
    return reference


def _pdebench(seed: int):
    return pdebench_initial(key=jr.key(seed), variants=False)
