# SPDX-License-Identifier: BSD-3-Clause
"""SIFT on a whole patch as the MATLAB baselines compute it with VLFeat (own implementation).

One upright frame at the centre with scale s/2 and magnification 1/2, so a spatial bin is s/4 wide and the
4 x 4 grid spans the patch exactly. No smoothing, no dominant orientation. This and OpenCV's `sift` are
different methods: the grid, the blur, the angle and the rounding differ.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BINS, DIRECTIONS = 4, 8
_VLFEAT_CHUNK = 64
_EPSILON = float(np.finfo(np.float32).eps)


def gradient(patches: Array) -> tuple[Array, Array]:
    """Derivatives along x and y: half the difference of the neighbours, one-sided at the border.

    >>> gradient(np.array([[[0, 2, 8]] * 3], np.uint8))[0][0, 0].tolist()
    [2.0, 4.0, 6.0]
    """
    values = np.asarray(patches, np.float64)
    return np.gradient(values, axis=2), np.gradient(values, axis=1)


@lru_cache(maxsize=8)
def spatial_weights(side: int) -> NDArray[np.float64]:
    """How much pixel (y, x) gives to spatial bin (row, column): (16, side*side).

    Bilinear between bin centres (bin 1 is centred half a bin left of the middle), times a Gaussian window
    with a standard deviation of two bins. VLFeat reads exp from a table of 257 values on [0, 25] with
    linear interpolation, off by up to 0.1 %, which decides roundings; so does this.
    """
    position = (np.arange(side) - (side - 1) / 2) / (side / 4)
    centres = np.arange(BINS) - (BINS - 1) / 2
    tent = np.maximum(0.0, 1 - np.abs(position[None] - centres[:, None]))
    grid = np.linspace(0, 25, 257)
    exponent = (position[:, None] ** 2 + position[None] ** 2) / 8
    window = np.interp(exponent, grid, np.exp(-grid))
    weights = tent[:, None, :, None] * tent[None, :, None, :] * window
    return weights.reshape(BINS * BINS, side * side)


def histograms(patches: Array) -> NDArray[np.float64]:
    """Weighted gradient histograms before normalisation, (n, 128): row, column, direction.

    A gradient of direction theta (clockwise from x, y down) lies between the directions floor(4 theta / pi)
    and the next; it gives each its share.
    """
    side = patches.shape[1]
    dx, dy = gradient(patches)
    length = np.hypot(dx, dy).reshape(len(patches), 1, -1)
    turn = np.arctan2(dy, dx).reshape(len(patches), 1, -1) * (DIRECTIONS / (2 * np.pi))
    low = np.floor(turn)
    share = turn - low
    bin_low = low.astype(np.int64) % DIRECTIONS
    planes = np.zeros((len(patches), DIRECTIONS, side * side))
    np.put_along_axis(planes, bin_low, length * (1 - share), axis=1)
    np.put_along_axis(planes, (bin_low + 1) % DIRECTIONS, length * share, axis=1)
    summed = planes @ spatial_weights(side).T
    return summed.transpose(0, 2, 1).reshape(len(patches), -1)


def clamp_and_normalise(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """To length 1, entries cut at 0.2, to length 1 again; a zero row stays zero."""
    unit = values / (np.linalg.norm(values, axis=1, keepdims=True) + _EPSILON)
    cut = np.minimum(unit, 0.2)
    return cut / (np.linalg.norm(cut, axis=1, keepdims=True) + _EPSILON)


class VLFeatSift:
    """VLFeat's SIFT on the whole patch: 128 whole numbers, 512 times the unit vector, at most 255.

    >>> VLFeatSift().describe(np.arange(25, dtype=np.uint8).reshape(1, 5, 5)).shape
    (1, 128)
    """

    name = "vlfeat-sift"
    distance = "l2"

    def describe(self, patches: Array) -> NDArray[np.uint8]:
        """(n, s, s) -> (n, 128)."""
        out = np.zeros((len(patches), BINS * BINS * DIRECTIONS), np.uint8)
        for i in range(0, len(patches), _VLFEAT_CHUNK):
            values = clamp_and_normalise(histograms(patches[i : i + _VLFEAT_CHUNK]))
            out[i : i + _VLFEAT_CHUNK] = np.minimum(512 * values, 255).astype(np.uint8)
        return out
