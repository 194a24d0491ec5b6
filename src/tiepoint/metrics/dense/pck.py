# SPDX-License-Identifier: BSD-3-Clause
"""PCK: the fraction of keypoints that land within alpha times a length of where they belong."""

from __future__ import annotations

from collections.abc import Sequence
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


def pck_counts(
    found: Points, truth: Points, length: float, alphas: Sequence[float]
) -> tuple[NDArray[np.int64], int]:
    """How many keypoints are right at each alpha, and how many there are.

    Right iff ``|found - truth| <= alpha * length``. `found` and `truth` are (n, 2). A point whose truth is
    NaN is padding and does not exist; a point whose `found` is not finite is wrong.

    >>> found = np.array([[0.0, 0.0], [5.0, 0.0], [np.inf, 0.0], [1.0, 1.0]])
    >>> truth = np.array([[3.0, 4.0], [5.0, 0.0], [0.0, 0.0], [np.nan, np.nan]])
    >>> pck_counts(found, truth, 100.0, [0.04, 0.05])
    (array([1, 2]), 3)
    """
    real = np.isfinite(truth).all(axis=1)
    distance = np.full(int(real.sum()), np.inf)
    finite = np.isfinite(found[real]).all(axis=1)
    delta = found[real][finite] - truth[real][finite]
    distance[finite] = np.hypot(delta[:, 0], delta[:, 1])
    correct = [int((distance <= alpha * length).sum()) for alpha in alphas]
    return np.array(correct, np.int64), int(real.sum())


def pck(found: Points, truth: Points, length: float, alpha: float) -> float:
    """PCK of one image pair; NaN where there is no keypoint.

    >>> pck(np.array([[0.0, 0.0], [9.0, 0.0]]), np.zeros((2, 2)), 100.0, 0.05)
    0.5
    """
    correct, n = pck_counts(found, truth, length, [alpha])
    return float(correct[0] / n) if n else float("nan")
