# SPDX-License-Identifier: BSD-3-Clause
"""Loops of the dense-SIFT matcher: descriptor products over a window of displacements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]


@njit(cache=True, nogil=True, fastmath=False)
def window_cost(first: Array, second: Array, flow: Array, radius: int) -> Array:
    """Cost (h, w, k) of the ``(2 radius + 1)^2`` displacements around a flow: 1 - cosine, targets clamped."""
    height, width, depth = first.shape
    h2, w2 = second.shape[0], second.shape[1]
    side = 2 * radius + 1
    cost = np.empty((height, width, side * side), np.float32)
    for y in range(height):
        for x in range(width):
            for j in range(side):
                ty = min(max(y + flow[y, x, 1] + j - radius, 0), h2 - 1)
                for i in range(side):
                    tx = min(max(x + flow[y, x, 0] + i - radius, 0), w2 - 1)
                    total = np.float32(0)
                    for c in range(depth):
                        total += first[y, x, c] * second[ty, tx, c]
                    cost[y, x, j * side + i] = np.float32(1) - total
    return cost


@njit(cache=True, nogil=True)
def diagonal_mean(cost: Array, radius: int) -> Array:
    """Mean of a full cost volume (h, w, H, W) over neighbours with the same displacement."""
    height, width, h2, w2 = cost.shape
    out = np.empty_like(cost)
    for y in range(height):
        for x in range(width):
            for v in range(h2):
                for u in range(w2):
                    total = np.float32(0)
                    n = 0
                    for j in range(-radius, radius + 1):
                        if not (0 <= y + j < height and 0 <= v + j < h2):
                            continue
                        for i in range(-radius, radius + 1):
                            if 0 <= x + i < width and 0 <= u + i < w2:
                                total += cost[y + j, x + i, v + j, u + i]
                                n += 1
                    # Few neighbours mean a target at the border: its mean is pulled up to be no bargain.
                    out[y, x, v, u] = total / n + np.float32(0.02) * (1 - n / (2 * radius + 1) ** 2)
    return out
