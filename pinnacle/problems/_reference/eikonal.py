"""Reference travel times by fast marching (scikit-fmm), from beyond the source.

Near a point source the travel time has a cone's tip, which costs a grid method half its
order everywhere. So fast marching starts from the last front that has only met the
background, in which the speed is linear and the travel time known in closed form.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from .base import Reference
from .grid import check_positive


# Speed a + b·x, and boxes (lower, upper, speed) of other speeds.
BACKGROUND = (0.8, (0.1, 0.2, -0.15))
BOXES = (
    ((1.05, 0.35, 0.55), (1.55, 0.85, 1.35), 1.5),
    ((0.35, 1.05, 0.55), (0.85, 1.55, 1.35), 0.5),
)
WIDTH = 2.0
# Rays between points near a face leave the cube: the speed is linear out there too.
_MARGIN = 0.4

Boxes = Sequence[tuple[Sequence[float], Sequence[float], float]]


def linear_travel_time(
    x: Float[np.ndarray, "*shape 3"],
) -> Float[np.ndarray, "*shape"]:
    """Travel time from the origin where the speed is v(x) = a + b·x, without boxes.

    T = arcosh(1 + |b|²|x|² / (2 a v(x))) / |b|, which solves |∇T| = 1/v with T(0) = 0.

    **Arguments:**

    - `x`: points with v(x) > 0.
    """
    start, slope = BACKGROUND
    norm = math.hypot(*slope)
    speed = start + x @ np.array(slope)
    return np.arccosh(1 + norm**2 * np.sum(x**2, -1) / (2 * start * speed)) / norm


def eikonal_speed(
    x: Float[np.ndarray, "*shape 3"], boxes: Boxes = BOXES
) -> Float[np.ndarray, "*shape"]:
    """v(x) = 0.8 + 0.1x + 0.2y − 0.15z, but 1.5 in a fast box and 0.5 in a slow one.

    **Arguments:**

    - `x`: points.
    - `boxes`: pairs of corners, each with the speed in the box.
    """
    start, slope = BACKGROUND
    speed = start + x @ np.array(slope)
    for lower, upper, inside in boxes:
        within = np.all((np.array(lower) <= x) & (x <= np.array(upper)), axis=-1)
        speed = np.where(within, inside, speed)
    return speed


def eikonal_reference(
    *, boxes: Boxes = BOXES, cells: int = 20, refinement: int = 3
) -> Reference:
    """|∇T| = 1/v on [0, 2]³ with T = 0 at the origin; v is [`eikonal_speed`][].

    With the default boxes, refinement 1 against 3, 3 against 5 and 5 against 7 change T
    by 8e-3, 1.7e-3 and 7e-4 relative in the L2 norm, most of it along the boxes' faces:
    the error of the default is about 2e-3.

    **Arguments:**

    - `boxes`: of other speeds than the background's.
    - `cells`: the grid has `cells + 1` points along each axis.
    - `refinement`: cells of the solver in one of these, an odd number: then the faces
      of the default boxes lie midway between its nodes.

    **Returns:**

    The solution on the grid, axes (x, y, z), outputs T and v. Raises `ValueError` for
    sizes that are not positive and for an even `refinement`, `ImportError` if
    scikit-fmm is missing.
    """
    fmm = _fmm()
    check_positive(cells=cells, refinement=refinement)
    if refinement % 2 == 0:
        raise ValueError(f"`refinement` must be odd, got {refinement}.")
    h = WIDTH / (cells * refinement)
    margin = math.ceil(_MARGIN / h)
    axis = h * np.arange(-margin, cells * refinement + margin + 1)
    x = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1)
    near, speed = linear_travel_time(x), eikonal_speed(x, boxes)
    changed = speed != eikonal_speed(x, ())
    (centre,) = linear_travel_time(np.full((1, 3), WIDTH / 2))
    first = 0.95 * np.min(near[changed], initial=centre)
    far = fmm.travel_time(near - first, speed, dx=h, order=2)
    time = np.where(near < first, near, first + np.asarray(far))
    kept = slice(margin, margin + cells * refinement + 1, refinement)
    corner = WIDTH * np.arange(cells + 1) / cells
    values = np.stack([time, speed], -1)[kept, kept, kept]
    return Reference((corner,) * 3, values)


def _fmm():
    try:
        import skfmm
    except ImportError as error:
        raise ImportError(
            "the travel times are computed with scikit-fmm, which is not installed: "
            "pip install 'pinnacle-pinn[cli]'"
        ) from error
    return skfmm
