# SPDX-License-Identifier: BSD-3-Clause
"""Compiled loops of SURF on an integral image. Boxes are clipped to the image."""

from __future__ import annotations

import math

import numpy as np

from ...core.numba_cache import cached_njit


@cached_njit(nogil=True, inline="always")
def _box(ii, y0, x0, y1, x1):  # type: ignore[no-untyped-def]
    """Sum over rows y0 .. y1 - 1 and columns x0 .. x1 - 1, what lies outside left out."""
    h, w = ii.shape[0] - 1, ii.shape[1] - 1
    y0, y1 = min(max(y0, 0), h), min(max(y1, 0), h)
    x0, x1 = min(max(x0, 0), w), min(max(x1, 0), w)
    return ii[y1, x1] - ii[y0, x1] - ii[y1, x0] + ii[y0, x0]


@cached_njit(nogil=True)
def hessian_layer(ii, size, step, det, trace):  # type: ignore[no-untyped-def]
    """Determinant and trace of the box-filter Hessian of one filter size at every `step`-th pixel.

    The lobes are size/3 wide; sums are over 255 size², so that all sizes share one threshold on grey values
    in 0 to 1. Where the filter
    leaves the image the response is 0.
    """
    h, w = ii.shape[0] - 1, ii.shape[1] - 1
    lobe, half = size // 3, size // 2
    norm = 1.0 / (255.0 * size * size)
    for i in range(det.shape[0]):
        y = i * step
        for j in range(det.shape[1]):
            x = j * step
            if y < half or x < half or y + half >= h or x + half >= w:
                det[i, j] = 0.0
                trace[i, j] = 0.0
                continue
            side = lobe - 1
            xx = _box(ii, y - side, x - half, y + lobe, x + half + 1)
            xx -= 3 * _box(ii, y - side, x - lobe // 2, y + lobe, x + lobe // 2 + 1)
            yy = _box(ii, y - half, x - side, y + half + 1, x + lobe)
            yy -= 3 * _box(ii, y - lobe // 2, x - side, y + lobe // 2 + 1, x + lobe)
            xy = _box(ii, y - lobe, x + 1, y, x + lobe + 1) + _box(ii, y + 1, x - lobe, y + lobe + 1, x)
            xy -= _box(ii, y - lobe, x - lobe, y, x) + _box(ii, y + 1, x + 1, y + lobe + 1, x + lobe + 1)
            xx, yy, xy = xx * norm, yy * norm, xy * norm
            det[i, j] = xx * yy - 0.81 * xy * xy
            trace[i, j] = xx + yy


@cached_njit(nogil=True, inline="always")
def _haar(ii, y, x, half):  # type: ignore[no-untyped-def]
    """The two Haar wavelets of side 2 half around a pixel: right minus left, lower minus upper."""
    left = _box(ii, y - half, x - half, y + half, x)
    right = _box(ii, y - half, x, y + half, x + half)
    upper = _box(ii, y - half, x - half, y, x + half)
    lower = _box(ii, y, x - half, y + half, x + half)
    return right - left, lower - upper


@cached_njit(nogil=True)
def orientations(ii, xy, scale, out):  # type: ignore[no-untyped-def]
    """Dominant direction of Haar responses within 6 scales, in radians, y down."""
    dx, dy, angle = np.empty(113), np.empty(113), np.empty(113)
    window = math.pi / 3
    for k in range(len(xy)):
        s = scale[k]
        half = max(1, math.floor(2 * s + 0.5))
        n = 0
        for i in range(-6, 7):
            for j in range(-6, 7):
                if i * i + j * j < 36:
                    weight = math.exp(-(i * i + j * j) / (2 * 2.5 * 2.5))
                    y = math.floor(xy[k, 1] + i * s + 0.5)
                    x = math.floor(xy[k, 0] + j * s + 0.5)
                    gx, gy = _haar(ii, y, x, half)
                    dx[n], dy[n] = weight * gx, weight * gy
                    angle[n] = math.atan2(gy, gx)
                    n += 1
        best, found = -1.0, 0.0
        for step in range(72):
            start = step * (2 * math.pi / 72) - math.pi
            sx, sy = 0.0, 0.0
            for m in range(n):
                turn = angle[m] - start
                if turn < 0:
                    turn += 2 * math.pi
                if turn < window:
                    sx += dx[m]
                    sy += dy[m]
            length = sx * sx + sy * sy
            if length > best:
                best, found = length, math.atan2(sy, sx)
        out[k] = found


@cached_njit(nogil=True)
def describe(ii, xy, scale, angle, extended, out):  # type: ignore[no-untyped-def]
    """Sums of Haar responses in 4 x 4 regions of 5 x 5 samples, in the keypoint's own frame."""
    per = 8 if extended else 4
    for k in range(len(xy)):
        s, c, z = scale[k], math.cos(angle[k]), math.sin(angle[k])
        half = max(1, math.floor(s + 0.5))
        for i in range(20):
            v = i - 9.5
            for j in range(20):
                u = j - 9.5
                weight = math.exp(-(u * u + v * v) / (2 * 3.3 * 3.3))
                x = math.floor(xy[k, 0] + s * (c * u - z * v) + 0.5)
                y = math.floor(xy[k, 1] + s * (z * u + c * v) + 0.5)
                gx, gy = _haar(ii, y, x, half)
                du = weight * (c * gx + z * gy)
                dv = weight * (-z * gx + c * gy)
                at = ((i // 5) * 4 + j // 5) * per
                if extended:
                    a = at + (0 if dv < 0 else 2)
                    b = at + 4 + (0 if du < 0 else 2)
                    out[k, a] += du
                    out[k, a + 1] += abs(du)
                    out[k, b] += dv
                    out[k, b + 1] += abs(dv)
                else:
                    out[k, at] += du
                    out[k, at + 1] += abs(du)
                    out[k, at + 2] += dv
                    out[k, at + 3] += abs(dv)
