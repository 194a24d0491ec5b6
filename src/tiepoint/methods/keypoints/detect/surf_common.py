# SPDX-License-Identifier: BSD-3-Clause
"""What SURF's detector and descriptor share: integral image, scale of a keypoint, orientation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....formats.image.read import to_grey
from . import _surf

Image = NDArray[np.uint8]
Floats = NDArray[np.float64]
BASE_SIZE = 9
BASE_SCALE = 1.2


def integral(image: Image) -> Floats:
    """Integral image (h + 1, w + 1) of the grey values, whole numbers and so without rounding.

    >>> integral(np.full((2, 2), 255, np.uint8))[-1, -1]
    np.float64(1020.0)
    """
    grey = to_grey(image).astype(np.float64)
    out = np.zeros((grey.shape[0] + 1, grey.shape[1] + 1))
    out[1:, 1:] = grey.cumsum(axis=0).cumsum(axis=1)
    return out


def scales(size_px: Floats) -> Floats:
    """Scale s of a keypoint: the 9 x 9 filter stands for a Gaussian of 1.2."""
    return np.asarray(size_px * (BASE_SCALE / BASE_SIZE))


def oriented(ii: Floats, xy: Floats, size_px: Floats) -> Floats:
    """Dominant directions in degrees, 0 to 360, clockwise from the x axis."""
    out = np.zeros(len(xy))
    _surf.orientations(ii, np.ascontiguousarray(xy), scales(size_px), out)
    return np.rad2deg(out) % 360
