# SPDX-License-Identifier: BSD-3-Clause
"""Compiled writer of rows of names and numbers (used by `task_csv`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...model.compiled import cached_njit


@cached_njit(nogil=True)
def write_rows(columns: Any, is_name: Any, text: Any, starts: Any, out: Any, first: int, last: int) -> int:
    """Write rows first..last of `columns` (c, n) into `out`; a name is text[starts[code]:starts[code+1]].

    Returns the number of bytes written; the caller provides enough room.
    """
    pos = 0
    n_columns = columns.shape[0]
    digits = np.empty(20, np.uint8)
    for row in range(first, last):
        for c in range(n_columns):
            value = columns[c, row]
            if is_name[c]:
                for i in range(starts[value], starts[value + 1]):
                    out[pos] = text[i]
                    pos += 1
            else:
                k = 0
                while True:
                    digits[k] = 48 + value % 10
                    value //= 10
                    k += 1
                    if value == 0:
                        break
                while k > 0:
                    k -= 1
                    out[pos] = digits[k]
                    pos += 1
            out[pos] = 44 if c + 1 < n_columns else 10
            pos += 1
    return pos
