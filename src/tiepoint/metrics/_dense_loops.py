# SPDX-License-Identifier: BSD-3-Clause
"""Compiled loops for `dense`: count endpoint errors and mask pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.numba_cache import cached_njit
from ..geometry.flow._bilinear_loops import flow_lines, flow_row, split

Array = NDArray[Any]


@cached_njit(nogil=True)
def _known(u: Any, v: Any) -> bool:
    return abs(u) <= np.float32(1e9) and abs(v) <= np.float32(1e9)


@cached_njit(nogil=True)
def _span(truth: Array) -> tuple[int, int]:
    """Return the half-open range of columns with known truth in a row, (first, last + 1); (0, 0) if none."""
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
    us: Array, vs: Array, truth: Array, thresholds: Array, unknown: Any, memory: Array, wrong: Array,
    sums: Array,
) -> None:  # fmt: skip
    """Add the counts and error sums of one row of estimates (n,) with truth (n, 2) to `wrong` and `sums`.

    `wrong` counts the pixels above each threshold. `sums` holds the number of pixels with known truth, the
    number of pixels where the estimate is known too, and eight partial error sums. Pixel x is added to
    partial sum x mod 8, so that the compiler can vectorise the loop. An error of -1 marks unknown truth and
    is above no threshold. `memory` is a work array (4, n or longer). Several short loops are used because the
    compiler does not vectorise one long loop.
    """
    kind = thresholds.dtype.type
    limit, none = np.float32(1e9), kind(-1)
    n = us.size
    errors, counted, gu, gv = memory[0][:n], memory[1][:n], memory[2][:n], memory[3][:n]
    split(truth, gu, gv)
    for x in range(n):
        errors[x] = np.sqrt((us[x] - gu[x]) * (us[x] - gu[x]) + (vs[x] - gv[x]) * (vs[x] - gv[x]))
    for x in range(n):
        estimated = (abs(us[x]) <= limit) & (abs(vs[x]) <= limit)
        true = (abs(gu[x]) <= limit) & (abs(gv[x]) <= limit)
        e = errors[x]
        counted[x] = e if estimated & true else none
        e = e if estimated else unknown
        errors[x] = e if true else none
    valid, known = 0, 0
    for x in range(n):
        valid += 1 if errors[x] >= 0 else 0
    for x in range(n):
        known += 1 if counted[x] >= 0 else 0
    sums[0] += valid
    sums[1] += known
    lanes = sums[2:]
    full = n & -8
    for x in range(0, full, 8):
        for k in range(8):
            lanes[k] += counted[x + k] if counted[x + k] > 0 else kind(0)
    for x in range(full, n):
        lanes[x - full] += counted[x] if counted[x] > 0 else kind(0)
    for k in range(thresholds.size):
        limit = thresholds[k]
        above = 0
        for x in range(n):
            above += 1 if errors[x] > limit else 0
        if not above:
            break
        wrong[k] += above


@cached_njit(nogil=True)
def _summed(sums: Array) -> Array:
    """Reduce the `sums` of `_count_row` to one error sum.

    The result is the number of pixels with known truth, the number where the estimate is known too, and the
    sum.
    """
    s = sums[2:]
    total = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
    return np.array([sums[0], sums[1], total])


@cached_njit(nogil=True)
def error_counts(flow: Array, truth: Array, thresholds: Array, unknown: Any) -> tuple[Array, Array]:
    """Return the number of wrong pixels at each threshold (t,), and the result of `_summed`.

    A pixel is wrong if its error exceeds the threshold. Arithmetic is in the type of `thresholds`. `unknown`
    is the error that an unknown estimate gets.
    """
    wrong = np.zeros(thresholds.size, np.int64)
    sums = np.zeros(10)
    memory = np.empty((4, flow.shape[1]), thresholds.dtype)
    row = np.empty((2, flow.shape[1]), thresholds.dtype)
    for y in range(flow.shape[0]):
        start, stop = _span(truth[y])
        if start < stop:
            split(flow[y], row[0], row[1])
            us, vs = row[0][start:stop], row[1][start:stop]
            _count_row(us, vs, truth[y][start:stop], thresholds, unknown, memory, wrong, sums)
    return wrong, _summed(sums)


@cached_njit(nogil=True)
def resized_counts(
    flow: Array, plan: Any, truth: Array, thresholds: Array, unknown: Any
) -> tuple[Array, Array]:
    """Return the `error_counts` of a flow resized by `plan`, without storing the resized flow."""
    xs, fx, ys, fy, ax, ay, to, bx, by, blank = plan
    height, width = truth.shape[0], truth.shape[1]
    spans = np.empty((height, 2), np.int64)
    left, right = width, 0
    for y in range(height):
        start, stop = _span(truth[y])
        spans[y, 0], spans[y, 1] = start, stop
        if start < stop:
            left, right = min(left, start), max(right, stop)
    wrong = np.zeros(thresholds.size, np.int64)
    sums = np.zeros(10)
    if left >= right:
        return wrong, _summed(sums)
    # No column outside left … right is read.
    xs, fx, ax, bx = xs[:, left:right], fx[:, left:right], ax[left:right], bx[left:right]
    memory = np.empty((4, right - left), thresholds.dtype)
    lines = np.ones((2, 3, right - left), fx.dtype)
    row = np.empty((2, right - left), fx.dtype)
    held = np.full(2, -1, np.int64)
    for y in range(height):
        start, stop = spans[y, 0] - left, spans[y, 1] - left
        if start < stop:
            all_known = flow_lines(flow, xs, fx, ys[:, y], blank, held, lines)
            flow_row(lines, all_known, fy[0, y], fy[1, y], ax, ay[y], to, bx, by[y], row, start, stop)
            us, vs = row[0][start:stop], row[1][start:stop]
            known = truth[y][spans[y, 0] : spans[y, 1]]
            _count_row(us, vs, known, thresholds, unknown, memory, wrong, sums)
    return wrong, _summed(sums)


@cached_njit(nogil=True)
def lenient_counts(flow: Array, truth: Array, thresholds: Array) -> tuple[Array, Array]:
    """Return the `error_counts` under lenient rules.

    Truth is known if ``u < 1e9``, and a pixel with a NaN error is not wrong.
    """
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


@cached_njit(nogil=True)
def count_bits(a: Array, b: Array) -> tuple[int, int, int]:
    """Count the bytes of two mask rows whose bitwise AND, OR and XOR are nonzero."""
    both = either = differing = 0
    for i in range(a.size):
        both += 1 if a[i] & b[i] else 0
        either += 1 if a[i] | b[i] else 0
        differing += 1 if a[i] ^ b[i] else 0
    return both, either, differing


@cached_njit(nogil=True)
def count_pixels(a: Array, b: Array) -> tuple[int, int, int]:
    """Count the foreground (nonzero) pixels of both mask rows: in both, in at least one, in exactly one."""
    both = either = differing = 0
    for i in range(a.size):
        one, two = a[i] != 0, b[i] != 0
        both += 1 if one & two else 0
        either += 1 if one | two else 0
        differing += 1 if one != two else 0
    return both, either, differing


@cached_njit(nogil=True)
def count_between(a: Array) -> int:
    """Count the values of a mask that are neither 0 nor 255."""
    count = 0
    for i in range(a.size):
        count += 1 if (a[i] != 0) & (a[i] != 255) else 0
    return count
