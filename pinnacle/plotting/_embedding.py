"""The embedding of the candidates, and which of them K-means++ seeding chooses (the
paper's Figure `fig:kmeans`)."""

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray
from matplotlib.figure import Figure

from .._model import Model
from .._pipeline import SelectionPipeline, _look, _with_pseudo_labels
from .._selector import KMeansPlusPlus
from .._types import Candidates
from ._style import new_figure, styled, styles


@dataclasses.dataclass(frozen=True)
class Embedded:
    """A pool of candidates as a criterion sees it.

    **Attributes:**

    - `embedding`: φ(z), a row a candidate, columns in the order of the eigenvalues.
    - `kind`: of each candidate, and the `names` of the kinds.
    - `chosen`: the candidates that are chosen, in that order.
    """

    embedding: Float[np.ndarray, "n q"]
    kind: Int[np.ndarray, " n"]
    names: tuple[str, ...]
    chosen: Int[np.ndarray, " k"]

    @property
    def score(self) -> Float[np.ndarray, " n"]:
        """‖φ(z)‖², which is α̂(z) for the convergence degree."""
        return np.sum(self.embedding**2, axis=1)


def embed(
    pipeline: SelectionPipeline, model: Model, count: int, *, key: PRNGKeyArray
) -> Embedded:
    """Draw a pool, embed it, and choose collocation points by K-means++ seeding.

    **Arguments:**

    - `pipeline`: gives the space, the pool, the estimator and the criterion.
    - `model`: the network at some stage.
    - `count`: how many points are chosen.
    - `key`: a JAX random key.
    """
    embedding, kind, live, chosen = _embed(pipeline, model, count, key)
    live = np.asarray(live)
    places = np.cumsum(live) - 1
    return Embedded(
        embedding=np.asarray(embedding)[live],
        kind=np.asarray(kind)[live],
        names=pipeline.space.names,
        chosen=places[np.asarray(chosen)].astype(np.int32),
    )


@eqx.filter_jit
def _embed(pipeline, model, count: int, key):
    space = pipeline.space
    pool_key, basis_key, choose_key = jax.random.split(key, 3)
    blocks = pipeline.pool.draw(space, model.dtype, key=pool_key)
    blocks = _with_pseudo_labels(space, model, blocks, overwrite=True)
    basis = pipeline.estimator.basis(space, model, blocks, key=basis_key)
    info = _look(pipeline, model, blocks, basis)
    embedding = pipeline.criterion(info)
    group = jnp.asarray(space.group_of_kind)[info.kind]
    live = info.mask & (group == 0)
    candidates = _candidates(embedding, info.kind, live, count, len(blocks))
    chosen = KMeansPlusPlus()(candidates, count, key=choose_key).index
    return embedding, info.kind, live, chosen


def _candidates(embedding, kind, live, count: int, kinds: int) -> Candidates:
    nothing = jnp.zeros(1, bool)
    return Candidates(
        embedding=embedding,
        kind=kind,
        group=jnp.zeros_like(kind),
        available=live,
        quota=jnp.full(1, count, jnp.int32),
        minimum=jnp.zeros(kinds, jnp.int32),
        retained_embedding=jnp.zeros((1, embedding.shape[1]), embedding.dtype),
        retained_mask=nothing,
        retained_kind=jnp.zeros(1, jnp.int32),
    )


@styled
def embedding(
    of: Embedded,
    *,
    components: Sequence[tuple[int, int]] = ((0, 1), (2, 3)),
    title: str = "",
) -> Figure:
    """Candidates in pairs of components of the embedding, and their sorted scores.

    Candidates are grey, those chosen have the colour and the marker of their kind.

    **Arguments:**

    - `of`: from `embed`.
    - `components`: which columns of φ each panel shows; pairs that do not exist are
      left out.
    - `title`: said before the numbers of points, for instance the step.
    """
    shown = [pair for pair in components if max(pair) < of.embedding.shape[1]]
    figure, axes = new_figure(1, len(shown) + 1, 3.1 * (len(shown) + 1), 3.2)
    for axis, (i, j) in zip(axes[0], shown, strict=False):
        _scatter(axis, of, of.embedding[:, i], of.embedding[:, j])
        axis.set(
            xlabel=rf"$\hat\lambda_{{{i + 1}}}^{{1/2}} \hat a_{{{i + 1}}}(z)$",
            ylabel=rf"$\hat\lambda_{{{j + 1}}}^{{1/2}} \hat a_{{{j + 1}}}(z)$",
        )
        axis.locator_params(nbins=5)
        axis.ticklabel_format(scilimits=(-3, 4))
    axis, rank = axes[0, -1], np.empty(of.score.size, int)
    rank[np.argsort(-of.score, kind="stable")] = np.arange(1, of.score.size + 1)
    _scatter(axis, of, rank, np.maximum(of.score, np.finfo(of.score.dtype).tiny))
    positive = of.score[of.score > 0]
    axis.set(
        xlabel="candidates, sorted",
        ylabel=r"$\hat\alpha(z)$",
        yscale="log",
        ylim=(positive.min(initial=1.0) / 2, None),
    )
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    words = f"K-means++ chooses {of.chosen.size} of {of.score.size} candidates"
    figure.suptitle(f"{title}: {words}" if title else words, fontsize=9)
    return figure


def _scatter(axis, of: Embedded, x: np.ndarray, y: np.ndarray) -> None:
    axis.scatter(x, y, s=5, c="0.75", linewidths=0, label="candidates")
    for kind, (name, colour, marker, _) in enumerate(styles(of.names)):
        here = of.chosen[of.kind[of.chosen] == kind]
        if here.size:
            axis.scatter(
                x[here], y[here], s=18, c=colour, marker=marker,
                edgecolors="white", linewidths=0.4, label=f"chosen: {name}",
            )  # fmt: skip
