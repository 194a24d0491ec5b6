# SPDX-License-Identifier: BSD-3-Clause
"""Sums of reciprocals of consecutive integers, without loss of digits for long or far runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_DIRECT = 32


def harmonic_difference(start: ArrayLike, count: ArrayLike) -> NDArray[np.float64]:
    """Sum of 1/k for k = start+1 … start+count, i.e. H(start+count) - H(start).

    Args:
        start: non-negative integers, any shape.
        count: non-negative integers, broadcast against `start`.

    Returns:
        float64 of the broadcast shape, to a few units in the last place. A count of zero gives 0.

    The obvious H(b) - H(a) cancels: for a million items before a tie of two it keeps nine digits. Here the
    first terms are added one by one and the rest comes from log1p and the series of the digamma function at
    half-integers, ln x + 1/(24 x^2) - 7/(960 x^4) + 31/(8064 x^6) - 127/(30720 x^8).

    >>> harmonic_difference([0, 2, 7], [3, 0, 1])
    array([1.83333333, 0.        , 0.125     ])
    """
    a, c = np.broadcast_arrays(np.asarray(start, np.float64), np.asarray(count, np.float64))
    total = np.zeros(a.shape)
    head = np.minimum(c, _DIRECT)
    for k in range(1, int(head.max(initial=0)) + 1):
        total += np.where(k <= head, 1.0 / (a + k), 0.0)
    rest = c - head
    if rest.any():
        total += np.where(rest > 0, _far_difference(a + head, rest), 0.0)
    return total


def _far_difference(a: NDArray[np.float64], c: NDArray[np.float64]) -> NDArray[np.float64]:
    """H(a+c) - H(a) for a >= 32, where the series is exact to double precision."""
    low, high = a + 0.5, a + c + 0.5
    return np.asarray(np.log1p(c / low) + (_tail(high) - _tail(low)))


def _tail(x: NDArray[np.float64]) -> Any:
    y = 1.0 / (x * x)
    return y * (1 / 24 + y * (-7 / 960 + y * (31 / 8064 - y * (127 / 30720))))
