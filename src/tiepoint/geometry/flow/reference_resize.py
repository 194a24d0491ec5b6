# SPDX-License-Identifier: BSD-3-Clause
"""Resizing and interpolation like OpenCV and MATLAB, without calling either.

Scores therefore do not depend on the installed version of OpenCV.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Taps = tuple[NDArray[np.int64], NDArray[Any]]


@lru_cache(maxsize=64)
def taps(old: int, new: int, *, dtype: type = np.float32, keep_weight: bool = False) -> Taps:
    """Return indices (2, new) and weights (2, new) of the two source pixels of every output position.

    Output position d corresponds to the source position ``f = (d + 0.5) * old/new - 0.5`` (half-pixel
    centres). With ``s = floor(f)``, the weights are ``1 - (f - s)`` and ``f - s``. There is no antialiasing.
    Beyond the border OpenCV clips the indices. Along x it also moves all weight to the first pixel. Along y
    it leaves the weights (`keep_weight`), which has an effect only on fixed-point rounding.

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
    # Cached for all callers: a dataset has few sizes, and computing taps costs as much as using them.
    places.flags.writeable = weights.flags.writeable = False
    return places, weights


def resize_u8(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Resize a uint8 image (h, w) or (h, w, c), bit-identical to ``cv2.resize(…, INTER_LINEAR)``.

    Weights are rounded to 1/2048. If both sides are exactly halved, the result is a 2 x 2 mean, as in OpenCV.

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


def imresize(image: NDArray[Any], height: int, width: int) -> Array:
    """Resize an array (h, w) or (h, w, c) like MATLAB's `imresize(…, 'bilinear')`, in float64.

    The kernel is a triangle of half-width 1, stretched by the inverse scale when shrinking (antialiasing).
    Weights are normalised to sum 1, and borders are mirrored. The dimension with the smaller scale is resized
    first. The code follows the public description of `imresize` and was not validated against MATLAB.

    >>> imresize(np.array([[0.0, 4.0, 8.0, 12.0]]), 1, 2).tolist()
    [[2.5, 9.5]]
    """
    out = np.asarray(image, np.float64)
    for axis, new in sorted(((0, height), (1, width)), key=lambda s: s[1] / image.shape[s[0]]):
        weights, indices = contributions(out.shape[axis], new)
        rows = np.moveaxis(out, axis, 0)
        total = np.zeros((new, *rows.shape[1:]))
        shape = (new,) + (1,) * (rows.ndim - 1)
        for k in range(weights.shape[1]):
            if weights[:, k].any():
                total += weights[:, k].reshape(shape) * rows[indices[:, k]]
        out = np.moveaxis(total, 0, axis)
    return out


def contributions(old: int, new: int) -> tuple[Array, NDArray[np.int64]]:
    """Return weights and source indices, both (new, taps), of every output position along one dimension.

    >>> weights, indices = contributions(4, 2)
    >>> float(weights.sum(axis=1)[0]), int(indices.max())
    (1.0, 3)
    """
    scale = new / old
    shrink = min(scale, 1.0)
    support = 2.0 / shrink
    # 1-based positions as in MATLAB: the rounding decides which weights are exactly zero.
    u = np.arange(1, new + 1) / scale + 0.5 * (1 - 1 / scale)
    left = np.floor(u - support / 2)
    index = left[:, None] + np.arange(math.ceil(support) + 2)
    distance = np.abs((u[:, None] - index) * shrink)
    weights = shrink * np.maximum(1 - distance, 0)
    weights /= weights.sum(axis=1, keepdims=True)
    mirrored = np.concatenate([np.arange(old), np.arange(old)[::-1]])
    return weights, mirrored[(index.astype(np.int64) - 1) % (2 * old)]


def interp2_cubic(values: Array, x: Array, y: Array) -> Array:
    """Interpolate like MATLAB's `interp2(…, 'cubic')`: cubic convolution with a = -1/2 over 4 x 4 samples.

    `values` is (h, w) or (h, w, c) with at least three rows and columns. The positions x, y are 0-based and
    must be in ``[0, w-1] x [0, h-1]``. One row or column beyond each border is extrapolated by a parabola
    through the three nearest ones.

    >>> ramp = np.tile(np.arange(5.0), (5, 1))
    >>> interp2_cubic(ramp, np.array([1.25]), np.array([2.5])).tolist()
    [1.25]
    """
    padded = _pad(np.moveaxis(_pad(values), 0, 1))
    padded = np.moveaxis(padded, 0, 1)
    height, width = values.shape[:2]
    sx = np.clip(np.floor(x).astype(np.int64), 0, width - 2)
    sy = np.clip(np.floor(y).astype(np.int64), 0, height - 2)
    extra = (1,) * (values.ndim - 2)
    weights_x = [w.reshape(w.shape + extra) for w in _cubic_weights(x - sx)]
    weights_y = [w.reshape(w.shape + extra) for w in _cubic_weights(y - sy)]
    total = np.zeros(x.shape + values.shape[2:])
    for j in range(4):
        row = np.zeros_like(total)
        for i in range(4):
            row += weights_x[i] * padded[sy + j, sx + i]
        total += weights_y[j] * row
    return total


def _pad(a: Array) -> Array:
    first = 3 * a[0] - 3 * a[1] + a[2]
    last = 3 * a[-1] - 3 * a[-2] + a[-3]
    return np.concatenate([first[None], a, last[None]])


def _cubic_weights(t: Array) -> tuple[Array, Array, Array, Array]:
    return (
        ((2 - t) * t - 1) * t / 2,
        ((3 * t - 5) * t * t + 2) / 2,
        ((4 - 3 * t) * t + 1) * t / 2,
        (t - 1) * t * t / 2,
    )
