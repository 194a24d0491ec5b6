# SPDX-License-Identifier: BSD-3-Clause
"""Compiled step from distinct rows back to pool positions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ._compile import compiled

_VALUES, _TABLE, _WHOLE = types.float64[:, ::1], types.int64[:, ::1], types.int64[::1]


def _signature() -> Any:
    return types.void(_VALUES, _TABLE, _WHOLE, _WHOLE, _WHOLE, _TABLE, _VALUES)


@compiled(_signature)
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
