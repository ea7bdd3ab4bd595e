"""Figures of a run. Pure functions: arrays in, a matplotlib `Figure` out.

Where a figure needs the NTK, a function beside it computes what is drawn: `subspaces`
and `stage` for the eigenfunctions, `embed` for the candidates' embedding.
Nothing here touches `matplotlib.pyplot` or its global state.
"""

from ._comparison import (
    Courses as Courses,
    Round as Round,
    counts_by_method as counts_by_method,
    dynamics as dynamics,
    errors as errors,
    fields as fields,
)
from ._curves import counts as counts, curves as curves, spectrum as spectrum
from ._embedding import Embedded as Embedded, embed as embed, embedding as embedding
from ._fields import points as points, solution as solution
from ._style import thin as thin
from ._subspaces import (
    Stage as Stage,
    Subspaces as Subspaces,
    eigenfunctions as eigenfunctions,
    reconstruction as reconstruction,
    reconstruction_errors as reconstruction_errors,
    stage as stage,
    subspaces as subspaces,
)
