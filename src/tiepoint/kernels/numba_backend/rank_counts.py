# SPDX-License-Identifier: BSD-3-Clause
"""Compiled scan that counts pool rows nearer than a target, equally near, and equally near but earlier.

Vectorised score comparisons decide most rows. The exact reference distance decides the few rows whose score
is within the rounding error of the target's. A slot is a pool position whose row is in the tile; slots are in
ascending order. Without duplicate rows, slot, row and position are equal up to an offset. With duplicates,
one row of the tile may have many positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from ...core.numba_cache import compiled_for
from .nearest_scan import make_buffer, reference, round_down, round_up, scan_signature
from .simd import PAD, as_type_of, count_two, next_within

_VECTOR, _WHOLE, _TABLE = types.float64[::1], types.int64[::1], types.int64[:, ::1]
# Bounds the rounding of a square and of a square root.
_ROOT_SLACK = 2.0**-50


@njit(nogil=True, error_model="numpy")
def _bisect(values: Any, start: int, stop: int, x: int) -> int:
    """Return the first index in the ascending values[start:stop] whose value is >= x."""
    while start < stop:
        middle = (start + stop) >> 1
        if values[middle] < x:
            start = middle + 1
        else:
            stop = middle
    return start


@njit(nogil=True, error_model="numpy")
def _slots_before(position: int, slots: Any, first_row: int, width: int) -> int:
    if len(slots):
        return _bisect(slots, 0, len(slots), position)
    return min(max(position - first_row, 0), width)


@njit(nogil=True, error_model="numpy")
def _count_before(u: int, limit: int, group: int, positions: Any, grouped: Any, start: Any) -> int:
    """Count the pool positions of row u below `limit`, without those of a group (-1 excludes none)."""
    if len(start) == 0:
        return 1 if u < limit else 0
    first, last = start[u], start[u + 1]
    count = _bisect(positions, first, last, limit) - first
    if group >= 0:
        # grouped: group x pool size + position, ascending within each row.
        base = group * len(positions)
        count -= _bisect(grouped, first, last, base + limit) - _bisect(grouped, first, last, base)
    return count


@njit(nogil=True, error_model="numpy")
def _nearer(r: float, target: float, root: bool) -> int:
    """Return -1 if a row at distance r is nearer than the target, 0 if equally near, 1 if farther.

    With `root`, the square root of r is compared.
    """
    value = np.sqrt(r) if root else r
    if value < target:
        return -1
    return 0 if value == target else 1


@njit(nogil=True, error_model="numpy")
def thresholds(target: float, root: bool, alpha: float, beta: float, error: float, top: Any) -> Any:
    """Return two scores: rows below the first one are certainly nearer, rows above the second one farther."""
    if root:
        square = target * target
        low, high = square * (1.0 - _ROOT_SLACK), square * (1.0 + _ROOT_SLACK)
    else:
        low, high = target, target
    return round_down(alpha * low - beta - error, top), round_up(alpha * high - beta + error, top)


def _signature(real: Any, rows: Any) -> Any:
    targets = (_WHOLE, _VECTOR, types.boolean, _WHOLE, types.boolean, _TABLE, _TABLE)
    return scan_signature(real, rows, *targets, *(_WHOLE,) * 10, _TABLE, _TABLE, _TABLE)


@compiled_for(_signature)
def ranks(
    tile: Any, half: Any, alpha: float, beta: Any, error: Any, exact: bool, a: Any, b: Any,
    first_query: int, first_row: int,
    target_start: Any, target: Any, root: bool, position: Any, own: bool,
    limit: Any, limit_column: Any,
    slot_position: Any, slot_row: Any, group_slot: Any, group_start: Any, query_group: Any,
    row_of: Any, positions: Any, grouped: Any, row_start: Any, pool_group: Any,
    lt: Any, eq: Any, before: Any,
) -> int:  # fmt: skip
    """Add a tile (block of scores) to its targets' counts. Return how many exact distances this took."""
    width, columns = tile.shape[1], limit.shape[1]
    buffer = make_buffer(half, PAD)
    top = as_type_of(half[0], np.finfo(half.dtype).max)
    repeats = len(slot_position) > 0
    spread = np.empty(len(slot_position) + PAD, half.dtype)
    edge = np.empty(columns, np.int64)
    sums = 0
    for i in range(tile.shape[0]):
        q = first_query + i
        if target_start[q] == target_start[q + 1]:
            continue
        for j in range(width):
            buffer[j] = half[j] - tile[i, j]
        slots = buffer
        if repeats:
            slots = spread
            for s in range(len(slot_row)):
                slots[s] = buffer[slot_row[s]]
        group = query_group[q] if len(query_group) else -1
        if group >= 0:
            for s in range(group_start[group], group_start[group + 1]):
                slots[group_slot[s]] = np.inf
        for c in range(columns):
            edge[c] = _slots_before(limit[q, c], slot_position, first_row, width)
        for t in range(target_start[q], target_start[q + 1]):
            low, high = thresholds(target[t], root, alpha, beta[i], error[i], top)
            # In an exact tile the only score between equal thresholds is that of the target's value.
            pinned = exact and low == high
            below = 0
            within = 0
            start = 0
            for c in range(columns):
                x, y = count_two(slots, start, edge[c], low, high)
                below += x
                within += y
                start = edge[c]
                lt[t, limit_column[q, c]] += below
                if pinned:
                    eq[t, limit_column[q, c]] += within - below
            if within == 0 and not own:
                break  # targets of a query come in descending order, and so do their thresholds
            if within > below and pinned:
                stop = _slots_before(position[t], slot_position, first_row, width)
                count = 0
                start = 0
                for c in range(columns):
                    x, y = count_two(slots, start, min(edge[c], stop), low, high)
                    count += y - x
                    start = max(start, min(edge[c], stop))
                    before[t, limit_column[q, c]] += count
            elif within > below:
                j = next_within(buffer, 0, width, low, high)
                while j < width:
                    u = first_row + j
                    r = reference(exact, np.float64(buffer[j]), alpha, beta[i], a, q, b, u)
                    sums += 1
                    side = _nearer(r, target[t], root)
                    if side <= 0:
                        for c in range(columns):
                            column, end = limit_column[q, c], limit[q, c]
                            count = _count_before(u, end, group, positions, grouped, row_start)
                            if side < 0:
                                lt[t, column] += count
                            else:
                                eq[t, column] += count
                                end = min(end, position[t])
                                before[t, column] += _count_before(
                                    u, end, group, positions, grouped, row_start
                                )
                    j = next_within(buffer, j + 1, width, low, high)
            if own:
                p = position[t]
                u = row_of[p] if repeats else p
                j = u - first_row
                if j < 0 or j >= width or (group >= 0 and pool_group[p] == group):
                    continue
                side = -1
                if buffer[j] >= low:
                    side = 1
                    if pinned and buffer[j] <= high:
                        side = 0
                    elif buffer[j] <= high:
                        r = reference(exact, np.float64(buffer[j]), alpha, beta[i], a, q, b, u)
                        side = _nearer(r, target[t], root)
                for c in range(columns):
                    if p < limit[q, c] and side < 0:
                        lt[t, limit_column[q, c]] -= 1
                    elif p < limit[q, c] and side == 0:
                        eq[t, limit_column[q, c]] -= 1
    return sums
