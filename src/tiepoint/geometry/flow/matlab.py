# SPDX-License-Identifier: BSD-3-Clause
"""Resizing and sampling by the rules of MATLAB, without it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .reference_resize import Array


def imresize(image: NDArray[Any], height: int, width: int) -> NDArray[np.float64]:
    """MATLAB's `imresize(…, 'bilinear')`, emulated: antialiased when it shrinks, in double precision.

    Resize (h, w) or (h, w, c) to float64 (height, width[, c]) with MATLAB's weights.

    A triangle of half-width 1, stretched by the inverse scale when shrinking (that is the antialiasing),
    weights normalised to sum 1, borders mirrored, the dimension with the smaller scale first.
    Emulated from its public description; not validated against MATLAB itself.

    >>> imresize(np.array([[0.0, 4.0, 8.0, 12.0]]), 1, 2).tolist()
    [[2.5, 9.5]]
    """
    out = np.asarray(image, np.float64)
    sizes = ((0, height), (1, width))
    for axis, new in sorted(sizes, key=lambda s: s[1] / image.shape[s[0]]):
        out = _along(out, axis, new)
    return out


def _along(image: NDArray[np.float64], axis: int, new: int) -> NDArray[np.float64]:
    old = image.shape[axis]
    weights, indices = contributions(old, new)
    rows = np.moveaxis(image, axis, 0)
    total = np.zeros((new, *rows.shape[1:]))
    shape = (new,) + (1,) * (rows.ndim - 1)
    for k in range(weights.shape[1]):
        if weights[:, k].any():
            total += weights[:, k].reshape(shape) * rows[indices[:, k]]
    return np.moveaxis(total, 0, axis)


def contributions(old: int, new: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Weights and source indices, both (new, taps), of every output position along one dimension.

    >>> weights, indices = contributions(4, 2)
    >>> float(weights.sum(axis=1)[0]), int(indices.max())
    (1.0, 3)
    """
    scale = new / old
    shrink = min(scale, 1.0)
    support = 2.0 / shrink
    # 1-based positions as in MATLAB: its rounding decides which weights are exactly zero.
    u = np.arange(1, new + 1) / scale + 0.5 * (1 - 1 / scale)
    left = np.floor(u - support / 2)
    index = left[:, None] + np.arange(math.ceil(support) + 2)
    distance = np.abs((u[:, None] - index) * shrink)
    weights = shrink * np.maximum(1 - distance, 0)
    weights /= weights.sum(axis=1, keepdims=True)
    mirrored = np.concatenate([np.arange(old), np.arange(old)[::-1]])
    return weights, mirrored[(index.astype(np.int64) - 1) % (2 * old)]


def interp2_cubic(values: Array, x: Array, y: Array) -> Array:
    """MATLAB's `interp2(…, 'cubic')`, emulated: cubic convolution with a = -1/2.

    Values (h, w) or (h, w, c) at 0-based positions x, y, by cubic convolution over 4 x 4 samples.

    One row or column beyond each border is extrapolated by a parabola, ``3 a - 3 b + c``. Positions must lie
    in ``[0, w-1] x [0, h-1]``; clip them before and mask them after. Both sides need three samples.

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
