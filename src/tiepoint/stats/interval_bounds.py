# SPDX-License-Identifier: BSD-3-Clause
"""Bounds of the bias-corrected and accelerated (BCa) bootstrap interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .resampling import stratum_members

Array = NDArray[np.float64]


def acceleration(influence: Array, strata: NDArray[np.int64]) -> Array:
    """Skewness of the influence of the scenes, the `a` of BCa.

    a = (1/6) sum u³ / (sum u²)^(3/2) with u centred within strata; 0 where all u are 0.

    Args:
        influence: (scenes, k); for a plain mean (x - mean)/n.
        strata: (scenes,).

    >>> acceleration(np.array([[-1.0], [0.0], [1.0]]), np.zeros(3, dtype=int)).tolist()
    [0.0]
    """
    centred = np.array(influence, dtype=np.float64)
    for member in stratum_members(strata):
        centred[member] -= centred[member].mean(axis=0)
    square = (centred**2).sum(axis=0)
    cube = (centred**3).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(square > 0, cube / (6.0 * square**1.5), 0.0)


def bca_bounds(
    value: Array,
    resampled: Array,
    influence: Array,
    strata: NDArray[np.int64],
    *,
    level: float = 0.95,
    df: Array | None = None,
) -> tuple[Array, Array]:
    """Lower and upper bounds for k scores that share their resamples.

    With z0 the normal quantile of the share of resampled values below the score (ties count half), and a
    the `acceleration`, the bounds are the quantiles Phi(z0 + (z0 + z)/(1 - a (z0 + z))) of the resampled
    values for z = ± the normal quantile of the level. With `df` z is the quantile of Student's t instead,
    as the spread is estimated from the same scenes: without it BCa covers too little at 40 scenes.

    Args:
        value: the scores, (k,).
        resampled: (r, k).
        influence: (scenes, k).
        strata: (scenes,).
        level: e.g. 0.95.
        df: degrees of freedom of the standard error, (k,); None for the textbook BCa.

    Returns:
        low (k,), high (k,). A score without any spread gives its own value twice.

    >>> x = np.arange(10.0); draws = np.linspace(3, 6, 1001)[:, None]
    >>> low, high = bca_bounds(np.array([4.5]), draws, (x[:, None] - 4.5) / 10, np.zeros(10, dtype=int))
    >>> round(float(low[0]), 3), round(float(high[0]), 3)
    (3.075, 5.925)
    """
    from scipy.special import ndtr, ndtri, stdtrit

    r = len(resampled)
    a = acceleration(influence, strata)
    below = (resampled < value).sum(axis=0) + 0.5 * (resampled == value).sum(axis=0)
    z0 = ndtri(np.clip(below / r, 0.5 / r, 1 - 0.5 / r))
    half = ndtri(0.5 + level / 2) if df is None else stdtrit(df, 0.5 + level / 2)
    bounds = []
    for z in (-half, half):
        shifted = z0 + z
        # Past the pole of the formula the bound is the extreme resample on that side.
        slope = np.maximum(1 - a * shifted, 1e-3)
        bounds.append(_columnwise_quantile(resampled, ndtr(z0 + shifted / slope)))
    low, high = bounds
    flat = np.ptp(resampled, axis=0) == 0
    return np.where(flat, value, low), np.where(flat, value, high)


def _columnwise_quantile(x: Array, q: Array) -> Array:
    """Linear-interpolation quantile q[k] of column k."""
    position = np.clip(q, 0, 1) * (len(x) - 1)
    index = np.minimum(position.astype(np.int64), max(len(x) - 2, 0))
    out = np.empty(x.shape[1])
    for k, i in enumerate(index):
        part = np.partition(x[:, k], (i, min(i + 1, len(x) - 1)))
        upper = part[min(i + 1, len(x) - 1)]
        out[k] = part[i] + (position[k] - i) * (upper - part[i])
    return out
