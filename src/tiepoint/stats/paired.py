# SPDX-License-Identifier: BSD-3-Clause
"""Paired differences of methods on the same scenes: effect size, interval, tests, wins and losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from .bootstrap_t import bootstrap_t_family
from .interval_bounds import (
    family_half_width,
    intervals_matching_tests,
    standard_error,
    wide_family_half_width,
)
from .multiplicity import TestFamily, benjamini_hochberg
from .resampling import stratum_members
from .samples import MethodSample
from .sign_flip import FLIPS, sign_flip_family, wide_family
from .skewness import skewness, skewness_limit

Ints = NDArray[np.int64]
Array = NDArray[np.float64]
SIGN_FLIP, BOOTSTRAP_T = TESTS = ("sign-flip", "bootstrap-t")


@dataclass(frozen=True)
class PairedResult:
    """Score differences (first - second) of k pairs of methods, tested together as one family.

    `sample` contains the scores of the methods. Slow attributes, such as intervals, are computed on first
    access.
    """

    sample: MethodSample
    pairs: Ints
    difference: Array
    family: TestFamily
    level: float = 0.95
    part_of: tuple[PairedResult, Ints] | None = None
    find_reach: Callable[[], float] | None = None

    def take(self, which: Ints) -> PairedResult:
        """Return the results of some pairs. P-values stay adjusted for the complete family."""
        own = self.family
        family = replace(own, statistic=own.statistic[which], p=own.p[which], adjusted=own.adjusted[which])
        return replace(
            self,
            pairs=self.pairs[which],
            difference=self.difference[which],
            family=family,
            part_of=(self, which),
        )

    @property
    def separated(self) -> NDArray[np.bool_]:
        """Whether the family-wise test separates each pair at the confidence level, (k,)."""
        return np.asarray(self.family.adjusted <= 1 - self.level + 1e-12)

    @cached_property
    def reach(self) -> float:
        """Half width, in standard errors, of the joint intervals of all pairs."""
        if self.part_of is not None:
            return self.part_of[0].reach
        return float("nan") if self.find_reach is None else self.find_reach()

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Joint confidence intervals of all differences, as low (k,) and high (k,).

        An interval excludes 0 if and only if the pair is separated; see `intervals_matching_tests`. NaN if
        there are fewer than 6 scenes, or if the difference is the same in all scenes.
        """
        if self.sample.interval_kind == "none" or not len(self.pairs):
            return np.full(len(self.pairs), np.nan), np.full(len(self.pairs), np.nan)
        half = np.where(self._gap.flat, np.nan, self.reach * self._error[0])
        return intervals_matching_tests(self.difference, half, self.separated)

    @cached_property
    def single_bounds(self) -> tuple[Array, Array]:
        """Confidence interval of each difference without correction for other pairs, low (k,), high (k,)."""
        pairs = self.pairs
        if self.part_of is not None and len(self.part_of[0].pairs) > 1:
            # A sum over scenes may round differently for a single pair than for one among others.
            pairs = np.concatenate([pairs, pairs[-1:]])
        low, high = self.sample.difference_bounds(pairs, level=self.level)
        return low[: len(self.pairs)], high[: len(self.pairs)]

    @property
    def low(self) -> Array:
        """Lower bounds of the joint intervals, (k,)."""
        return self.bounds[0]

    @property
    def high(self) -> Array:
        """Upper bounds of the joint intervals, (k,)."""
        return self.bounds[1]

    @cached_property
    def q(self) -> Array:
        """Benjamini-Hochberg adjusted p-values (k,), for exploration only."""
        if self.part_of is not None:
            family, which = self.part_of
            return family.q[which]
        return benjamini_hochberg(self.family.p)

    @cached_property
    def _gap(self) -> MethodSample:
        return self.sample.minus(self.pairs, with_resampled=False)

    @cached_property
    def _error(self) -> tuple[Array, Array]:
        se, df = standard_error(self._gap.influence, self._gap.strata)
        return (np.full_like(se, np.nan) if self.sample.singleton_scenes else se), df

    @cached_property
    def effect(self) -> Array:
        """Differences divided by their standard deviation over scenes, (k,); see `effect_size`."""
        n, se = self.sample.n_scenes, self._error[0]
        return np.array([effect_size(d, s, n) for d, s in zip(self.difference, se, strict=True)])

    @cached_property
    def skewed(self) -> NDArray[np.bool_]:
        """Whether the scene differences of each pair are more skewed than 99 % of normal samples, (k,)."""
        assert self._gap.contributions is not None
        own = self._gap.contributions.copy()
        for member in stratum_members(self.sample.strata):
            own[member] -= own[member].mean(axis=0)
        return np.asarray(np.abs(skewness(own)) > skewness_limit(len(own)))

    @cached_property
    def resolvable(self) -> Array:
        """Smallest true difference (k,) that would be separated with a probability of 80 %."""
        critical = self.family.critical(self.level)
        return np.array(
            [smallest_resolvable(s, d, critical=critical) for s, d in zip(*self._error, strict=True)]
        )

    @cached_property
    def wins(self) -> Ints | None:
        """Numbers of scenes won, tied and lost, (k, 3). None for pooled scores."""
        if self._gap.by_scene is None:
            return None
        zero = np.zeros(self.sample.n_scenes)
        rows = [win_tie_loss(row, zero) for row in self._gap.by_scene]
        return np.array(rows, dtype=np.int64).reshape(-1, 3)


