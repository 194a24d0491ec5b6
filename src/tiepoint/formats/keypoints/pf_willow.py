# SPDX-License-Identifier: BSD-3-Clause
"""Keypoints of PF-WILLOW: a MATLAB file per image with ``pts_coord``, 2 x n."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...model.errors import FormatError
from .mat5 import read_mat5_matrix

_NAME = "pts_coord"


def read_pf_keypoints(path: str | Path) -> NDArray[np.float64]:
    """Keypoints of one image, float64 (n, 2) as x, y in the pixels the file uses.

    Point i of one image corresponds to point i of every other image of the class. Values are returned as
    stored. Padding (negative numbers in some distributions) becomes NaN: a padded point is no point and
    must never be counted.

    Raises:
        FormatError: for anything but a small MATLAB 5 file with a real matrix ``pts_coord`` of two rows.
    """
    values = read_mat5_matrix(path, _NAME)
    if values.shape[0] != 2:
        raise FormatError(path, f"{_NAME!r} must have shape (2, n), found {values.shape}")
    points = values.T.copy()
    with np.errstate(invalid="ignore"):
        points[(points < 0).any(axis=1) | ~np.isfinite(points).all(axis=1)] = np.nan
    return points
