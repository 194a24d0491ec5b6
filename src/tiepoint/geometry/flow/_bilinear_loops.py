# SPDX-License-Identifier: BSD-3-Clause
"""Compiled loops for bilinear resizing with OpenCV's arithmetic; see `resize` for the conventions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.numba_cache import cached_njit

Array = NDArray[Any]


@cached_njit(nogil=True)
def split(row: Array, first: Array, second: Array) -> None:
    """Copy the two channels of a row (n, 2) to `first` and `second`, converted to their type."""
    n = row.shape[0]
    flat = row.reshape(-1)
    if row.dtype == first.dtype and row.itemsize == 4:
        # Splitting 64-bit words is six times faster than reading every other number.
        words, one, two = flat.view(np.uint64), first.view(np.uint32), second.view(np.uint32)
        for x in range(n):
            one[x] = np.uint32(words[x])
            two[x] = np.uint32(words[x] >> np.uint64(32))
    else:
        for x in range(n):
            first[x] = flat[2 * x]
            second[x] = flat[2 * x + 1]


@cached_njit(nogil=True)
def _flow_line(flow: Array, x0: Array, x1: Array, f0: Array, f1: Array, blank: bool, line: Array) -> bool:
    """Interpolate a source row horizontally into `line` (3, width). Return whether all its flow is known.

    The three rows of `line` are u, v and the weight of known flow. With `blank`, unknown flow is replaced by
    0 first; otherwise 0 times an unknown NaN would still be NaN.
    """
    limit = np.float32(1e9)
    zero, one = line.dtype.type(0), line.dtype.type(1)
    bad = 0
    flat = flow.reshape(-1)
    for x in range(flat.size):
        bad += 0 if abs(flat[x]) <= limit else 1
    us, vs = line[0], line[1]
    for x in range(x0.size):
        a, b = 2 * x0[x], 2 * x1[x]
        us[x] = flat[a] * f0[x] + flat[b] * f1[x]
        vs[x] = flat[a + 1] * f0[x] + flat[b + 1] * f1[x]
    if bad:
        for x in range(x0.size):
            a, b = x0[x], x1[x]
            ka = one if abs(flow[a, 0]) <= limit and abs(flow[a, 1]) <= limit else zero
            kb = one if abs(flow[b, 0]) <= limit and abs(flow[b, 1]) <= limit else zero
            line[2, x] = ka * f0[x] + kb * f1[x]
            if blank:
                us[x] = (flow[a, 0] * f0[x] if ka else zero) + (flow[b, 0] * f1[x] if kb else zero)
                vs[x] = (flow[a, 1] * f0[x] if ka else zero) + (flow[b, 1] * f1[x] if kb else zero)
    else:
        line[2, :] = one
    return bad == 0


@cached_njit(nogil=True)
def flow_lines(
    flow: Array, xs: Array, fx: Array, rows: Array, blank: bool, held: Array, lines: Array
) -> bool:
    """Load two source rows into `lines` (2, 3, width). Return whether all their flow is known.

    ``held[k] = 2 * row + (all known)`` records the source row that line k holds. A line is reused for all
    output rows that need it.
    """
    if held[1] >> 1 == rows[0] and held[0] >> 1 != rows[0]:
        lines[0] = lines[1]
        held[0] = held[1]
    for k in range(2):
        if held[k] < 0 or held[k] >> 1 != rows[k]:
            known = _flow_line(flow[rows[k]], xs[0], xs[1], fx[0], fx[1], blank, lines[k])
            held[k] = 2 * rows[k] + (1 if known else 0)
    return (held[0] & held[1] & 1) == 1


@cached_njit(nogil=True)
def _scale(row: Array, up: Any, down: Any) -> None:
    """Multiply `row` by up/down in place, rounding only once to the type of the row."""
    if down == 1:
        for x in range(row.size):
            row[x] = row[x] * up
    else:
        for x in range(row.size):
            row[x] = row[x] * up / down


@cached_njit(nogil=True)
def flow_row(
    lines: Array, all_known: bool, f0: Any, f1: Any, ax: Array, ay: Any, to: Array, bx: Array, by: Any,
    row: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Write columns `start` to `stop` of an output row. Unknown flow becomes 1e10.

    The component u is ``(r + ax) * to[0] / to[1] - bx``, where r is the flow interpolated between the two
    `lines`. v is computed from `ay`, `to[2]`, `to[3]` and `by`. Sums are computed in the type of the weights,
    in the order of the formula. The product is computed in the type of `to`, then rounded to the type of the
    weights. If all flow is known (`all_known`), the weights need no test, because they sum to exactly 1.
    """
    # Slices: a loop from a variable start must allow for negative indices and does not vectorise.
    top, bottom, out = lines[0, 0][start:stop], lines[1, 0][start:stop], row[0][start:stop]
    a, b = ax[start:stop], bx[start:stop]
    for x in range(out.size):
        out[x] = top[x] * f0 + bottom[x] * f1 + a[x]
    _scale(out, to[0], to[1])
    for x in range(out.size):
        out[x] = out[x] - b[x]
    top, bottom, out = lines[0, 1][start:stop], lines[1, 1][start:stop], row[1][start:stop]
    for x in range(out.size):
        out[x] = top[x] * f0 + bottom[x] * f1 + ay
    _scale(out, to[2], to[3])
    for x in range(out.size):
        out[x] = out[x] - by
    if not all_known:
        unknown = row.dtype.type(1e10)
        known0, known1 = lines[0, 2], lines[1, 2]
        for x in range(start, stop):
            if known0[x] * f0 + known1[x] * f1 != 1:
                row[0, x] = unknown
                row[1, x] = unknown


