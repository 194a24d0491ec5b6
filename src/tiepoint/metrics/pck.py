# SPDX-License-Identifier: BSD-3-Clause
"""PCK: the fraction of keypoints that land within alpha times a length of where they belong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[Any]
SCALES = ("image", "box", "keypoints")


def pck_length(
    scale: str, *, size: tuple[int, int], points: Points, box: tuple[float, float, float, float] | None = None
) -> float:
    """The length L of an image pair, from its *target* image.

    * `image`: larger side of the image, ``max(height, width)`` of `size` (PF-PASCAL's convention);
    * `box`: larger side of the object box `box` = (x1, y1, x2, y2) (SPair's);
    * `keypoints`: larger extent of the target's keypoints, ``max - min`` (PF-WILLOW's).

    Trap: the three differ by a factor of two and more, and papers do not always say which they used. Padding
    (NaN) is left out of the extent; with it, figures rise by ten points.

    >>> points = np.array([[0.0, 0.0], [30.0, 10.0], [np.nan, np.nan]])
    >>> [pck_length(scale, size=(100, 200), points=points) for scale in ("image", "keypoints")]
    [200.0, 30.0]
    """
    if scale == "image":
        return float(max(size))
    if scale == "box":
        if box is None:
            raise ValueError("scale 'box' needs an object box")
        return float(max(box[2] - box[0], box[3] - box[1]))
    if scale == "keypoints":
        real = points[np.isfinite(points).all(axis=1)]
        return float(np.ptp(real, axis=0).max()) if len(real) else float("nan")
    raise ValueError(f"unknown scale {scale!r}; one of {SCALES}")


def point_errors(found: Points, truth: Points) -> NDArray[np.float64]:
    """Distance of each point (n, 2) from where it belongs, (n,); infinite where it was not found.

    >>> point_errors(np.array([[0.0, 0.0], [np.nan, 0.0]]), np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [5.0, inf]
    """
    delta = found - truth
    distance = np.hypot(delta[:, 0], delta[:, 1])
    distance[np.isnan(distance)] = np.inf
    return distance


def points_right(error_px: NDArray[np.float64], length: float, alpha: float) -> int:
    """How many points are right: an error of at most alpha times the length. A missing point never is.

    >>> points_right(np.array([5.0, 5.1, np.inf]), 100.0, 0.05)
    1
    """
    return int((error_px <= alpha * length).sum())
