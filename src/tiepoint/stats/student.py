# SPDX-License-Identifier: BSD-3-Clause
"""Student t intervals of a score from its scenes, for few scenes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .resampling import stratum_members

Array = NDArray[np.float64]


def standard_error(influence: Array, strata: NDArray[np.int64]) -> tuple[Array, Array]:
    """Standard error of scores and its degrees of freedom, from the influence of scenes within strata.

    v_h = n_h/(n_h-1) sum (u - mean_h u)² and se = sqrt(sum v_h). Strata may differ in spread, so the
    degrees of freedom are estimated (Welch): df = (sum v_h)² / sum v_h²/(n_h + 1) - 2, at most
    n - strata, at least the smallest n_h - 1. The n_h + 1 and the - 2 remove the bias of the better known
    form with n_h - 1, which is too low for strata of three or four scenes. For a plain mean in one
    stratum: s/sqrt(n) and n - 1.

    Args:
        influence: (scenes, k).
        strata: (scenes,).

    Returns:
        se (k,), df (k,); df is n - strata where se is 0.

    >>> x = np.array([1.0, 2.0, 3.0, 4.0]); u = ((x - 2.5) / 4)[:, None]
    >>> se, df = standard_error(u, np.zeros(4, dtype=int)); round(float(se[0]), 4), float(df[0])
    (0.6455, 3.0)
    """
    members = stratum_members(strata)
    parts = []
    for member in members:
        n = len(member)
        u = influence[member] - influence[member].mean(axis=0)
        parts.append((u**2).sum(axis=0) * n / max(n - 1, 1))
    v = np.array(parts)
    total = v.sum(axis=0)
    size = np.array([max(len(m), 2) for m in members], dtype=np.float64)[:, None]
    most = float((size - 1).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        welch = total**2 / (v**2 / (size + 1)).sum(axis=0) - 2
    df = np.where(total > 0, np.clip(welch, (size - 1).min(), most), most)
    return np.sqrt(total), df


def t_bounds(
    value: float, se: float, df: float, *, level: float = 0.95, logit: bool = False
) -> tuple[float, float]:
    """Value ± t se; with `logit`, the same on the scale log(p/(1-p)), so that it stays within 0 and 1.

    On the logit scale the standard error is se / (p (1 - p)) and the bounds are mapped back. It is the
    score that is transformed, never the scene values: their mean on another scale is another score, and
    a scene at 0 or 1 would be infinite.

    >>> [round(b, 3) for b in t_bounds(0.97, 0.02, 10, logit=True)]
    [0.875, 0.993]
    """
    from scipy.special import expit
    from scipy.special import stdtrit as t_quantile

    half = float(t_quantile(df, 0.5 + level / 2)) * se
    if se == 0 or not logit or not 0 < value < 1:
        return value - half, value + half
    centre = math.log(value / (1 - value))
    half /= value * (1 - value)
    return float(expit(centre - half)), float(expit(centre + half))
