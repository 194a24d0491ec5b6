# SPDX-License-Identifier: BSD-3-Clause
"""Compiled loops for `imc_centres`: similarities of all triples of points, and how many points they fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.numba_cache import cached_njit

Array = NDArray[Any]
_SWEEPS = 12


@cached_njit(nogil=True)
def most_inliers(x: Array, y: Array, thresholds: Array, best: Array) -> None:
    """Set `best` (k,) to the largest number of points that one similarity takes nearer than each threshold.

    `x` and `y` (n, 3) are finite. Every triple gives a similarity. Its inliers under each threshold, at least
    three, give another one, whose inliers are counted under all thresholds.
    """
    n, k = len(x), len(thresholds)
    squared = thresholds * thresholds
    inside = np.empty((k, n), np.bool_)
    count = np.empty(k, np.int64)
    errors = np.empty(n)
    chosen = np.empty(n, np.int64)
    sim = np.empty(13)
    work = np.empty((2, 4, 4))
    for a in range(n - 2):
        for b in range(a + 1, n - 1):
            for c in range(b + 1, n):
                chosen[0], chosen[1], chosen[2] = a, b, c
                _fit(x, y, chosen, 3, sim, work)
                _errors(x, y, sim, errors)
                _count(errors, squared, inside, count)
                for q in range(k):
                    if count[q] < 3 or _repeated(inside, count, q):
                        continue
                    m = 0
                    for i in range(n):
                        if inside[q, i]:
                            chosen[m] = i
                            m += 1
                    if m == 3 and chosen[0] == a and chosen[1] == b and chosen[2] == c:
                        # The similarity of the triple itself.
                        for r in range(k):
                            best[r] = max(best[r], count[r])
                        continue
                    _fit(x, y, chosen, m, sim, work)
                    _errors(x, y, sim, errors)
                    for r in range(k):
                        good = 0
                        for i in range(n):
                            good += errors[i] < squared[r]
                        best[r] = max(best[r], good)
                complete = True
                for r in range(k):
                    complete = complete and best[r] == n
                if complete:
                    return


@cached_njit(nogil=True)
def _repeated(inside: Array, count: Array, q: int) -> bool:
    """Whether an earlier threshold has the same inliers."""
    for r in range(q):
        if count[r] == count[q]:
            same = True
            for i in range(inside.shape[1]):
                if inside[r, i] != inside[q, i]:
                    same = False
                    break
            if same:
                return True
    return False


@cached_njit(nogil=True)
def _count(errors: Array, squared: Array, inside: Array, count: Array) -> None:
    for q in range(len(squared)):
        count[q] = 0
        for i in range(len(errors)):
            inside[q, i] = errors[i] < squared[q]
            count[q] += inside[q, i]


@cached_njit(nogil=True)
def _errors(x: Array, y: Array, sim: Array, errors: Array) -> None:
    """Set the squared distances of the transformed points. `sim` has s R by rows, t and s."""
    for i in range(len(x)):
        total = 0.0
        for r in range(3):
            at = sim[9 + r]
            for c in range(3):
                at += sim[3 * r + c] * x[i, c]
            total += (at - y[i, r]) ** 2
        errors[i] = total


@cached_njit(nogil=True)
def _fit(x: Array, y: Array, chosen: Array, m: int, sim: Array, work: Array) -> None:
    """Set the similarity that takes chosen points of x to y: Horn's rotation, scale by the ratio of spreads.

    Points that coincide give a similarity of NaN, which fits no point.
    """
    mean_x, mean_y = np.zeros(3), np.zeros(3)
    for k in range(m):
        for r in range(3):
            mean_x[r] += x[chosen[k], r]
            mean_y[r] += y[chosen[k], r]
    mean_x /= m
    mean_y /= m
    h = np.zeros((3, 3))
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
    n, v = work[0], work[1]
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
    sim[12] = scale


@cached_njit(nogil=True)
def _largest(n: Array, v: Array) -> None:
    """Diagonalise a symmetric 4x4 matrix in place by Jacobi rotations. `v` gets the eigenvectors."""
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
