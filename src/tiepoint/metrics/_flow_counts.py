# SPDX-License-Identifier: BSD-3-Clause
"""Counting endpoint errors. Loops only; `flow.py` has the definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..geometry._bilinear import flow_lines, flow_row

Array = NDArray[Any]


@njit(cache=True, nogil=True)
def _known(u: Any, v: Any) -> bool:
    return abs(u) <= np.float32(1e9) and abs(v) <= np.float32(1e9)


@njit(cache=True, nogil=True)
def _first_met(e: Any, thresholds: Array, guess: int) -> int:
    """Index of the first threshold that is at least e, `thresholds.size` if none; any guess will do."""
    k = guess
    while k > 0 and not e > thresholds[k - 1]:
        k -= 1
    while k < thresholds.size and e > thresholds[k]:
        k += 1
    return k


@njit(cache=True, nogil=True)
def _count_row(
    us: Array,
    vs: Array,
    truth: Array,
    thresholds: Array,
    unknown_error: float,
    histogram: Array,
    start: int,
    stop: int,
) -> tuple[int, float]:
    """Add columns `start` to `stop` of one row to the histogram; number and error sum of known estimates."""
    kind = thresholds.dtype.type
    steps = thresholds.size
    per_px = np.float32(steps / max(float(thresholds[steps - 1]), 1e-30))
    known = 0
    total = 0.0
    for x in range(start, stop):
        gu, gv = kind(truth[x, 0]), kind(truth[x, 1])
        if not _known(gu, gv):
            continue
        u, v = kind(us[x]), kind(vs[x])
        if _known(u, v):
            du, dv = u - gu, v - gv
            e = np.sqrt(du * du + dv * dv)
            known += 1
            total += e
        else:
            e = kind(unknown_error)
        guess = steps if not e < thresholds[steps - 1] else min(int(np.float32(e) * per_px), steps)
        histogram[_first_met(e, thresholds, guess)] += 1
    return known, total


@njit(cache=True, nogil=True)
def error_histogram(
    flow: Array, truth: Array, thresholds: Array, unknown_error: float
) -> tuple[Array, int, float]:
    """Histogram (t + 1) of the first threshold each pixel meets; count and error sum of known estimates.

    Arithmetic is in the type of `thresholds`. The last bin counts pixels that meet none.
    """
    histogram = np.zeros(thresholds.size + 1, np.int64)
    known = 0
    total = 0.0
    for y in range(flow.shape[0]):
        n, s = _count_row(
            flow[y, :, 0], flow[y, :, 1], truth[y], thresholds, unknown_error, histogram, 0, flow.shape[1]
        )
        known += n
        total += s
    return histogram, known, total


@njit(cache=True, nogil=True)
def resized_histogram(
    flow: Array, plan: Any, truth: Array, thresholds: Array, unknown_error: float
) -> tuple[Array, int, float]:
    """`error_histogram` of a flow resized by `plan`, only from the first to the last known truth of a row."""
    xs, fx, ys, fy, ax, ay, to, bx, by = plan
    histogram = np.zeros(thresholds.size + 1, np.int64)
    lines = np.ones((2, 3, xs.shape[1]), fx.dtype)
    row = np.empty((2, xs.shape[1]), fx.dtype)
    held = np.full(2, -1, np.int64)
    known = 0
    total = 0.0
    for y in range(truth.shape[0]):
        start, stop = 0, truth.shape[1]
        while start < stop and not _known(truth[y, start, 0], truth[y, start, 1]):
            start += 1
        while stop > start and not _known(truth[y, stop - 1, 0], truth[y, stop - 1, 1]):
            stop -= 1
        if start == stop:
            continue
        whole = flow_lines(flow, xs, fx, ys[:, y], held, lines)
        flow_row(lines, whole, fy[0, y], fy[1, y], ax, ay[y], to, bx, by[y], row, start, stop)
        n, s = _count_row(row[0], row[1], truth[y], thresholds, unknown_error, histogram, start, stop)
        known += n
        total += s
    return histogram, known, total


@njit(cache=True, nogil=True)
def matlab_histogram(flow: Array, truth: Array, thresholds: Array) -> tuple[Array, int, float]:
    """The MATLAB tool's count: truth needs ``u < 1e9`` only, and a NaN error meets every threshold."""
    steps = thresholds.size
    histogram = np.zeros(steps + 1, np.int64)
    known = 0
    total = 0.0
    for y in range(flow.shape[0]):
        for x in range(flow.shape[1]):
            gu, gv = np.float64(truth[y, x, 0]), np.float64(truth[y, x, 1])
            if not gu < 1e9:
                continue
            u, v = np.float64(flow[y, x, 0]), np.float64(flow[y, x, 1])
            e = np.sqrt((u - gu) * (u - gu) + (v - gv) * (v - gv))
            if _known(u, v) and _known(gu, gv):
                known += 1
                total += e
            histogram[_first_met(e, thresholds, 0)] += 1
    return histogram, known, total
