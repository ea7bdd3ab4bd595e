"""How many padded rows each kind gets in the training step.

The split of the budget among the kinds moves from round to round, but every new block
size compiles the training step again. So a run settles on at most `SLOTS` layouts in
its first 20 rounds and one more in every 10 after them, and their sizes lie on a coarse
grid, that runs with other seeds find them compiled.
"""

import numpy as np
from jaxtyping import Bool, Int


SLOTS = 6
_MOST = 12  # however many rounds
_SLACK = 1.2  # rows a layout may have for each live point before a better one is made
_ROOM = 0.12  # rows that later layouts keep free, for each live point
_WIDE = 0.4  # the same for the last layout but one, which has to do for most rounds


def empty_layouts(kinds: int) -> Int[np.ndarray, "most kinds"]:
    """No layouts yet: rows of zeros."""
    return np.zeros((_MOST, kinds), np.int32)


def choose_layout(
    layouts: Int[np.ndarray, "most kinds"],
    counts: Int[np.ndarray, " kinds"],
    largest: Int[np.ndarray, " kinds"],
    measured: Bool[np.ndarray, " kinds"],
    round: int,
) -> tuple[tuple[int, ...], Int[np.ndarray, "most kinds"]]:
    """Reuse the tightest layout that fits `counts`, or make a new one.

    The first layout fits as closely as the grid allows, later ones leave room, most of
    it to the large kinds, but in proportion to √n, as random splits move. The last but
    one is wide, because the split, which moves fast at first, goes on moving to and
    fro. The last fits everything, and is made when nothing else fits.

    **Arguments:**

    - `layouts`: those made so far, in order, then rows of zeros.
    - `counts`: points of each kind now.
    - `largest`: how many points of each kind there may ever be.
    - `measured`: kinds whose points are kept for ever. They only grow, so their rows do
      too: by equal factors from slot to slot, up to `largest`.
    - `round`: how many rounds there have been.

    **Returns:**

    The layout to use, and all layouts made so far.
    """
    used = int(np.any(layouts > 0, axis=1).sum())
    left = min(SLOTS + max(0, (round - 20) // 10), _MOST) - used
    fits = [i for i in range(used) if np.all(layouts[i] >= counts)]
    best = min(fits, key=lambda i: layouts[i].sum(), default=None)
    room = 0 if used == 0 else _WIDE if left == 2 else _ROOM
    new = _new_layout(left, room, counts, largest, measured)
    if best is not None:
        tight = layouts[best].sum() <= _SLACK * counts.sum()
        if tight or left <= 1 or layouts[best].sum() <= new.sum():
            return tuple(layouts[best].tolist()), layouts
    made = np.array(layouts)
    made[used] = new
    return tuple(made[used].tolist()), made


def _new_layout(left, room, counts, largest, measured):
    if left <= 1:
        return largest
    grown = counts * (largest / np.maximum(counts, 1)) ** (1 / left)
    chosen = counts[~measured]
    share = np.sqrt(counts + 1) / np.sqrt(chosen + 1).sum()
    rows = np.where(measured, grown, counts + room * chosen.sum() * share)
    return np.minimum(_on_grid(rows), largest)


def _on_grid(rows):
    """Rounded up to 16 sizes an octave, multiples of 4."""
    step = np.maximum(4, 2.0 ** (np.floor(np.log2(np.maximum(rows, 1))) - 4))
    return (np.ceil(rows / step) * step).astype(np.int32)
