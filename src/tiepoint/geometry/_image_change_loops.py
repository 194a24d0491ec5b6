# SPDX-License-Identifier: BSD-3-Clause
"""Compiled loops that warp, blur, quantise and add noise; see `image_changes` for the rules.

All arithmetic is float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.numba_cache import cached_njit
from ..core.splitmix import splitmix64

Array = NDArray[Any]
_NEAR = 1e-9


@cached_njit(nogil=True)
def warp(image: Array, inverse: Array, width: int, height: int, samples: int, fill: Array) -> Array:
    """Warp an image; each output pixel is the mean of samples x samples bilinear samples, (height, width, c).

    `inverse` maps output pixels to pixels of `image` (h, w, c). Samples outside the image have the value
    `fill` (c,).
    """
    h, w, channels = image.shape
    out = np.empty((height, width, channels))
    offsets = (np.arange(samples) + 0.5) / samples - 0.5
    total = np.empty(channels)
    for i in range(height):
        for j in range(width):
            total[:] = 0.0
            for q in range(samples):
                y = i + offsets[q]
                for p in range(samples):
                    x = j + offsets[p]
                    d = inverse[2, 0] * x + inverse[2, 1] * y + inverse[2, 2]
                    u = (inverse[0, 0] * x + inverse[0, 1] * y + inverse[0, 2]) / d
                    v = (inverse[1, 0] * x + inverse[1, 1] * y + inverse[1, 2]) / d
                    near_u, near_v = np.rint(u), np.rint(v)
                    u = near_u if abs(u - near_u) <= _NEAR else u
                    v = near_v if abs(v - near_v) <= _NEAR else v
                    if not (-0.5 <= u < w - 0.5 and -0.5 <= v < h - 0.5):
                        for c in range(channels):
                            total[c] += fill[c]
                        continue
                    u = min(max(u, 0.0), w - 1.0)
                    v = min(max(v, 0.0), h - 1.0)
                    x0, y0 = int(u), int(v)
                    x1, y1 = min(x0 + 1, w - 1), min(y0 + 1, h - 1)
                    a, b = u - x0, v - y0
                    for c in range(channels):
                        top = image[y0, x0, c] * (1.0 - a) + image[y0, x1, c] * a
                        low = image[y1, x0, c] * (1.0 - a) + image[y1, x1, c] * a
                        total[c] += top * (1.0 - b) + low * b
            for c in range(channels):
                out[i, j, c] = total[c] / (samples * samples)
    return out


@cached_njit(nogil=True)
def blur(image: Array, weights: Array) -> Array:
    """Correlate the rows, then the columns of `image` (h, w, c) with 1-D `weights`; repeat the edge."""
    h, w, channels = image.shape
    radius = weights.size // 2
    padded = np.empty((w + 2 * radius) * channels)
    rows = np.zeros((h, w * channels))
    for y in range(h):
        for x in range(w + 2 * radius):
            source = min(max(x - radius, 0), w - 1)
            for c in range(channels):
                padded[x * channels + c] = image[y, source, c]
        for t in range(weights.size):
            part = padded[t * channels : t * channels + w * channels]
            row, weight = rows[y], weights[t]
            for x in range(w * channels):
                row[x] += weight * part[x]
    out = np.zeros((h, w * channels))
    for y in range(h):
        for t in range(weights.size):
            part = rows[min(max(y + t - radius, 0), h - 1)]
            row, weight = out[y], weights[t]
            for x in range(w * channels):
                row[x] += weight * part[x]
    return out.reshape(h, w, channels)


@cached_njit(nogil=True)
def normals(seed: np.uint64, out: Array) -> None:
    """Fill `out` (n,) with standard normal numbers: Box-Muller transform of SplitMix64 numbers."""
    scale = 1.0 / 2.0**53
    for p in range(out.size):
        first = splitmix64(seed + np.uint64(2 * p)) >> np.uint64(11)
        second = splitmix64(seed + np.uint64(2 * p + 1)) >> np.uint64(11)
        u, v = (np.float64(first) + 0.5) * scale, (np.float64(second) + 0.5) * scale
        out[p] = math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)


@cached_njit(nogil=True)
def _transform(first: Array, block: Array, second: Array, half: Array, out: Array) -> None:
    """Set `out` to first @ block @ second.T for 8 x 8 matrices, summing in the order of the indices."""
    for i in range(8):
        for j in range(8):
            total = 0.0
            for k in range(8):
                total += first[i, k] * block[k, j]
            half[i, j] = total
    for i in range(8):
        for j in range(8):
            total = 0.0
            for k in range(8):
                total += half[i, k] * second[j, k]
            out[i, j] = total


@cached_njit(nogil=True)
def quantise(image: Array, cosines: Array, factors: Array, steps: Array) -> Array:
    """Round the DCT coefficients of 8 x 8 blocks of `image` (h, w, c) to multiples of `steps`.

    The DCT multiplies a block by `cosines` on both sides and by `factors`. Halves are rounded away from 0.
    Incomplete blocks repeat the last row and column. The order of all sums is fixed, because the last bit
    decides how a half is rounded. The square of 1/sqrt(2) is just below 1/2 in float64, so that exact halves
    of the mean coefficient are rounded towards 0.
    """
    h, w, channels = image.shape
    out = np.empty_like(image)
    block, half, found = np.empty((8, 8)), np.empty((8, 8)), np.empty((8, 8))
    back = np.ascontiguousarray(cosines.T)
    for top in range(0, h, 8):
        for left in range(0, w, 8):
            for c in range(channels):
                for i in range(8):
                    for j in range(8):
                        block[i, j] = image[min(top + i, h - 1), min(left + j, w - 1), c] - 128.0
                _transform(cosines, block, cosines, half, found)
                for i in range(8):
                    for j in range(8):
                        value = found[i, j] * factors[i, j] / steps[i, j]
                        whole = math.copysign(math.floor(abs(value) + 0.5), value)
                        found[i, j] = whole * steps[i, j] * factors[i, j]
                _transform(back, found, back, half, block)
                for i in range(min(8, h - top)):
                    for j in range(min(8, w - left)):
                        out[top + i, left + j, c] = block[i, j] + 128.0
    return out
