# SPDX-License-Identifier: BSD-3-Clause
"""Bilinear resizing in OpenCV's arithmetic, without OpenCV. Loops only; `bilinear.py` has the rules."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]


@njit(cache=True, nogil=True)
def _flow_line(flow: Array, x0: Array, x1: Array, f0: Array, f1: Array, line: Array) -> None:
    """Horizontal pass of one source row: u, v and known (0 or 1), each into a row of `line`."""
    limit = np.float32(1e9)
    zero, one = line.dtype.type(0), line.dtype.type(1)
    for x in range(x0.size):
        a, b = x0[x], x1[x]
        ua, va, ub, vb = flow[a, 0], flow[a, 1], flow[b, 0], flow[b, 1]
        line[0, x] = ua * f0[x] + ub * f1[x]
        line[1, x] = va * f0[x] + vb * f1[x]
        ka = one if abs(ua) <= limit and abs(va) <= limit else zero
        kb = one if abs(ub) <= limit and abs(vb) <= limit else zero
        line[2, x] = ka * f0[x] + kb * f1[x]


@njit(cache=True, nogil=True)
def resize_flow(
    flow: Array,
    xs: Array,
    fx: Array,
    ys: Array,
    fy: Array,
    ax: Array,
    ay: Array,
    to: Array,
    bx: Array,
    by: Array,
) -> Array:
    """``(r + a) * to[0] / to[1] - b`` for u and, with ``to[2:]``, for v; 1e10 where a contributor is unknown.

    `xs`, `ys` (2, n) are the two contributors of every output column and row, `fx`, `fy` their weights.
    All arithmetic is in the type of the weights, in the order written.
    """
    unknown = fx.dtype.type(1e10)
    height, width = ys.shape[1], xs.shape[1]
    out = np.empty((height, width, 2), fx.dtype)
    lines = np.empty((2, 3, width), fx.dtype)
    held = np.full(2, -1, np.int64)
    for y in range(height):
        if held[1] == ys[0, y] and held[0] != ys[0, y]:
            lines[0] = lines[1]
            held[0] = held[1]
        for k in range(2):
            if held[k] != ys[k, y]:
                held[k] = ys[k, y]
                _flow_line(flow[held[k]], xs[0], xs[1], fx[0], fx[1], lines[k])
        top, bottom = lines[0], lines[1]
        g0, g1 = fy[0, y], fy[1, y]
        for x in range(width):
            u = top[0, x] * g0 + bottom[0, x] * g1
            v = top[1, x] * g0 + bottom[1, x] * g1
            ok = top[2, x] * g0 + bottom[2, x] * g1 == 1
            out[y, x, 0] = (u + ax[x]) * to[0] / to[1] - bx[x] if ok else unknown
            out[y, x, 1] = (v + ay[y]) * to[2] / to[3] - by[y] if ok else unknown
    return out


@njit(cache=True, nogil=True)
def resize_bytes(image: Array, xs: Array, cx: Array, ys: Array, cy: Array) -> Array:
    """OpenCV's fixed-point resize of uint8 (h, w, c); `cx`, `cy` are the weights times 2048, int32."""
    height, width, channels = ys.shape[1], xs.shape[1], image.shape[2]
    out = np.empty((height, width * channels), np.uint8)
    lines = np.empty((2, width * channels), np.int32)
    held = np.full(2, -1, np.int64)
    for y in range(height):
        if held[1] == ys[0, y] and held[0] != ys[0, y]:
            lines[0] = lines[1]
            held[0] = held[1]
        for k in range(2):
            if held[k] == ys[k, y]:
                continue
            held[k] = ys[k, y]
            for x in range(width):
                a, b, ca, cb = xs[0, x], xs[1, x], cx[0, x], cx[1, x]
                for c in range(channels):
                    lines[k, x * channels + c] = image[held[k], a, c] * ca + image[held[k], b, c] * cb
        g0, g1 = cy[0, y], cy[1, y]
        for i in range(width * channels):
            total = ((g0 * (lines[0, i] >> 4)) >> 16) + ((g1 * (lines[1, i] >> 4)) >> 16)
            out[y, i] = (total + 2) >> 2
    return out.reshape(height, width, channels)
