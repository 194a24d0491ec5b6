# SPDX-License-Identifier: BSD-3-Clause
"""Counting endpoint errors. Loops only; `flow.py` has the definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..geometry._bilinear import flow_lines, flow_row
from ..model.compiled import cached_njit

Array = NDArray[Any]


@cached_njit(nogil=True)
def _known(u: Any, v: Any) -> bool:
    return abs(u) <= np.float32(1e9) and abs(v) <= np.float32(1e9)


@cached_njit(nogil=True)
def _span(truth: Array) -> tuple[int, int]:
    """First column of a row with known truth, and the one after the last; (0, 0) if there is none."""
    flat = truth.reshape(-1)
    small = 0
    for x in range(flat.size):
        small += 1 if abs(flat[x]) <= np.float32(1e9) else 0
    if small < 2:
        return 0, 0
    start, stop = 0, truth.shape[0]
    while start < stop and not _known(truth[start, 0], truth[start, 1]):
        start += 1
    while stop > start and not _known(truth[stop - 1, 0], truth[stop - 1, 1]):
        stop -= 1
    return start, stop


@cached_njit(nogil=True)
def _count_row(
    us: Array,
    vs: Array,
    truth: Array,
    thresholds: Array,
    unknown: Any,
    errors: Array,
    wrong: Array,
    sums: Array,
) -> None:
    """Add one row of estimates (n,) and truth (n, 2) to `wrong` and `sums`.

    `wrong` counts by threshold; `sums` are pixels of known truth, known estimates and their error. Plain
    loops over short lines, so that they run on vectors; only the sum of errors keeps its order. An error of
    -1 stands for unknown truth: it is above no threshold.
    """
    kind = thresholds.dtype.type
    limit, none = np.float32(1e9), kind(-1)
    for x in range(us.size):
        u, v, gu, gv = kind(us[x]), kind(vs[x]), kind(truth[x, 0]), kind(truth[x, 1])
        e = np.sqrt((u - gu) * (u - gu) + (v - gv) * (v - gv))
        e = e if (abs(u) <= limit) & (abs(v) <= limit) else unknown
        errors[x] = e if (abs(gu) <= limit) & (abs(gv) <= limit) else none
    longest, total = none, 0.0
    valid, known = 0, 0
    for x in range(us.size):
        e = errors[x]
        longest = e if e > longest else longest
        valid += 1 if e >= 0 else 0
        if (e >= 0) & (abs(us[x]) <= limit) & (abs(vs[x]) <= limit):
            known += 1
            total += e
    for k in range(thresholds.size):
        most = thresholds[k]
        if not longest > most:
            break
        above = 0
        for x in range(us.size):
            above += 1 if errors[x] > most else 0
        wrong[k] += above
    sums[0] += valid
    sums[1] += known
    sums[2] += total


@cached_njit(nogil=True)
def error_counts(flow: Array, truth: Array, thresholds: Array, unknown: Any) -> tuple[Array, Array]:
    """Pixels above each threshold (t,), and (pixels of known truth, known estimates, their error sum).

    Arithmetic is in the type of `thresholds`; `unknown` is the error of an unknown estimate.
    """
    wrong = np.zeros(thresholds.size, np.int64)
    sums = np.zeros(3)
    errors = np.empty(flow.shape[1], thresholds.dtype)
    row = np.empty((2, flow.shape[1]), flow.dtype)
    for y in range(flow.shape[0]):
        start, stop = _span(truth[y])
        if start < stop:
            for x in range(flow.shape[1]):
                row[0, x] = flow[y, x, 0]
                row[1, x] = flow[y, x, 1]
            us, vs = row[0][start:stop], row[1][start:stop]
            _count_row(us, vs, truth[y][start:stop], thresholds, unknown, errors, wrong, sums)
    return wrong, sums


@cached_njit(nogil=True)
def resized_counts(
    flow: Array, plan: Any, truth: Array, thresholds: Array, unknown: Any
) -> tuple[Array, Array]:
    """`error_counts` of a flow resized by `plan`, only from the first to the last known truth of a row."""
    xs, fx, ys, fy, ax, ay, to, bx, by = plan
    wrong = np.zeros(thresholds.size, np.int64)
    sums = np.zeros(3)
    errors = np.empty(truth.shape[1], thresholds.dtype)
    lines = np.ones((2, 3, xs.shape[1]), fx.dtype)
    row = np.empty((2, xs.shape[1]), fx.dtype)
    held = np.full(2, -1, np.int64)
    for y in range(truth.shape[0]):
        start, stop = _span(truth[y])
        if start < stop:
            whole = flow_lines(flow, xs, fx, ys[:, y], held, lines)
            flow_row(lines, whole, fy[0, y], fy[1, y], ax, ay[y], to, bx, by[y], row, start, stop)
            us, vs = row[0][start:stop], row[1][start:stop]
            _count_row(us, vs, truth[y][start:stop], thresholds, unknown, errors, wrong, sums)
    return wrong, sums


@cached_njit(nogil=True)
def matlab_counts(flow: Array, truth: Array, thresholds: Array) -> tuple[Array, Array]:
    """The MATLAB tool's count: truth needs ``u < 1e9`` only, and a NaN error is above no threshold."""
    wrong = np.zeros(thresholds.size, np.int64)
    sums = np.zeros(3)
    for y in range(flow.shape[0]):
        for x in range(flow.shape[1]):
            gu, gv = np.float64(truth[y, x, 0]), np.float64(truth[y, x, 1])
            if not gu < 1e9:
                continue
            u, v = np.float64(flow[y, x, 0]), np.float64(flow[y, x, 1])
            e = np.sqrt((u - gu) * (u - gu) + (v - gv) * (v - gv))
            sums[0] += 1
            if _known(u, v) and _known(gu, gv):
                sums[1] += 1
                sums[2] += e
            for k in range(thresholds.size):
                if not e > thresholds[k]:
                    break
                wrong[k] += 1
    return wrong, sums
