# SPDX-License-Identifier: BSD-3-Clause
"""Skewness of scene differences, and the limits that 99 % of normal samples stay within."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SIZES = (3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 40, 60, 100, 200, 500, 1000)
LIMITS = (
    0.707, 1.137, 1.396, 1.530, 1.589, 1.613, 1.581, 1.519, 1.437,
    1.309, 1.115, 0.985, 0.818, 0.636, 0.449, 0.283, 0.201,
)  # fmt: skip
"""The 99 % quantile of the absolute skewness of normal samples of each size, by simulation.

`bench/simulate_means.py --what skewness` computes it from 200,000 samples of each size.
"""


def skewness(values: Array) -> Array:
    """Return the sample skewness m3 / m2^1.5 of each column of values (n, k). 0 for equal values.

    >>> skewness(np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [4.0, 1.0]])).round(4).tolist()
    [1.1547, 0.0]
    """
    centred = values - values.mean(axis=0)
    square, cube = (centred**2).mean(axis=0), (centred**3).mean(axis=0)
    varies = square > 1e-24 * np.maximum((values**2).mean(axis=0), 1e-300)
    return np.asarray(np.where(varies, cube / np.where(varies, square, 1.0) ** 1.5, 0.0))


def skewness_limit(n: int) -> float:
    """Return the absolute skewness that 1 % of normal samples of n values exceed.

    Between the simulated sizes the limit times sqrt(n) is interpolated over log n. Beyond the largest size
    it falls as 1/sqrt(n).

    >>> skewness_limit(20) > skewness_limit(25) > skewness_limit(30)
    True
    """
    scaled = np.array(LIMITS) * np.sqrt(SIZES)
    return float(np.interp(np.log(max(n, 1)), np.log(SIZES), scaled) / np.sqrt(max(n, 1)))
