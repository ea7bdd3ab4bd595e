"""Figures of a run. Pure functions: arrays in, a matplotlib `Figure` out.

Nothing here touches `matplotlib.pyplot` or its global state.
"""

from ._comparison import (
    counts_by_method as counts_by_method,
    errors as errors,
    fields as fields,
)
from ._curves import counts as counts, curves as curves, spectrum as spectrum
from ._fields import points as points, solution as solution
from ._style import thin as thin
