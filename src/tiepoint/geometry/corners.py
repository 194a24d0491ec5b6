# SPDX-License-Identifier: BSD-3-Clause
"""The corners of an image, and how far two homographies carry them apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from .homography import Floats, project


def corners(size: tuple[int, int]) -> Floats:
    """Centres of the four corner pixels of an image of (width, height), float64 (4, 2), clockwise.

    >>> corners((3, 2)).tolist()
    [[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]]
    """
    w, h = size
    return np.array([[0, 0], [w - 1, 0], [w - 1, h - 1], [0, h - 1]], dtype=np.float64)


def corner_error(estimate: ArrayLike, truth: ArrayLike, size: tuple[int, int]) -> float:
    """Mean distance, in target pixels, between the four image corners under two homographies.

    `size` is (width, height) of the **source** image. Corners that the truth sends to or behind infinity have
    no place to compare with and are left out (the pair v_artisans 1-5 has two such corners); at least one
    is always left, because the centre is in front. Infinite when the estimate sends one of the others to or
    behind infinity, or is not a homography at all (singular, NaN): a useless estimate is a large error, no
    exception. A truth that is no homography is an `InputError`.

    >>> corner_error([[1, 0, 3], [0, 1, 4], [0, 0, 1]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]], (10, 10))
    5.0
    """
    middle = ((size[0] - 1) / 2, (size[1] - 1) / 2)
    expected = project(truth, corners(size), reference=middle)
    there = ~np.isnan(expected).any(axis=1)
    try:
        found = project(estimate, corners(size)[there], reference=middle)
    except InputError:
        return float("inf")
    if np.isnan(found).any():
        return float("inf")
    return float(np.linalg.norm(found - expected[there], axis=1).mean())
