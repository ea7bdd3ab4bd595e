"""When points are selected again."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from .._misc import require_integer, require_part
from .._model import Model
from .._ntk.jacobian import Rows
from .._sampler.uniform import Uniform
from .._space.augmented import AugmentedSpace
from .._space.pool import CandidatePool


class AbstractTrigger(eqx.Module):
    """Ends a training phase. Looked at between steps, on the host."""

    @abc.abstractmethod
    def init(self, space: AugmentedSpace, model: Model, *, key: PRNGKeyArray) -> PyTree:
        """What is remembered at the start of a training phase.

        **Arguments:**

        - `space`, `model`: as they are right after the selection.
        - `key`: a JAX random key.
        """

    @abc.abstractmethod
    def next_look(self, steps: int) -> int:
        """The number of steps into the phase at which the trigger wants to be asked
        next, given that `steps` have been taken. More than `steps`."""

    @abc.abstractmethod
    def __call__(
        self, state: PyTree, space: AugmentedSpace, model: Model, steps: int
    ) -> tuple[str | bool, Float[Array, ""]]:
        """Whether to select now, and the NTK's relative drift (NaN if not measured).

        Instead of `True` it may be a word that says why, for the history.
        """


class EveryN(AbstractTrigger):
    """Selects every `n` steps (the paper's T).

    **Arguments:**

    - `n`: number of steps of a training phase.
    """

    n: int = eqx.field(static=True)

    def __check_init__(self):
        require_integer("n", self.n, 1, "select every 1 step or more")

    def init(self, space, model, *, key):
        del space, model, key

    def next_look(self, steps: int) -> int:
        return (steps // self.n + 1) * self.n

    def __call__(self, state, space, model, steps):
        del state, space, model
        return "period" if steps % self.n == 0 else False, jnp.asarray(jnp.nan)


class NTKDrift(AbstractTrigger):
    """Selects once ‖Θ̄ − Θ_t‖_F ≥ δ‖Θ̄‖_F, Θ̄ = Θ at the start of the phase.

    The last line of the paper's Algorithm 1, on fixed check points.

    **Arguments:**

    - `delta`: δ, default 0.5.
    - `every`: steps between two looks.
    - `points`: check points of each kind, drawn uniformly at the start of the phase.
    - `coefficients`: whether the unknown coefficients count as parameters of the NTK.
    """

    delta: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=0.5)
    every: int = eqx.field(static=True, default=1000)
    points: int = eqx.field(static=True, default=200)
    coefficients: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        require_integer("every", self.every, 1, "look every 1 step or more")
        require_integer("points", self.points, 1, "give at least 1 check point a kind")
        if not isinstance(self.delta, Tracer) and not float(self.delta) >= 0:
            raise ValueError(
                f"`delta` is {self.delta}: give a relative change of the NTK ≥ 0; 0.5 "
                "is usual."
            )

    def init(self, space, model, *, key):
        return key, self._kernel(space, model, key)

    def next_look(self, steps: int) -> int:
        return (steps // self.every + 1) * self.every

    def __call__(self, state, space, model, steps):
        del steps
        key, reference = state
        now = self._kernel(space, model, key)
        norm = jnp.linalg.norm(reference)
        drift = jnp.linalg.norm(now - reference) / jnp.where(norm > 0, norm, 1)
        return "drift" if drift >= self.delta else False, drift

    def _kernel(self, space, model, key) -> Float[Array, "n n"]:
        return _check_kernel(space, model, self.points, self.coefficients, key)


class Either(AbstractTrigger):
    """Selects as soon as one of two triggers does.

    **Arguments:**

    - `first`, `second`: any triggers.
    """

    first: AbstractTrigger
    second: AbstractTrigger

    def __check_init__(self):
        for name in ("first", "second"):
            part = getattr(self, name)
            require_part(name, part, AbstractTrigger, "EveryN(1000)")

    def init(self, space, model, *, key):
        a, b = jax.random.split(key)
        return (
            self.first.init(space, model, key=a),
            self.second.init(space, model, key=b),
        )

    def next_look(self, steps: int) -> int:
        return min(self.first.next_look(steps), self.second.next_look(steps))

    def __call__(self, state, space, model, steps):
        answers = [
            trigger(s, space, model, steps) if trigger.next_look(steps - 1) == steps
            else (False, jnp.asarray(jnp.nan))
            for trigger, s in zip((self.first, self.second), state, strict=True)
        ]  # fmt: skip
        (now_a, drift_a), (now_b, drift_b) = answers
        return now_a or now_b, jnp.where(jnp.isnan(drift_a), drift_b, drift_a)


@eqx.filter_jit
def _check_kernel(space, model, points, coefficients, key) -> Float[Array, "n n"]:
    """Θ on `points` uniform check points of each kind."""
    pool = CandidatePool((points,) * len(space.components), Uniform(), everywhere=False)
    blocks = pool.draw(space, model.dtype, key=key)
    J = Rows(space, model, coefficients=coefficients, chunk=None).stacked(blocks)
    return J @ J.T
