# SPDX-License-Identifier: BSD-3-Clause
"""MATLAB's `interp2(…, 'cubic')`, emulated: cubic convolution with a = -1/2."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def interp2_cubic(values: Array, x: Array, y: Array) -> Array:
    """Values (h, w) or (h, w, c) at 0-based positions x, y, by cubic convolution over 4 x 4 samples.

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
    weights_x = [w.reshape(w.shape + extra) for w in _weights(x - sx)]
    weights_y = [w.reshape(w.shape + extra) for w in _weights(y - sy)]
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


def _weights(t: Array) -> tuple[Array, Array, Array, Array]:
    return (
        ((2 - t) * t - 1) * t / 2,
        ((3 * t - 5) * t * t + 2) / 2,
        ((4 - 3 * t) * t + 1) * t / 2,
        (t - 1) * t * t / 2,
    )