@cached_njit(nogil=True)
def resize_flow(
    flow: Array, xs: Array, fx: Array, ys: Array, fy: Array, ax: Array, ay: Array, to: Array, bx: Array,
    by: Array, blank: bool,
) -> Array:  # fmt: skip
    """Resize a flow to a new grid; arithmetic is in the type of the weights.

    `xs`, `ys` (2, n) are the indices of the two source pixels of every output column and row. `fx`, `fy` are
    their weights. See `_flow_line` for `blank` and `flow_row` for the other arguments.
    """
    height, width = ys.shape[1], xs.shape[1]
    out = np.empty((height, width, 2), fx.dtype)
    lines = np.ones((2, 3, width), fx.dtype)
    row = np.empty((2, width), fx.dtype)
    held = np.full(2, -1, np.int64)
    for y in range(height):
        known = flow_lines(flow, xs, fx, ys[:, y], blank, held, lines)
        flow_row(lines, known, fy[0, y], fy[1, y], ax, ay[y], to, bx, by[y], row, 0, width)
        for x in range(width):
            out[y, x, 0] = row[0, x]
            out[y, x, 1] = row[1, x]
    return out


@cached_njit(nogil=True)
def _filled(row: Array) -> tuple[int, int]:
    """Return the half-open range of nonzero positions of a row, (first, last + 1); (0, 0) if all are zero."""
    bits = 0
    for x in range(row.size):
        bits |= row[x]
    if bits == 0:
        return 0, 0
    start, stop = 0, row.size
    while row[start] == 0:
        start += 1
    while row[stop - 1] == 0:
        stop -= 1
    return start, stop


@cached_njit(nogil=True)
def reach(xs: Array, size: int) -> tuple[Array, Array]:
    """Return the half-open range of output columns to which each source position contributes.

    The result is two arrays (size,): first column, and last column + 1. A source position without an output
    column gets values that keep both arrays ascending.
    """
    columns = xs.shape[1]
    first, last = np.full(size, columns, np.int64), np.zeros(size, np.int64)
    for x in range(columns):
        for k in range(2):
            p = xs[k, x]
            first[p] = min(first[p], x)
            last[p] = max(last[p], x + 1)
    for p in range(size - 2, -1, -1):
        first[p] = min(first[p], first[p + 1])
    for p in range(1, size):
        last[p] = max(last[p], last[p - 1])
    return first, last


@cached_njit(nogil=True)
def _next_line(lines: Array, spans: Array, held: Array, rows: Array) -> None:
    """Copy line 1 of the buffer to line 0 if it has the upper source row of the next output row.

    A line is zero outside its span of columns.
    """
    if held[1] == rows[0] and held[0] != rows[0]:
        lines[0, spans[0, 0] : spans[0, 1]] = 0
        start, stop = spans[1, 0], spans[1, 1]
        lines[0, start:stop] = lines[1, start:stop]
        held[0], spans[0, 0], spans[0, 1] = held[1], start, stop


