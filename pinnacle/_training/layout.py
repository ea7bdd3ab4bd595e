"""How many padded rows each kind gets in the training step.

The split of the budget among the kinds moves from round to round, but every new block
size compiles the training step again. So a run settles on at most `SLOTS` layouts, and
their sizes lie on a coarse grid, that runs with other seeds find them compiled.
"""

import numpy as np
from jaxtyping import Bool, Int


SLOTS = 6
_SLACK = 1.15  # rows a layout may have for each live point before a better one is made
_MARGIN = 1.05  # room for the next rounds when a layout is made after the first


def empty_layouts(kinds: int) -> Int[np.ndarray, "slots kinds"]:
    """No layouts yet: rows of zeros."""
    return np.zeros((SLOTS, kinds), np.int32)


def choose_layout(
    layouts: Int[np.ndarray, "slots kinds"],
    counts: Int[np.ndarray, " kinds"],
    largest: Int[np.ndarray, " kinds"],
    measured: Bool[np.ndarray, " kinds"],
) -> tuple[tuple[int, ...], Int[np.ndarray, "slots kinds"]]:
    """Reuse the tightest layout that fits `counts`, or make a new one.

    The first layout fits as closely as the grid allows, later ones leave a margin, and
    the last slot holds the layout that fits everything, made when nothing else fits.

    **Arguments:**

    - `layouts`: those made so far, in order, then rows of zeros.
    - `counts`: points of each kind now.
    - `largest`: how many points of each kind there may ever be.
    - `measured`: kinds whose points are kept for ever. They only grow, so their rows do
      too: by equal factors from slot to slot, up to `largest`.

    **Returns:**

    The layout to use, and all layouts made so far.
    """
    used = int(np.any(layouts > 0, axis=1).sum())
    fits = [i for i in range(used) if np.all(layouts[i] >= counts)]
    best = min(fits, key=lambda i: layouts[i].sum(), default=None)
    new = _new_layout(counts, largest, measured, min(used, SLOTS - 1))
    if best is not None:
        tight = layouts[best].sum() <= _SLACK * counts.sum()
        if tight or used >= SLOTS - 1 or layouts[best].sum() <= new.sum():
            return tuple(layouts[best].tolist()), layouts
    made = np.array(layouts)
    made[used] = new
    return tuple(made[used].tolist()), made


def _new_layout(counts, largest, measured, used):
    left = SLOTS - used
    if left == 1:
        return largest
    growth = (largest / np.maximum(counts, 1)) ** (1 / left)
    margin = np.where(measured, growth, 1 if used == 0 else _MARGIN)
    return np.minimum(_on_grid(counts * margin), largest)


def _on_grid(rows):
    """Rounded up to 16 sizes an octave, multiples of 4."""
    step = np.maximum(4, 2.0 ** (np.floor(np.log2(np.maximum(rows, 1))) - 4))
    return (np.ceil(rows / step) * step).astype(np.int32)
