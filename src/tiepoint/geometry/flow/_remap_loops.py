# SPDX-License-Identifier: BSD-3-Clause
"""Compiled loops that sample images and flows where a flow points to; see `warp` for the conventions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.numba_cache import cached_njit

Array = NDArray[Any]
_FAR = 1 << 24


@cached_njit(nogil=True)
def _fixed(position: np.float32) -> int:
    """Return ``rint(32 * position)``. NaN and huge values become a position far outside the image."""
    scaled = np.float32(position) * np.float32(32)
    if not abs(scaled) < _FAR:
        return -_FAR
    return int(np.rint(scaled))


@cached_njit(nogil=True)
def remap_float(source: Array, flow: Array, border: float) -> Array:
    """Sample a float32 flow (h, w, 2) at ``p + flow(p)``, rounded to 1/32 px. Pixels outside are `border`."""
    height, width = source.shape[0], source.shape[1]
    out = np.empty((flow.shape[0], flow.shape[1], 2), np.float32)
    outside = np.float32(border)
    step = np.float32(1 / 32)
    one = np.float32(1)
    for y in range(flow.shape[0]):
        for x in range(flow.shape[1]):
            fx = _fixed(np.float32(x) + flow[y, x, 0])
            fy = _fixed(np.float32(y) + flow[y, x, 1])
            sx, sy = fx >> 5, fy >> 5
            if sx >= width or sx + 1 < 0 or sy >= height or sy + 1 < 0:
                out[y, x, 0] = outside
                out[y, x, 1] = outside
                continue
            ax, ay = np.float32(fx & 31) * step, np.float32(fy & 31) * step
            w00, w01 = (one - ay) * (one - ax), (one - ay) * ax
            w10, w11 = ay * (one - ax), ay * ax
            for c in range(2):
                v00 = source[sy, sx, c] if sx >= 0 and sy >= 0 else outside
                v01 = source[sy, sx + 1, c] if sx + 1 < width and sy >= 0 else outside
                v10 = source[sy + 1, sx, c] if sx >= 0 and sy + 1 < height else outside
                v11 = source[sy + 1, sx + 1, c] if sx + 1 < width and sy + 1 < height else outside
                out[y, x, c] = v00 * w00 + v01 * w01 + v10 * w10 + v11 * w11
    return out


@cached_njit(nogil=True)
def remap_bytes(source: Array, flow: Array, border: Array) -> Array:
    """Sample a uint8 image (h, w, c) at ``p + flow(p)``, rounded to 1/32 px. Pixels outside are `border`."""
    height, width, channels = source.shape
    out = np.empty((flow.shape[0], flow.shape[1], channels), np.uint8)
    for y in range(flow.shape[0]):
        for x in range(flow.shape[1]):
            fx = _fixed(np.float32(x) + flow[y, x, 0])
            fy = _fixed(np.float32(y) + flow[y, x, 1])
            sx, sy = fx >> 5, fy >> 5
            ax, ay = fx & 31, fy & 31
            for c in range(channels):
                total = 512
                for j in range(2):
                    for i in range(2):
                        weight = (ay if j else 32 - ay) * (ax if i else 32 - ax)
                        inside = 0 <= sx + i < width and 0 <= sy + j < height
                        total += weight * (source[sy + j, sx + i, c] if inside else border[c])
                out[y, x, c] = total >> 10
    return out


@cached_njit(nogil=True)
def sample_flow(source: Array, flow: Array) -> Array:
    """Sample a flow (h, w, 2) bilinearly at ``p + flow(p)``; NaN outside and next to unknown flow."""
    height, width = source.shape[0], source.shape[1]
    out = np.full((flow.shape[0], flow.shape[1], 2), np.nan)
    for y in range(flow.shape[0]):
        for x in range(flow.shape[1]):
            px, py = x + np.float64(flow[y, x, 0]), y + np.float64(flow[y, x, 1])
            if not (px >= 0 and px <= width - 1 and py >= 0 and py <= height - 1):
                continue
            sx, sy = min(int(px), max(width - 2, 0)), min(int(py), max(height - 2, 0))
            ax, ay = px - sx, py - sy
            u = v = 0.0
            for j in range(2):
                for i in range(2):
                    weight = (ay if j else 1 - ay) * (ax if i else 1 - ax)
                    if weight == 0:
                        continue
                    su, sv = source[sy + j, sx + i, 0], source[sy + j, sx + i, 1]
                    if not (abs(su) <= 1e9 and abs(sv) <= 1e9):
                        u = v = np.nan
                    else:
                        u += weight * su
                        v += weight * sv
            out[y, x, 0] = u
            out[y, x, 1] = v
    return out
