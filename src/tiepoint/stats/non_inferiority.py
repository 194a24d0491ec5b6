# SPDX-License-Identifier: BSD-3-Clause
"""Non-inferiority: whether a method loses at most a margin against a reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MIN_UNITS = 6
"""Minimum number of units for a statement. With fewer units only the figures are shown."""


@dataclass(frozen=True)
class NonInferiority:
    """One-sided test that the mean of k differences is above -margin.

    `lower` is the one-sided lower confidence bound of the mean. `holds` is whether it is strictly above
    -margin. With fewer than two units all figures but `mean` are NaN and `holds` is False.
    """

    units: int
    mean: float
    se: float
    lower: float
    p: float
    holds: bool


def non_inferiority(differences: Array, margin: float, *, level: float = 0.95) -> NonInferiority:
    """Test whether the mean difference (method - reference, larger is better) is above -margin.

    Args:
        differences: difference of each unit, (k,).
        margin: largest acceptable loss, in the unit of the differences.
        level: confidence level of the one-sided bound.

    >>> non_inferiority(np.full(6, -0.3), 0.3).holds, non_inferiority(np.full(6, -0.2), 0.3).holds
    (False, True)
    """
    from scipy.special import stdtr, stdtrit

    k = len(differences)
    if k == 0:
        return NonInferiority(0, *(float("nan"),) * 4, holds=False)
    # The mean of equal values may differ from them by rounding.
    equal = bool((differences == differences[0]).all())
    mean = float(differences[0] if equal else differences.mean())
    if k < 2:
        return NonInferiority(k, mean, *(float("nan"),) * 3, holds=False)
    if equal:
        holds = mean > -margin
        return NonInferiority(k, mean, 0.0, mean, 0.0 if holds else 1.0, holds)
    se = float(differences.std(ddof=1) / np.sqrt(k))
    lower = mean - float(stdtrit(k - 1, level)) * se
    p = float(stdtr(k - 1, -(mean + margin) / se))
    return NonInferiority(k, mean, se, lower, p, lower > -margin)


def holm(p: Array) -> Array:
    """Return p-values adjusted by Holm's step-down method. NaN counts as 1.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    known = np.where(np.isnan(p), 1.0, p)
    order = np.argsort(known, kind="stable")
    scaled = known[order] * np.arange(len(p), 0, -1)
    out = np.empty(len(p))
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return out
