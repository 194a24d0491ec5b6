# SPDX-License-Identifier: BSD-3-Clause
"""Resizing by the rules of OpenCV, without it.

No score depends on which version is installed, or whether one is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Taps = tuple[NDArray[np.int64], NDArray[Any]]


@lru_cache(maxsize=64)
def taps(old: int, new: int, *, dtype: type = np.float32, keep_weight: bool = False) -> Taps:
    """The two contributors (2, new) of every output position, and their weights (2, new).

    Half-pixel centres: ``f = (d + 0.5) * old/new - 0.5``, ``s = floor(f)``, weights ``1 - (f - s)`` and
    ``f - s``. No antialiasing. Beyond the border OpenCV clips the indices; along x it also sets the weight to
    0, along y it keeps it (`keep_weight`), which matters only for fixed-point rounding.

    >>> taps(2, 4)[0].tolist()
    [[0, 0, 0, 1], [1, 1, 1, 1]]
    >>> taps(2, 4)[1].tolist()
    [[1.0, 0.75, 0.25, 1.0], [0.0, 0.25, 0.75, 0.0]]
    """
    scale = 1.0 / (new / old)
    f: NDArray[Any] = ((np.arange(new) + 0.5) * scale - 0.5).astype(dtype)
    s = np.floor(f)
    f = f - s
    first = s.astype(np.int64)
    if not keep_weight:
        f[(first < 0) | (first >= old - 1)] = 0
        first = np.clip(first, 0, old - 1)
    second = np.clip(first + 1, 0, old - 1)
    first = np.clip(first, 0, old - 1)
    places, weights = np.stack([first, second]), np.stack([1 - f, f])
    # Shared by all callers: a dataset has few sizes, and making taps costs as much as using them.
    places.flags.writeable = weights.flags.writeable = False
    return places, weights


def resize_u8(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Resize uint8 (h, w) or (h, w, c) as ``cv2.resize(…, INTER_LINEAR)`` does, to the bit.

    Weights are rounded to 1/2048; an exact halving of both sides is a 2 x 2 mean, as in OpenCV.

    >>> resize_u8(np.array([[0, 255]], np.uint8), 1, 4).tolist()
    [[0, 64, 191, 255]]
    """
    old_h, old_w = image.shape[:2]
    if (old_h, old_w) == (height, width):
        return image.copy()
    stack = np.ascontiguousarray(image.reshape(old_h, old_w, -1))
    channels = stack.shape[2]
    if (old_h, old_w) == (2 * height, 2 * width):
        quads = stack.reshape(height, 2, width, 2, -1).astype(np.uint16).sum(axis=(1, 3))
        out = ((quads + 2) >> 2).astype(np.uint8)
    else:
        from ._bilinear_loops import resize_bytes

        xs, fx = taps(old_w, width)
        ys, fy = taps(old_h, height, keep_weight=True)
        places = (xs[:, :, None] * channels + np.arange(channels)).reshape(2, -1)
        weights = np.repeat(_fixed(fx), channels, axis=1)
        out = resize_bytes(stack.reshape(old_h, -1), places, weights, ys, _fixed(fy))
    return out.reshape((height, width, *image.shape[2:]))


def _fixed(weights: NDArray[Any]) -> NDArray[np.int32]:
    return np.rint(weights * np.float32(2048)).astype(np.int32)
