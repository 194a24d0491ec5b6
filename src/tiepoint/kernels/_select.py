# SPDX-License-Identifier: BSD-3-Clause
"""Compiled scans that keep the nearest rows of each query while tiles of scores pass by."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..model.compiled import compiled
from ._scan import kth_bound, make_buffer, padding, reference, round_up, scan_signature
from ._vectors import as_type_of, least_two, next_within

_VECTOR, _WHOLE = types.float64[::1], types.int64[::1]
_VALUES, _TABLE = types.float64[:, ::1], types.int64[:, ::1]


def _select_signature(real: Any, rows: Any) -> Any:
    return scan_signature(real, rows, _VALUES, _TABLE, _WHOLE)


def _first_two_signature(real: Any, rows: Any) -> Any:
    return scan_signature(real, rows, _WHOLE, _VECTOR, _VECTOR, _WHOLE, _WHOLE)


@compiled(_select_signature)
def select(
    tile: Any, half: Any, alpha: float, beta: Any, error: Any, exact: bool, a: Any, b: Any,
    first_query: int, first_row: int, value: Any, row: Any, filled: Any,
) -> int:  # fmt: skip
    """Merge one tile into the k best (value, row) of each query; return the reference sums taken.

    A row belongs to the k best of the tile only if its score is within twice the error of the k-th smallest
    score; and it enters a full list only if its reference value is below the list's last, since rows pass
    by in ascending order and the earlier one wins a tie.
    """
    k = value.shape[1]
    width = tile.shape[1]
    buffer = make_buffer(half, padding(k))
    top = as_type_of(half[0], np.finfo(half.dtype).max)
    lowest = round_up(-np.inf, top)
    sums = 0
    for i in range(tile.shape[0]):
        q = first_query + i
        for j in range(width):
            buffer[j] = half[j] - tile[i, j]
        count = filled[q]
        if count < k:
            bound = round_up(kth_bound(buffer, width, k) + 2.0 * error[i], top)
        else:
            bound = round_up(alpha * value[q, k - 1] - beta[i] + error[i], top)
        j = next_within(buffer, 0, width, lowest, bound)
        while j < width:
            u = first_row + j
            r = reference(exact, np.float64(buffer[j]), alpha, beta[i], a, q, b, u)
            sums += 1
            if count < k or r < value[q, k - 1]:
                place = min(count, k - 1)
                while place > 0 and value[q, place - 1] > r:
                    value[q, place] = value[q, place - 1]
                    row[q, place] = row[q, place - 1]
                    place -= 1
                value[q, place] = r
                row[q, place] = u
                count = min(count + 1, k)
                if count == k:
                    bound = min(bound, round_up(alpha * value[q, k - 1] - beta[i] + error[i], top))
            j = next_within(buffer, j + 1, width, lowest, bound)
        filled[q] = count
    return sums


@compiled(_first_two_signature)
def first_two(
    tile: Any, half: Any, alpha: float, beta: Any, error: Any, exact: bool, a: Any, b: Any,
    first_query: int, first_row: int, copies: Any, d1: Any, d2: Any, row: Any, ties: Any,
) -> int:  # fmt: skip
    """Merge one tile into first, second and ties of each query; return the reference sums taken.

    `copies[u]` is how often distinct row u stands in the pool; empty means once each.
    """
    width = tile.shape[1]
    buffer = make_buffer(half, padding(2))
    top = as_type_of(half[0], np.finfo(half.dtype).max)
    lowest = round_up(-np.inf, top)
    sums = 0
    for i in range(tile.shape[0]):
        q = first_query + i
        for j in range(width):
            buffer[j] = half[j] - tile[i, j]
        second = np.float64(least_two(buffer, width)[1])
        bound = round_up(min(second + 2.0 * error[i], alpha * d2[q] - beta[i] + error[i]), top)
        j = next_within(buffer, 0, width, lowest, bound)
        while j < width:
            u = first_row + j
            r = reference(exact, np.float64(buffer[j]), alpha, beta[i], a, q, b, u)
            sums += 1
            copy = copies[u] if len(copies) else 1
            if r < d1[q]:
                d2[q] = r if copy > 1 else d1[q]
                d1[q] = r
                row[q] = u
                ties[q] = copy
            elif r == d1[q]:
                ties[q] += copy
                d2[q] = r
            elif r < d2[q]:
                d2[q] = r
            bound = min(bound, round_up(alpha * d2[q] - beta[i] + error[i], top))
            j = next_within(buffer, j + 1, width, lowest, bound)
    return sums


@compiled(lambda: types.void(_VALUES, _TABLE, _WHOLE, _WHOLE, _WHOLE, _TABLE, _VALUES))
def expand(value: Any, row: Any, positions: Any, start: Any, skip: Any, index: Any, out: Any) -> None:
    """Write the first pool positions of rows sorted by value; rows of equal value interleave by position."""
    keep = value.shape[1]
    at = np.empty(keep, np.int64)
    for q in range(len(value)):
        done = 0
        first = 0
        while done < index.shape[1]:
            last = first
            while last < keep and value[q, last] == value[q, first]:
                at[last] = start[row[q, last]]
                last += 1
            while done < index.shape[1]:
                best = -1
                lowest = len(positions)
                for g in range(first, last):
                    if at[g] < start[row[q, g] + 1] and positions[at[g]] < lowest:
                        best, lowest = g, positions[at[g]]
                if best < 0:
                    break
                at[best] += 1
                if lowest != skip[q]:
                    index[q, done] = lowest
                    out[q, done] = value[q, first]
                    done += 1
            first = last