@cached_njit(nogil=True)
def _new_span(line: Array, span: Array, source: Array, first: Array, last: Array) -> tuple[int, int]:
    """Clear a line and return the range of columns that its new source row affects.

    Only nonzero pixels of the source row have an effect.
    """
    line[span[0] : span[1]] = 0
    start, stop = _filled(source)
    span[0], span[1] = (first[start], last[stop - 1]) if start < stop else (0, 0)
    return span[0], span[1]


@cached_njit(nogil=True)
def _both_spans(spans: Array) -> tuple[int, int]:
    """Return the smallest range of columns that covers the spans of both lines."""
    if spans[0, 0] >= spans[0, 1]:
        return spans[1, 0], spans[1, 1]
    if spans[1, 0] >= spans[1, 1]:
        return spans[0, 0], spans[0, 1]
    return min(spans[0, 0], spans[1, 0]), max(spans[0, 1], spans[1, 1])


@cached_njit(nogil=True)
def resize_bytes(image: Array, xs: Array, cx: Array, ys: Array, cy: Array) -> Array:
    """Resize uint8 rows (h, n) in OpenCV's fixed point; `cx`, `cy` are the weights times 2048, int32.

    `xs` (2, m) are byte positions in a row, so that each channel is a separate column. Only columns affected
    by nonzero pixels are computed, which is fast for masks that are mostly zero.
    """
    height, width = ys.shape[1], xs.shape[1]
    out = np.zeros((height, width), np.uint8)
    lines = np.zeros((2, width), np.int32)
    held = np.full(2, -1, np.int64)
    spans = np.zeros((2, 2), np.int64)
    first, last = reach(xs, image.shape[1])
    for y in range(height):
        _next_line(lines, spans, held, ys[:, y])
        for k in range(2):
            if held[k] != ys[k, y]:
                held[k] = ys[k, y]
                source = image[held[k]]
                start, stop = _new_span(lines[k], spans[k], source, first, last)
                line, x0, x1 = lines[k][start:stop], xs[0][start:stop], xs[1][start:stop]
                c0, c1 = cx[0][start:stop], cx[1][start:stop]
                for x in range(line.size):
                    line[x] = source[x0[x]] * c0[x] + source[x1[x]] * c1[x]
        start, stop = _both_spans(spans)
        g0, g1 = cy[0, y], cy[1, y]
        one, two, row = lines[0][start:stop], lines[1][start:stop], out[y][start:stop]
        for x in range(row.size):
            total = ((g0 * (one[x] >> 4)) >> 16) + ((g1 * (two[x] >> 4)) >> 16)
            row[x] = (total + 2) >> 2
    return out


@cached_njit(nogil=True)
def coverage_mask(mask: Array, xs: Array, fx: Array, ys: Array, fy: Array) -> Array:
    """Resize a mask: 255 if at least half of the bilinear weight (float64) is on nonzero pixels."""
    height, width = ys.shape[1], xs.shape[1]
    out = np.zeros((height, width), np.uint8)
    lines = np.zeros((2, width), np.float64)
    held = np.full(2, -1, np.int64)
    spans = np.zeros((2, 2), np.int64)
    first, last = reach(xs, mask.shape[1])
    for y in range(height):
        _next_line(lines, spans, held, ys[:, y])
        for k in range(2):
            if held[k] != ys[k, y]:
                held[k] = ys[k, y]
                source = mask[held[k]]
                start, stop = _new_span(lines[k], spans[k], source, first, last)
                line, x0, x1 = lines[k][start:stop], xs[0][start:stop], xs[1][start:stop]
                f0, f1 = fx[0][start:stop], fx[1][start:stop]
                for x in range(line.size):
                    a = f0[x] if source[x0[x]] else 0.0
                    line[x] = a + (f1[x] if source[x1[x]] else 0.0)
        start, stop = _both_spans(spans)
        g0, g1 = fy[0, y], fy[1, y]
        one, two, row = lines[0][start:stop], lines[1][start:stop], out[y][start:stop]
        for x in range(row.size):
            row[x] = 255 if one[x] * g0 + two[x] * g1 >= 0.5 else 0
    return out
