# SPDX-License-Identifier: BSD-3-Clause
"""Bounds of intervals: BCa bootstrap, Student t, and joint intervals of a family of differences."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .multiplicity import quantile_reached
from .resampling import exact_product, stratum_members
from .sign_flip import FLIPS, wide_family

Ints = NDArray[np.int64]
Array = NDArray[np.float64]


def acceleration(influence: Array, strata: Ints) -> Array:
    """Return the acceleration `a` of the BCa bootstrap: the skewness of the influence of scenes.

    a = (1/6) sum u³ / (sum u²)^(3/2) with the influence u (scenes, k) centred within strata; 0 if all u are
    0.

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
    strata: Ints,
    *,
    level: float = 0.95,
    df: Array | None = None,
) -> tuple[Array, Array]:
    """Return the lower and upper BCa bounds of k scores that use the same resamples.

    Let z0 be the normal quantile of the share of resampled values below the score (ties count half), and a
    the `acceleration`. The bounds are the quantiles Phi(z0 + (z0 + z)/(1 - a (z0 + z))) of the resampled
    values for z = ± the normal quantile of the level. With `df`, z is the quantile of Student's t, because
    the spread is estimated from the same scenes. Without `df` the coverage of BCa is too low at 40 scenes.

    Shapes: `value` (k,), `resampled` (r, k), `influence` (scenes, k), `strata` (scenes,). `df` (k,) are the
    degrees of freedom of the standard error. If a score has zero spread, both bounds equal the score.

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
    """Return the linearly interpolated quantile q[k] of each column k."""
    position = np.clip(q, 0, 1) * (len(x) - 1)
    index = np.minimum(position.astype(np.int64), max(len(x) - 2, 0))
    out = np.empty(x.shape[1])
    for k, i in enumerate(index):
        part = np.partition(x[:, k], (i, min(i + 1, len(x) - 1)))
        upper = part[min(i + 1, len(x) - 1)]
        out[k] = part[i] + (position[k] - i) * (upper - part[i])
    return out


def standard_error(influence: Array, strata: Ints) -> tuple[Array, Array]:
    """Return the standard error of each score and its degrees of freedom, from the scene influence.

    With the influence u (scenes, k), v_h = n_h/(n_h-1) sum (u - mean_h u)² and se = sqrt(sum v_h). Strata may
    differ in spread, so the degrees of freedom are estimated as in Welch's test: df = (sum v_h)² / sum
    v_h²/(n_h + 1) - 2, at most n minus the number of strata, at least the smallest n_h - 1. The n_h + 1 and
    the - 2 correct the usual form with n_h - 1, which is biased low for strata of three or four scenes. For a
    plain mean in one stratum, se is s/sqrt(n) and df is n - 1. If se is 0, df is n minus the number of
    strata.

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
    highest = float((size - 1).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        welch = total**2 / (v**2 / (size + 1)).sum(axis=0) - 2
    df = np.where(total > 0, np.clip(welch, (size - 1).min(), highest), highest)
    return np.sqrt(total), df


def t_bounds(
    value: float, se: float, df: float, *, level: float = 0.95, logit: bool = False
) -> tuple[float, float]:
    """Return the bounds value ± t se. With `logit` the bounds stay between 0 and 1.

    With `logit` the bounds are computed on the scale log(p/(1-p)), where the standard error is se / (p (1 -
    p)), and mapped back. Only the score is transformed. Transforming the scene values would give a different
    mean, and infinite values for scenes at 0 or 1.

    >>> [round(b, 3) for b in t_bounds(0.97, 0.02, 10, logit=True)]
    [0.875, 0.993]
    """
    from scipy.special import expit, stdtrit

    half = float(stdtrit(df, 0.5 + level / 2)) * se
    if se == 0 or not logit or not 0 < value < 1:
        return value - half, value + half
    centre = math.log(value / (1 - value))
    half /= value * (1 - value)
    return float(expit(centre - half)), float(expit(centre + half))


def edge_bounds(value: float, n_scenes: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return the bounds of a mean of n equal scene values in [0, 1]. NaN unless the value is 0 or 1.

    If all scenes are at 1, the lower bound is the one-sided bound (1 - level)^(1/n). If the true share of
    scenes at 1 were smaller, all n scenes would be at 1 with a probability below 1 - level. If all are at 0,
    the upper bound mirrors it. The spread of scenes that are all equal to a value between 0 and 1 is unknown.

    >>> [round(b, 4) for b in edge_bounds(1.0, 10)], [round(b, 4) for b in edge_bounds(0.0, 10)]
    ([0.7411, 1.0], [0.0, 0.2589])
    """
    bound = float((1 - level) ** (1 / n_scenes))
    if abs(value - 1) < 1e-12:
        return bound, 1.0
    return (0.0, 1 - bound) if abs(value) < 1e-12 else (float("nan"), float("nan"))


SAMPLES, MIN_SAMPLES, MAX_VALUES = 4000, 1000, 40_000_000
"""Number of random samples for joint intervals, for an accuracy of 0.3 percentage points."""

_BLOCK, _STEPS = 256, 1024.0


def family_half_width(
    influence: Array, pairs: Ints, strata: Ints, *, level: float = 0.95, seed: int = 0
) -> float:
    """Return the half width, in standard errors, of joint intervals for the differences of all pairs.

    Each pair has a statistic t: the error of its estimated difference, divided by its standard error. The
    half width is the quantile, at `level`, of the largest |t| of all pairs. It is estimated from normal
    random samples with the correlation of the pairs. For one pair it is the quantile of Student's t.

    The critical value of the sign-flip test would be too small: if differences are much larger than their
    spread, all pairs flip together. The coverage of nominal 95 % intervals can then drop to 78 %.

    `pairs` (k, 2) are column indices of `influence` (scenes, methods). The result is 0 if all pairs have zero
    spread.

    >>> x = np.random.default_rng(0).normal(0, 1, (60, 5)); one = np.array([[0, 1]])
    >>> reach = family_half_width(x, one, np.zeros(60, dtype=int)); bool(1.9 < reach < 2.1)  # Student t: 2.0
    True
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    samples = int(np.clip(MAX_VALUES // max(len(pairs), 1), MIN_SAMPLES, SAMPLES))
    # Multiples of a power of two: the products are exact for any number of threads.
    normal = np.rint(rng.standard_normal((samples, len(strata))) * _STEPS)
    moved = np.zeros((samples, influence.shape[1]))
    for member in stratum_members(strata):
        n = len(member)
        own = influence[member] - influence[member].mean(axis=0)
        moved += exact_product(normal[:, member], own, own_grid=True) * np.sqrt(n / max(n - 1, 1)) / _STEPS
    largest = np.zeros(samples)
    for start in range(0, len(pairs), _BLOCK):
        first, second = pairs[start : start + _BLOCK].T
        se, df = standard_error(influence[:, first] - influence[:, second], strata)
        spread = np.sqrt(rng.chisquare(df, (samples, len(df))) / df) * se
        gap = np.abs(moved[:, first] - moved[:, second])
        with np.errstate(invalid="ignore", divide="ignore"):
            np.maximum(largest, np.where(se > 0, gap / spread, 0.0).max(axis=1), out=largest)
    return quantile_reached(largest, level)


def wide_family_half_width(
    influence: Array, strata: Ints, *, level: float = 0.95, flips: int = FLIPS, seed: int = 0
) -> float:
    """Return the half width of joint intervals for all pairs of many methods; see `wide_family`."""
    return wide_family(influence, strata, level=level, flips=flips, seed=seed).critical(level)


def intervals_matching_tests(
    difference: Array, half: Array, separated: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Return the intervals difference ± half, adjusted to agree with the tests, as low (k,) and high (k,).

    Step-down tests separate a few more pairs than joint intervals do. For these pairs only the sign of the
    difference is known, so the interval ends just before 0. The interval of a pair that is not separated is
    extended to 0 if necessary.

    >>> d, half = np.array([0.5, 0.5, -0.2]), np.array([0.2, 0.6, 0.1])
    >>> low, high = intervals_matching_tests(d, half, np.array([True, True, False]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.3, 0.0, -0.3], [0.7, 1.1, 0.0])
    """
    low, high = difference - half, difference + half
    up, down = separated & (difference > 0), separated & (difference < 0)
    low = np.where(up, np.maximum(low, 0.0), np.where(separated, low, np.minimum(low, 0.0)))
    high = np.where(down, np.minimum(high, 0.0), np.where(separated, high, np.maximum(high, 0.0)))
    return low, high