def compare_pairs(
    sample: MethodSample,
    pairs: Ints,
    *,
    level: float = 0.95,
    flips: int = FLIPS,
    seed: int = 0,
    test: str = SIGN_FLIP,
) -> PairedResult:
    """Compare pairs of methods and return the result. The pairs form one family of tests.

    `pairs` (k, 2) are column indices of the sample. The contributions of scenes to each difference are tested
    with step-down max-T, both for means over scenes and for pooled scores. The sign-flip test uses `flips`
    random sign patterns, or all patterns if there are at most `flips`. Joint intervals of the bootstrap-t
    test use the critical value of that test. `level` is the confidence level of the intervals and of the
    family.
    """
    pairs = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    difference = sample.value[pairs[:, 0]] - sample.value[pairs[:, 1]]
    assert sample.contributions is not None
    if test == BOOTSTRAP_T:
        family = bootstrap_t_family(sample.contributions, pairs, sample.strata, seed=seed)
        return PairedResult(
            sample, pairs, difference, family, level, find_reach=partial(family.critical, level)
        )
    family = sign_flip_family(sample.contributions, pairs, sample.strata, flips=flips, seed=seed)
    reach = partial(family_half_width, sample.influence, pairs, sample.strata, level=level, seed=seed)
    return PairedResult(sample, pairs, difference, family, level, find_reach=reach)


MAX_STEP_DOWN_METHODS = 300
"""Maximum number of methods for which all pairs are tested by step-down max-T."""


@dataclass(frozen=True)
class WideResult:
    """Test results for many methods. `shown` has the pairs (other, base) only, adjusted for all pairs.

    `above` and `below` (m,) count the methods that are significantly better and worse than each method, in
    column order.
    """

    shown: PairedResult
    above: Ints
    below: Ints


def compare_pairs_wide(
    sample: MethodSample, columns: Ints, base: int, *, level: float = 0.95, flips: int = FLIPS, seed: int = 0
) -> WideResult:
    """Compare all pairs of many methods as one family of tests. Return the pairs with `base`.

    The result has the differences of all `columns` of the sample to the column `base`. Because 5,000 methods
    have twelve million pairs, the test is single-step max-T with fewer sign patterns; see `wide_family`.
    """
    pairs = np.array([(m, base) for m in columns if m != base], dtype=np.int64)
    assert sample.contributions is not None
    family = wide_family(sample.contributions[:, columns], sample.strata, level=level, flips=flips, seed=seed)
    single = compare_pairs(sample, pairs, level=level, flips=family.flips, seed=seed)
    adjusted = family.adjusted_p(single.family.statistic)
    own = replace(single.family, adjusted=adjusted, null_maximum=family.null_maximum)
    influence, strata, flips = sample.influence[:, columns], sample.strata, family.flips
    reach = partial(wide_family_half_width, influence, strata, level=level, flips=flips, seed=seed)
    return WideResult(replace(single, family=own, find_reach=reach), family.above, family.below)


def all_pairs(m: int) -> Ints:
    """Return all pairs i < j of m methods, (m (m-1)/2, 2).

    >>> all_pairs(3).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    return np.stack(np.triu_indices(m, 1), axis=1).astype(np.int64)


def against(baseline: int, m: int) -> Ints:
    """Return the pairs (other, baseline) of all m - 1 other methods with the baseline.

    >>> against(1, 3).tolist()
    [[0, 1], [2, 1]]
    """
    return np.array([(i, baseline) for i in range(m) if i != baseline], dtype=np.int64).reshape(-1, 2)


def effect_size(difference: float, se: float, n_scenes: int) -> float:
    """Return the difference divided by its standard deviation over scenes: difference / (se sqrt(n)).

    For a plain mean of paired differences the effect size is mean / standard deviation. Unlike a test
    statistic it does not grow with the number of scenes. NaN if the standard error is 0.

    >>> effect_size(0.02, 0.01, 4)
    1.0
    """
    return difference / (se * float(np.sqrt(n_scenes))) if se > 0 else float("nan")


def smallest_resolvable(se: float, df: float, *, critical: float | None = None, power: float = 0.8) -> float:
    """Return the smallest true difference that the test would separate with the given probability.

    The difference is (critical + t_power) se, where `critical` is the value that |t| must exceed. The default
    is the critical value of a single test at 95 %; for a family pass the critical value of its max-T. Smaller
    true differences are often not detected. So two methods that are not separated may still differ.

    >>> round(smallest_resolvable(0.01, 100), 4)
    0.0283
    """
    from scipy.special import stdtrit

    limit = float(stdtrit(df, 0.975)) if critical is None else critical
    return (limit + float(stdtrit(df, power))) * se


def win_tie_loss(a: Array, b: Array, *, tolerance: float = 1e-9) -> tuple[int, int, int]:
    """Count the scenes where a is above b, equal to b, and below b. Skip scenes that lack a value.

    >>> win_tie_loss(np.array([0.3, 0.2, 0.1, np.nan]), np.array([0.1, 0.2, 0.4, 0.5]))
    (1, 1, 1)
    """
    gap = (a - b)[np.isfinite(a) & np.isfinite(b)]
    wins, losses = int((gap > tolerance).sum()), int((gap < -tolerance).sum())
    return wins, len(gap) - wins - losses, losses
