# SPDX-License-Identifier: BSD-3-Clause
"""Size of a benchmark: how many scenes and pairs separate two methods that differ by a given amount."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .betting import BETS

MAX_SCENES = 1_000_000
"""Numbers of scenes above this are reported as more than a million."""
MIN_SCENES, MIN_SCENES_INTERVAL = 3, 6
"""Minimum numbers of present scenes for a plan, and for an interval of the planned number."""
Z_80 = 1.2815515655446004
"""Normal quantile of a two-sided 80 % interval."""


@dataclass(frozen=True)
class Components:
    """Variance of unit differences, within and between scenes.

    `mean` and `scene_variance` are the mean and the sample variance of the scene means. `pairs_a_scene` is
    the harmonic mean of the numbers of units per scene. `within` and `between` are the variances within and
    between scenes, and `icc` is the intraclass correlation. They are None if all scenes have one unit.
    """

    scenes: int
    pairs: int
    mean: float
    scene_variance: float
    pairs_a_scene: float
    within: float | None = None
    between: float | None = None
    icc: float | None = None

    def design_effect(self, pairs_a_scene: float) -> float | None:
        """Return the design effect: the factor by which units of one scene increase the variance of the mean.

        None if unknown.
        """
        return None if self.icc is None else 1 + (pairs_a_scene - 1) * self.icc

    def variance(self, pairs_a_scene: int | None = None) -> float:
        """Return the variance of a scene's mean difference, for the present or another number of pairs."""
        if pairs_a_scene is None:
            return self.scene_variance
        if self.within is None or self.between is None:
            raise ValueError("every scene has one pair, so the variance with more pairs is unknown")
        return self.between + self.within / pairs_a_scene


def components(groups: Sequence[ArrayLike]) -> Components:
    """Return the variance components of differences grouped by scene.

    >>> found = components([[0.1, 0.3], [0.2, 0.0], [0.5, 0.4]])
    >>> found.scenes, found.pairs, round(found.within, 4), round(found.icc, 4)
    (3, 6, 0.015, 0.625)
    """
    values = [np.asarray(g, np.float64) for g in groups if np.size(g)]
    S, N = len(values), int(sum(len(v) for v in values))
    means = np.array([v.mean() for v in values])
    mean = float(np.concatenate(values).mean())
    centre = float(means.mean())
    scene_variance = float(means.var(ddof=1))
    sizes = np.array([len(v) for v in values], np.float64)
    usual = float(S / (1 / sizes).sum())
    if N == S:
        return Components(S, N, centre, scene_variance, usual)
    msb = float((sizes * (means - mean) ** 2).sum() / (S - 1))
    msw = float(sum(((v - m) ** 2).sum() for v, m in zip(values, means, strict=True)) / (N - S))
    n0 = (N - float((sizes**2).sum()) / N) / (S - 1)
    between = max(0.0, (msb - msw) / n0)
    total = between + msw
    return Components(
        S, N, centre, scene_variance, usual, msw, between, between / total if total > 0 else 0.0
    )


def scenes_needed(
    variance: float, delta: float, *, power: float = 0.8, alpha: float = 0.05, kinds: int = 1
) -> int | None:
    """Return the smallest number of scenes that separates a difference. None if more than a million.

    This is the inverse of `smallest_resolvable`, with scenes - kinds degrees of freedom.

    >>> scenes_needed(0.03**2, 0.005)
    285
    """
    if variance <= 0:
        return kinds + 1
    sd = math.sqrt(variance)

    def enough(scenes: int) -> bool:
        return _resolvable(sd, scenes, kinds, power, alpha) <= delta

    if not enough(MAX_SCENES):
        return None
    low, high = kinds, kinds + 1
    while not enough(high):
        low, high = high, min(2 * high, MAX_SCENES)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _resolvable(sd: float, scenes: int, kinds: int, power: float, alpha: float) -> float:
    from scipy.special import stdtrit

    df = scenes - kinds
    return float(stdtrit(df, 1 - alpha / 2) + stdtrit(df, power)) * sd / math.sqrt(scenes)


def detectable(
    variance: float, scenes: int, *, power: float = 0.8, alpha: float = 0.05, kinds: int = 1
) -> float:
    """Return the smallest difference that a number of scenes separates with the given probability."""
    return _resolvable(math.sqrt(variance), scenes, kinds, power, alpha)


def exact_power(variance: float, delta: float, scenes: int, alpha: float = 0.05, *, kinds: int = 1) -> float:
    """Return the probability that a t test on this number of scenes separates a difference."""
    from scipy.stats import nct, t

    df, shift = scenes - kinds, delta / math.sqrt(variance / scenes)
    critical = float(t.ppf(1 - alpha / 2, df))
    return float(nct.sf(critical, df, shift) + nct.cdf(-critical, df, shift))


def variance_factors(means: ArrayLike) -> tuple[float, float]:
    """Return the factors from the sample variance to the ends of its 80 % interval (Bonett 2006).

    The factors depend on the kurtosis of the scene means, because a few scenes may differ much.
    """
    m = np.asarray(means, np.float64)
    S = len(m)
    trim = min(int(S / (2 * math.sqrt(S - 4))), (S - 1) // 2) if S > 4 else 0
    middle = np.sort(m)[trim : S - trim].mean()
    squares = float(((m - m.mean()) ** 2).sum())
    if np.ptp(m) == 0:
        return 1.0, 1.0
    k4 = S * float(((m - middle) ** 4).sum()) / squares**2
    se = math.sqrt(max(0.0, k4 - (S - 3) / S) / (S - 1))
    c = S / (S - Z_80)
    return c * math.exp(-Z_80 * c * se), c * math.exp(Z_80 * c * se)


def race_length(unit_variance: float, delta: float, units: int | None = None, alpha: float = 0.05) -> float:
    """Return the expected number of units of a race of two methods that differ by `delta`.

    `units` is the size of the benchmark; None for an unlimited benchmark.

    >>> round(race_length(0.25**2, 0.05, 1500), 2)
    211.26
    """
    capital = math.log(2 * math.sqrt(len(BETS)) / alpha)
    steps = capital * 2 * (unit_variance + delta**2) / delta**2
    return steps if units is None else steps / (1 + steps / units)


def stratified_variance(
    variances: Mapping[str, float], weights: Mapping[str, float], shares: Mapping[str, float]
) -> float:
    """Return the variance per scene of a weighted mean over kinds of scenes.

    All arguments are by kind: the variance of a scene, the weight in the mean, and the share of the scenes.

    >>> stratified_variance({"v": 0.04, "i": 0.04}, {"v": 0.5, "i": 0.5}, {"v": 0.5, "i": 0.5})
    0.04
    """
    return sum(weights[k] ** 2 * variances[k] / shares[k] for k in variances)
