# SPDX-License-Identifier: BSD-3-Clause
"""Loops of the dense-SIFT matcher: matching costs in a window, and belief propagation over displacements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.numba_cache import cached_njit

Array = NDArray[Any]


@cached_njit(nogil=True)
def window_cost(first: Array, second: Array, flow: Array, ry: int, rx: int, limit: float) -> Array:
    """Return the matching costs (h, w, 2 ry + 1, 2 rx + 1) of all displacements in a window around `flow`.

    `first` and `second` are descriptors of unit length, (h, w, d). The cost of a displacement is 1 - cosine,
    at most `limit`. A displacement that points outside image 2 costs `limit`.
    """
    height, width, depth = first.shape
    h2, w2 = second.shape[0], second.shape[1]
    top = np.float32(limit)
    cost = np.full((height, width, 2 * ry + 1, 2 * rx + 1), top, np.float32)
    for y in range(height):
        for x in range(width):
            for j in range(2 * ry + 1):
                ty = y + flow[y, x, 1] + j - ry
                if ty < 0 or ty >= h2:
                    continue
                for i in range(2 * rx + 1):
                    tx = x + flow[y, x, 0] + i - rx
                    if tx < 0 or tx >= w2:
                        continue
                    total = np.float32(0)
                    for c in range(depth):
                        total += first[y, x, c] * second[ty, tx, c]
                    cost[y, x, j, i] = min(np.float32(1) - total, top)
    return cost


@cached_njit(nogil=True)
def _send(belief: Array, back: Array, dy: int, dx: int, slope: float, cut: float, out: Array) -> None:
    """Compute the belief-propagation message of a pixel to one neighbour, and write it to `out`.

    For each displacement d of the neighbour, ``out(d)`` is the minimum over the pixel's displacements e of
    ``belief(e) - back(e) + min(slope |d - e|_1, cut)``. `back` is the last message of the neighbour. The
    minimum of `out` is then subtracted. (dy, dx) is the offset between the search windows of the two pixels.
    """
    ny, nx = belief.shape
    lowest = np.float32(np.inf)
    s = np.float32(slope)
    field = np.empty((ny, nx), np.float32)
    for j in range(ny):
        for i in range(nx):
            field[j, i] = belief[j, i] - back[j, i]
            lowest = min(lowest, field[j, i])
    for j in range(ny):
        for i in range(1, nx):
            field[j, i] = min(field[j, i], field[j, i - 1] + s)
        for i in range(nx - 2, -1, -1):
            field[j, i] = min(field[j, i], field[j, i + 1] + s)
    for j in range(1, ny):
        for i in range(nx):
            field[j, i] = min(field[j, i], field[j - 1, i] + s)
    for j in range(ny - 2, -1, -1):
        for i in range(nx):
            field[j, i] = min(field[j, i], field[j + 1, i] + s)
    ceiling = lowest + np.float32(cut)
    for j in range(ny):
        for i in range(nx):
            # Beyond the sender's window the cost grows by `slope` per pixel from its border, exact for l1.
            sj, si = j + dy, i + dx
            cj, ci = min(max(sj, 0), ny - 1), min(max(si, 0), nx - 1)
            far = s * (abs(sj - cj) + abs(si - ci))
            out[j, i] = min(field[cj, ci] + far, ceiling) - lowest


@cached_njit(nogil=True)
def propagate(cost: Array, flow: Array, slope: float, cut: float, rounds: int) -> Array:
    """Smooth a flow by min-sum belief propagation. Return the best window index (i, j) per pixel, (h, w, 2).

    `cost` has the costs of all displacements in a window around `flow`, the integer flow (h, w, 2). A
    difference between the displacements of neighbouring pixels costs `slope` per pixel, at most `cut`.
    """
    height, width, ny, nx = cost.shape
    # Messages into a pixel from its left, right, upper and lower neighbour.
    inbox = np.zeros((4, height, width, ny, nx), np.float32)
    belief = np.empty((ny, nx), np.float32)
    for _ in range(rounds):
        for way in range(4):
            horizontal = way < 2
            lines = height if horizontal else width
            length = width if horizontal else height
            for line in range(lines):
                for k in range(length - 1):
                    at = k if way % 2 == 0 else length - 1 - k
                    step = 1 if way % 2 == 0 else -1
                    y, x = (line, at) if horizontal else (at, line)
                    y2, x2 = (line, at + step) if horizontal else (at + step, line)
                    belief[:] = cost[y, x]
                    for m in range(4):
                        belief += inbox[m, y, x]
                    back = way + 1 if way % 2 == 0 else way - 1
                    dy = flow[y2, x2, 1] - flow[y, x, 1]
                    dx = flow[y2, x2, 0] - flow[y, x, 0]
                    _send(belief, inbox[back, y, x], dy, dx, slope, cut, inbox[way, y2, x2])
    best = np.empty((height, width, 2), np.int64)
    for y in range(height):
        for x in range(width):
            belief[:] = cost[y, x]
            for m in range(4):
                belief += inbox[m, y, x]
            found = np.argmin(belief)
            best[y, x, 0] = found % nx
            best[y, x, 1] = found // nx
    return best
