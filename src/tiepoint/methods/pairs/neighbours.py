# SPDX-License-Identifier: BSD-3-Clause
"""First neighbours between the descriptors of two images, both ways; what matchers choose from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...kernels import first_two

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Matches(NamedTuple):
    """Keypoint rows of the first and second image, (m,) each, and their distance."""

    first: Ints
    second: Ints
    distance: Floats


class FirstNeighbours(NamedTuple):
    """First neighbours of the valid rows `first` (a,): row `second`, distances d1 and d2, and `mutual`."""

    first: Ints
    second: Ints
    d1: Floats
    d2: Floats
    mutual: NDArray[np.bool_]


def nearest_both_ways(
    a: NDArray[Any], b: NDArray[Any], rows_a: Ints, rows_b: Ints, *, distance: str
) -> FirstNeighbours:
    """First neighbours of rows of a among rows of b, and whether each is mutual.

    Among equals the first in the order of `rows_b` is taken (and of `rows_a` on the way back). Trap: with
    rows in file order a constant descriptor matches row 0 to row 0, which may be right; a random order of the
    rows breaks ties without knowing the truth. Empty where a side has no rows.

    >>> x = np.array([[0.0], [5.0]])
    >>> nearest_both_ways(x, x[::-1] + 0.5, np.arange(2), np.arange(2), distance="l2").second.tolist()
    [1, 0]
    """
    if len(rows_a) == 0 or len(rows_b) == 0:
        none = np.empty(0, np.int64)
        return FirstNeighbours(none, none, np.empty(0), np.empty(0), np.empty(0, bool))
    x, y = np.ascontiguousarray(a[rows_a]), np.ascontiguousarray(b[rows_b])
    there = first_two(x, y, distance=distance)
    hit, where = np.unique(there.index, return_inverse=True)
    back = first_two(y[hit], x, distance=distance).index[where.reshape(-1)]
    mutual = back == np.arange(len(x))
    return FirstNeighbours(rows_a, rows_b[there.index], there.d1, there.d2, mutual)


def within_ratio(found: FirstNeighbours, ratio: float) -> NDArray[np.bool_]:
    """Where d1/d2 is strictly below the ratio; a lone candidate has no second distance, two zeros are a tie.

    >>> none = np.arange(3)
    >>> two = np.array([2.0, 0.0, np.inf])
    >>> within_ratio(FirstNeighbours(none, none, np.array([1.0, 0, 1]), two, none > 0), 0.8).tolist()
    [True, False, False]
    """
    return np.asarray(np.isfinite(found.d2) & (found.d1 < ratio * found.d2))
