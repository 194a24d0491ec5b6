# SPDX-License-Identifier: BSD-3-Clause
"""Read keypoints of PF-WILLOW: one MATLAB 5 file per image with ``pts_coord`` (2, n)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from .. import mat5

MAX_BYTES = 1 << 20
_NAME = "pts_coord"


def read_pf_keypoints(path: str | Path) -> NDArray[np.float64]:
    """Read the keypoints of one image, float64 (n, 2): x, y in pixels as stored.

    Keypoint i corresponds to keypoint i of every other image of the class. Padding (negative numbers in some
    distributions) becomes NaN and must be ignored.

    Raises:
        FormatError: The file is not a small MATLAB 5 file with a real matrix ``pts_coord`` of two rows.
    """
    values = read_mat5_matrix(path, _NAME)
    if values.shape[0] != 2:
        raise FormatError(path, f"{_NAME!r} must have shape (2, n), found {values.shape}")
    points = values.T.copy()
    with np.errstate(invalid="ignore"):
        points[(points < 0).any(axis=1) | ~np.isfinite(points).all(axis=1)] = np.nan
    return points


def read_mat5_matrix(path: str | Path, name: str) -> NDArray[np.float64]:
    """Read the real matrix `name` of a small MATLAB 5 file as float64 (rows, columns)."""
    return mat5.read_mat5_matrix(path, name, most=MAX_BYTES)
