# SPDX-License-Identifier: BSD-3-Clause
"""Rows of a descriptor table that cannot be compared, found and said in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class BadRows:
    """Rows that cannot be compared: with NaN, with infinity, all zero (row indices, ascending)."""

    nan: NDArray[np.int64]
    infinite: NDArray[np.int64]
    zero: NDArray[np.int64]

    def problems(self, where: str, *, zero: bool = True) -> list[str]:
        """One sentence for each kind of bad row, naming the first of them."""
        kinds = [("NaN", self.nan), ("an infinite value", self.infinite)] + [("only zeros", self.zero)] * zero
        return [
            f"{where}: {len(rows)} descriptors have {what} (rows {_some(rows)})"
            for what, rows in kinds
            if len(rows)
        ]


def _some(rows: NDArray[np.int64]) -> str:
    return ", ".join(map(str, rows[:8].tolist())) + (", …" if len(rows) > 8 else "")


def find_bad_rows(values: NDArray[Any]) -> BadRows:
    """Rows with NaN, with infinity (and no NaN), and all-zero rows.

    >>> b = find_bad_rows(np.array([[1, 2], [np.nan, 0], [0, 0], [np.inf, 1]], np.float32))
    >>> b.nan.tolist(), b.infinite.tolist(), b.zero.tolist()
    ([1], [3], [2])
    """
    none = np.empty(0, np.int64)
    if values.dtype.kind != "f":
        return BadRows(none, none, np.flatnonzero(~values.any(axis=1)))
    finite = np.isfinite(values).all(axis=1)
    zero = np.flatnonzero(finite & ~values.any(axis=1))
    suspects = np.flatnonzero(~finite)
    has_nan = np.isnan(values[suspects]).any(axis=1)
    return BadRows(suspects[has_nan], suspects[~has_nan], zero)
