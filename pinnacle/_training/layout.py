"""How many padded rows each kind gets in the training step.

The split of the budget among the kinds moves from round to round, but every new block
size compiles the training step again. So a run settles on at most `SLOTS` layouts.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int


SLOTS = 6
_SLACK = 1.15  # rows a layout may have for each live point before a better one is made
_MARGIN = 1.05  # room for the next rounds when a layout is made after the first


def empty_layouts(kinds: int) -> Int[np.ndarray, "slots kinds"]:
    """No layouts yet: rows of zeros."""
    return np.zeros((SLOTS, kinds), np.int32)


def choose_layout(
    layouts: Int[np.ndarray, "slots kinds"],
    counts: Int[np.ndarray, " kinds"],
    largest: Sequence[int],
) -> tuple[tuple[int, ...], Int[np.ndarray, "slots kinds"]]:
    """Reuse the tightest layout that fits `counts`, or make a new one.

    The first layout is exact, later ones leave a margin; the last slot holds the layout
    that fits everything, made when nothing else fits.

    **Arguments:**

    - `layouts`: those made so far, in order, then rows of zeros.
    - `counts`: points of each kind now.
    - `largest`: how many points of each kind there may ever be.

    **Returns:**

    The layout to use, and all layouts made so far.
    """
    used = int(np.any(layouts > 0, axis=1).sum())
    fits = [i for i in range(used) if np.all(layouts[i] >= counts)]
    best = min(fits, key=lambda i: layouts[i].sum(), default=None)
    new = _new_layout(counts, np.asarray(largest), min(used, SLOTS - 1))
    if best is not None:
        tight = layouts[best].sum() <= _SLACK * counts.sum()
        if tight or used >= SLOTS - 1 or layouts[best].sum() <= new.sum():
            return tuple(layouts[best].tolist()), layouts
    made = np.array(layouts)
    made[used] = new
    return tuple(made[used].tolist()), made


def _new_layout(counts, largest, used):
    if used == 0:
        return counts
    if used == SLOTS - 1:
        return largest
    roomy = np.ceil(counts * _MARGIN / 4) * 4
    return np.minimum(roomy, largest)
