# SPDX-License-Identifier: BSD-3-Clause
"""Compiled sort and count loops for `sorting`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.numba_cache import cached_njit

Array = NDArray[Any]
_SIGN = np.uint64(1 << 63)
_ALL = np.uint64((1 << 64) - 1)
_LOW = np.uint64(255)


@cached_njit(nogil=True)
def radix_sort(values: Array, keys: Array, spare: Array) -> Array:
    """Sort float64 bit patterns. `keys` and `spare` are work arrays of equal size; one of them is returned.

    The sort is a radix sort: one stable pass per byte, starting with the lowest. All bits of negative numbers
    and the sign bit of other numbers are inverted first, so that the bit patterns sort in numeric order. A
    byte that is equal in all values is skipped.
    """
    n = values.size
    times = np.zeros((8, 256), np.int64)
    for i in range(n):
        bits = values[i]
        key = bits ^ (_ALL if bits & _SIGN else _SIGN)
        keys[i] = key
        for d in range(8):
            times[d, (key >> np.uint64(8 * d)) & _LOW] += 1
    old, new = keys, spare
    for d in range(8):
        shift, place = np.uint64(8 * d), times[d]
        if n == 0 or place[(old[0] >> shift) & _LOW] == n:
            continue
        total = 0
        for j in range(256):
            own = place[j]
            place[j] = total
            total += own
        for i in range(n):
            key = old[i]
            digit = (key >> shift) & _LOW
            new[place[digit]] = key
            place[digit] += 1
        old, new = new, old
    for i in range(n):
        old[i] ^= _SIGN if old[i] & _SIGN else _ALL
    return old


@cached_njit(nogil=True)
def merge_counts(targets: Array, others: Array, below: Array, equal: Array) -> None:
    """Fill `below` and `equal` with the numbers of `others` smaller than and equal to each target.

    `targets` and `others` must be ascending.
    """
    j, n = 0, others.size
    for i in range(targets.size):
        t = targets[i]
        if i and t == targets[i - 1]:
            below[i], equal[i] = below[i - 1], equal[i - 1]
            continue
        while j < n and others[j] < t:
            j += 1
        below[i] = j
        while j < n and others[j] == t:
            j += 1
        equal[i] = j - below[i]
