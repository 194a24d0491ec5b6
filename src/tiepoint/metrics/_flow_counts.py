# SPDX-License-Identifier: BSD-3-Clause
"""Counting endpoint errors. Loops only; `flow.py` has the definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]


@njit(cache=True, nogil=True)
def error_histogram(
    flow: Array, truth: Array, thresholds: Array, unknown_error: float, matlab: bool
) -> tuple[Array, int, float]:
    """Histogram (t + 1) of the first threshold each pixel meets; count and error sum of known estimates.

    Arithmetic is in the type of `thresholds`. The last bin counts pixels that meet none.
    """
    kind = thresholds.dtype.type
    limit = np.float32(1e9)
    steps = thresholds.size
    histogram = np.zeros(steps + 1, np.int64)
    known = 0
    total = 0.0
    for y in range(flow.shape[0]):
        for x in range(flow.shape[1]):
            gu, gv = kind(truth[y, x, 0]), kind(truth[y, x, 1])
            if matlab:
                if not gu < limit:
                    continue
            elif not (abs(gu) <= limit and abs(gv) <= limit):
                continue
            u, v = kind(flow[y, x, 0]), kind(flow[y, x, 1])
            du, dv = u - gu, v - gv
            e = np.sqrt(du * du + dv * dv)
            if abs(u) <= limit and abs(v) <= limit:
                known += 1
                total += e
            elif not matlab:
                e = kind(unknown_error)
            low, high = 0, steps
            while low < high:
                middle = (low + high) // 2
                if e > thresholds[middle]:
                    low = middle + 1
                else:
                    high = middle
            histogram[low] += 1
    return histogram, known, total
