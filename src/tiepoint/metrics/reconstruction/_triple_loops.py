# SPDX-License-Identifier: BSD-3-Clause
"""Compiled loops for `imc_centres`: fit a similarity to every triple of points and count its inliers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.numba_cache import cached_njit

Array = NDArray[Any]
_SWEEPS = 12
_SEEN = 1 << 16
"""Number of entries in the hash table of inlier sets that have been fitted."""


@cached_njit(nogil=True)
def most_inliers(x: Array, y: Array, thresholds: Array, best: Array) -> None:
    """Set `best` (k,) to the largest number of inliers that a single similarity has at each threshold.

    `x` and `y` (n, 3) are finite, `thresholds` (k,) ascend. A similarity is fitted to every triple of points.
    A second one is fitted to its inliers at each threshold, if there are at least three; the inliers of the
    second one count at all thresholds. A set of inliers is fitted only once; sets are distinguished by the
    sum of a random 64-bit number for each point.
    """
    n, k = len(x), len(thresholds)
    squared = thresholds * thresholds
    level, refined = np.empty(n, np.int64), np.empty(n, np.int64)
    count, good = np.empty(k, np.int64), np.empty(k, np.int64)
    keys, key = np.empty(n, np.uint64), np.empty(k, np.uint64)
    for i in range(n):
        keys[i] = _mixed(np.uint64(i + 1))
    seen = np.zeros(_SEEN, np.uint64)
    chosen, three = np.empty(n, np.int64), np.int64(3)  # a literal 3 would be compiled separately
    sim = np.empty(12)
    work = np.empty((4, 4, 4))
    for a in range(n - 2):
        for b in range(a + 1, n - 1):
            for c in range(b + 1, n):
                chosen[0], chosen[1], chosen[2] = a, b, c
                _fit(x, y, chosen, three, sim, work)
                _levels(x, y, sim, squared, level, count)
                _sum_keys(level, keys, key)
                for q in range(k):
                    # The inliers of a threshold are among those of the next one.
                    if count[q] < 3 or (q > 0 and count[q] == count[q - 1]):
                        continue
                    place = key[q] & np.uint64(_SEEN - 1)
                    if seen[place] == key[q]:
                        continue
                    seen[place] = key[q]
                    m = np.int64(0)
                    for i in range(n):
                        if level[i] <= q:
                            chosen[m] = i
                            m += 1
                    if m == 3 and chosen[0] == a and chosen[1] == b and chosen[2] == c:
                        # The similarity of the triple itself.
                        for r in range(k):
                            best[r] = max(best[r], count[r])
                        continue
                    _fit(x, y, chosen, m, sim, work)
                    _levels(x, y, sim, squared, refined, good)
                    for r in range(k):
                        best[r] = max(best[r], good[r])
                if best[0] == n:
                    return


@cached_njit(nogil=True)
def _levels(x: Array, y: Array, sim: Array, squared: Array, level: Array, count: Array) -> None:
    """Set each point's tightest threshold `level` (n,) and the inliers at each threshold `count` (k,).

    `level` holds indices of thresholds. `sim` is the similarity as nine values of s R by rows, then t. A
    point beyond the last of the k thresholds has level k.
    """
    k = len(squared)
    count[:] = 0
    for i in range(len(x)):
        u, v, w = x[i, 0], x[i, 1], x[i, 2]
        du = sim[0] * u + sim[1] * v + sim[2] * w + sim[9] - y[i, 0]
        dv = sim[3] * u + sim[4] * v + sim[5] * w + sim[10] - y[i, 1]
        dw = sim[6] * u + sim[7] * v + sim[8] * w + sim[11] - y[i, 2]
        error = du * du + dv * dv + dw * dw
        first = k
        while first > 0 and error < squared[first - 1]:
            first -= 1
        level[i] = first
        if first < k:
            count[first] += 1
    for q in range(1, k):
        count[q] += count[q - 1]


@cached_njit(nogil=True)
def _mixed(value: Any) -> Any:
    """Return a pseudo-random 64-bit number for an integer (the finaliser of SplitMix64)."""
    z = value * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@cached_njit(nogil=True)
def _sum_keys(level: Array, keys: Array, key: Array) -> None:
    """Set `key` (k,) to the sum of the `keys` of the inliers at each threshold."""
    k = len(key)
    key[:] = np.uint64(0)
    for i in range(len(level)):
        if level[i] < k:
            key[level[i]] += keys[i]
    for q in range(1, k):
        key[q] += key[q - 1]


@cached_njit(nogil=True)
def _fit(x: Array, y: Array, chosen: Array, m: int, sim: Array, work: Array) -> None:
    """Set `sim` to the similarity from x to y that fits the chosen points.

    The rotation is Horn's, the scale the ratio of spreads. Coinciding points give NaN, which has no inliers.
    """
    n, v, h, mean_x, mean_y = work[0], work[1], work[2], work[3, 0], work[3, 1]
    work[2:] = 0.0
    for k in range(m):
        for r in range(3):
            mean_x[r] += x[chosen[k], r]
            mean_y[r] += y[chosen[k], r]
    for r in range(3):
        mean_x[r] /= m
        mean_y[r] /= m
    spread_x, spread_y = 0.0, 0.0
    for k in range(m):
        i = chosen[k]
        for r in range(3):
            dx, dy = x[i, r] - mean_x[r], y[i, r] - mean_y[r]
            spread_x += dx * dx
            spread_y += dy * dy
            for c in range(3):
                h[r, c] += dx * (y[i, c] - mean_y[c])
    scale = np.sqrt(spread_y / spread_x) if spread_x > 0 else np.nan
    n[0, 0] = h[0, 0] + h[1, 1] + h[2, 2]
    n[0, 1] = h[1, 2] - h[2, 1]
    n[0, 2] = h[2, 0] - h[0, 2]
    n[0, 3] = h[0, 1] - h[1, 0]
    n[1, 1] = h[0, 0] - h[1, 1] - h[2, 2]
    n[1, 2] = h[0, 1] + h[1, 0]
    n[1, 3] = h[2, 0] + h[0, 2]
    n[2, 2] = -h[0, 0] + h[1, 1] - h[2, 2]
    n[2, 3] = h[1, 2] + h[2, 1]
    n[3, 3] = -h[0, 0] - h[1, 1] + h[2, 2]
    for r in range(4):
        for c in range(r):
            n[r, c] = n[c, r]
    _largest(n, v)
    top = 0
    for r in range(1, 4):
        if n[r, r] > n[top, top]:
            top = r
    qw, qx, qy, qz = v[0, top], v[1, top], v[2, top], v[3, top]
    sim[0] = scale * (qw * qw + qx * qx - qy * qy - qz * qz)
    sim[1] = scale * 2 * (qx * qy - qw * qz)
    sim[2] = scale * 2 * (qx * qz + qw * qy)
    sim[3] = scale * 2 * (qx * qy + qw * qz)
    sim[4] = scale * (qw * qw - qx * qx + qy * qy - qz * qz)
    sim[5] = scale * 2 * (qy * qz - qw * qx)
    sim[6] = scale * 2 * (qx * qz - qw * qy)
    sim[7] = scale * 2 * (qy * qz + qw * qx)
    sim[8] = scale * (qw * qw - qx * qx - qy * qy + qz * qz)
    for r in range(3):
        sim[9 + r] = mean_y[r]
        for c in range(3):
            sim[9 + r] -= sim[3 * r + c] * mean_x[c]


@cached_njit(nogil=True)
def _largest(n: Array, v: Array) -> None:
    """Diagonalise the symmetric 4x4 matrix `n` in place by Jacobi rotations. `v` gets the eigenvectors."""
    for r in range(4):
        for c in range(4):
            v[r, c] = 1.0 if r == c else 0.0
    for _ in range(_SWEEPS):
        off, size = 0.0, 0.0
        for r in range(4):
            size += n[r, r] * n[r, r]
            for c in range(r):
                off += n[r, c] * n[r, c]
        if not off > 1e-30 * size:
            return
        for p in range(3):
            for q in range(p + 1, 4):
                if n[p, q] == 0:
                    continue
                theta = (n[q, q] - n[p, p]) / (2 * n[p, q])
                t = 1.0 / (abs(theta) + np.sqrt(theta * theta + 1))
                if theta < 0:
                    t = -t
                c_ = 1.0 / np.sqrt(t * t + 1)
                s_ = t * c_
                for k in range(4):
                    a, b = n[k, p], n[k, q]
                    n[k, p], n[k, q] = c_ * a - s_ * b, s_ * a + c_ * b
                for k in range(4):
                    a, b = n[p, k], n[q, k]
                    n[p, k], n[q, k] = c_ * a - s_ * b, s_ * a + c_ * b
                for k in range(4):
                    a, b = v[k, p], v[k, q]
                    v[k, p], v[k, q] = c_ * a - s_ * b, s_ * a + c_ * b
