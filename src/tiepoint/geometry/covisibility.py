# SPDX-License-Identifier: BSD-3-Clause
"""Which points of one image are in view in the other, by the real size of the images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .homography import Floats, as_points, project

Size = tuple[int, int]
"""(width, height) in pixels."""


class Projection(NamedTuple):
    """Projected points (n, 2), NaN where there is none, and whether each is in view (n,)."""

    points: Floats
    visible: NDArray[np.bool_]


def in_view(points: ArrayLike, size: Size, *, border_px: float = 0.0) -> NDArray[np.bool_]:
    """Whether points lie on an image: -0.5 + border <= x <= width - 0.5 - border, and the same for y.

    Pixel centres are integers, so the image covers half a pixel more than its corner centres. NaN is not in
    view.

    Args:
        points: (n, 2).
        size: (width, height) of the image the points lie in.
        border_px: margin to keep from the edge.

    >>> in_view([[0, 0], [9.5, 4], [9.6, 4], [np.nan, 0]], (10, 5)).tolist()
    [True, True, False, False]
    """
    p = as_points(points)
    low = -0.5 + border_px
    high = np.asarray(size, dtype=np.float64) - 0.5 - border_px
    return np.asarray(((p >= low) & (p <= high)).all(axis=1))


def centre(size: Size) -> tuple[float, float]:
    """The centre of an image, in pixel coordinates.

    >>> centre((3, 2))
    (1.0, 0.5)
    """
    return ((size[0] - 1) / 2, (size[1] - 1) / 2)


def covisible(
    h: ArrayLike, points: ArrayLike, source: Size, target: Size, *, border_px: float = 0.0
) -> Projection:
    """Project points of the source image into the target image and say which are in view there.

    The side of the plane that counts as in front is that of the centre of the source image.

    Args:
        h: homography from source to target.
        points: (n, 2) in the source image.
        source: (width, height) of the source image.
        target: (width, height) of the target image, its own size, not the source's: sequences mix sizes.
        border_px: margin to keep from the edge of the target.

    >>> covisible([[1, 0, 5], [0, 1, 0], [0, 0, 1]], [[0, 0], [8, 0]], (10, 10), (10, 10)).visible.tolist()
    [True, False]
    """
    projected = project(h, points, reference=centre(source))
    return Projection(projected, in_view(projected, target, border_px=border_px))
