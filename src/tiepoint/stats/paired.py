# SPDX-License-Identifier: BSD-3-Clause
"""Paired differences of methods on the same scenes: size, interval, tests, scenes won."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .families import Family, benjamini_hochberg, holm, step_down
from .sample import Sample
from .signflip import FLIPS, sign_flip_family
from .student import standard_error

Array = NDArray[np.float64]
_IN_CACHE = 1 << 16


@dataclass(frozen=True)
class Paired:
    """Differences first - second of k pairs of methods.

    `low`, `high` are intervals of each difference alone; `family` has its p-values, `q` those of
    Benjamini-Hochberg (exploration only); `wins` (k, 3) counts scenes won, level and lost (None for pooled
    scores); `resolvable` is the true difference that would be separated with 80 % probability.
    """

    pairs: NDArray[np.int64]
    difference: Array
    low: Array
    high: Array
    family: Family
    q: Array
    effect: Array
    resolvable: Array
    wins: NDArray[np.int64] | None


def paired(
    sample: Sample,
    pairs: NDArray[np.int64],
    *,
    level: float = 0.95,
    flips: int = FLIPS,
    seed: int = 0,
) -> Paired:
    """Compare pairs of methods; the pairs together are one family.

    Scene means are tested by sign flips. Pooled scores have no scene values to flip: from 40 scenes on the
    null is the resampled differences around the observed ones, divided by their standard deviation
    (step-down max-T); below that Student t with Holm.

    Args:
        sample: methods on scenes.
        pairs: (k, 2) columns of the sample.
        level: of intervals and of the family.
        flips: random sign patterns, if not all can be taken.
        seed: of the patterns.
    """
    pairs = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    gap = sample.minus(pairs, with_resampled=False)
    low, high = sample.difference_bounds(pairs, level=level)
    se, df = standard_error(gap.influence, gap.strata)
    if sample.alone:
        se = np.full_like(se, np.nan)
    if sample.contributions is not None:
        family = sign_flip_family(sample.contributions, pairs, sample.strata, flips=flips, seed=seed)
    elif sample.resampled is not None:
        family = _resampled_family(sample.resampled, gap.value, pairs)
    else:
        family = _student_family(gap, se, df)
    critical = family.critical(level) if len(family.null_maximum) else None
    k = range(len(pairs))
    wins = None
    if gap.by_scene is not None:
        zero = np.zeros(gap.n_scenes)
        wins = np.array([win_tie_loss(row, zero) for row in gap.by_scene], dtype=np.int64).reshape(-1, 3)
    return Paired(
        pairs,
        gap.value,
        low,
        high,
        family,
        benjamini_hochberg(family.p),
        np.array([effect_size(gap.value[i], se[i], gap.n_scenes) for i in k]),
        np.array([smallest_resolvable(se[i], df[i], critical=critical) for i in k]),
        wins,
    )


def all_pairs(m: int) -> NDArray[np.int64]:
    """All pairs i < j of m methods, (m (m-1)/2, 2).

    >>> all_pairs(3).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    return np.stack(np.triu_indices(m, 1), axis=1).astype(np.int64)


def against(baseline: int, m: int) -> NDArray[np.int64]:
    """Pairs (other, baseline) of every other of m methods.

    >>> against(1, 3).tolist()
    [[0, 1], [2, 1]]
    """
    return np.array([(i, baseline) for i in range(m) if i != baseline], dtype=np.int64).reshape(-1, 2)


def _resampled_family(drawn: Array, difference: Array, pairs: NDArray[np.int64]) -> Family:
    first, second = pairs.T
    centre = drawn.mean(axis=0)
    middle = centre[first] - centre[second]
    # The variance of a difference from variances and covariances: no table of all pairs and resamples.
    cov = np.atleast_2d(np.cov(drawn, rowvar=False))
    spread = np.sqrt(np.maximum(cov[first, first] + cov[second, second] - 2 * cov[first, second], 1e-300))
    observed = np.abs(difference) / spread
    width = max(16, _IN_CACHE // max(len(pairs), 1))

    def blocks(order: NDArray[np.int64]) -> Iterator[Array]:
        yield observed[order][:, None]
        a, b = pairs[order].T
        for start in range(0, len(drawn), width):
            block = np.ascontiguousarray(drawn[start : start + width].T)
            yield np.abs(block[a] - block[b] - middle[order][:, None]) / spread[order][:, None]

    return step_down(observed, blocks, exact=False)


def _student_family(gap: Sample, se: Array, df: Array) -> Family:
    from scipy.special import stdtr

    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(se > 0, np.abs(gap.value) / se, np.where(gap.value == 0, 0.0, np.inf))
    p = 2 * stdtr(df, -t)
    return Family(t, p, holm(p), np.zeros(0), 0, False)


def effect_size(difference: float, se: float, n_scenes: int) -> float:
    """Difference in units of its spread from scene to scene: difference / (se sqrt(n)).

    For a plain mean of paired differences it is mean / standard deviation. It does not grow with the number
    of scenes, unlike a p-value. NaN without spread.

    >>> effect_size(0.02, 0.01, 4)
    1.0
    """
    return difference / (se * float(np.sqrt(n_scenes))) if se > 0 else float("nan")


def smallest_resolvable(se: float, df: float, *, critical: float | None = None, power: float = 0.8) -> float:
    """The true difference that such data would separate with the given probability.

    (critical + t_power) se, where `critical` is the value |t| must exceed; by default that of a single test
    at 95 %, for a family the one of its max-T. Two methods whose true difference is smaller may well not be
    separated: it then says little that they are not.

    >>> round(smallest_resolvable(0.01, 100), 4)
    0.0283
    """
    from scipy.special import stdtrit

    limit = float(stdtrit(df, 0.975)) if critical is None else critical
    return (limit + float(stdtrit(df, power))) * se


def win_tie_loss(a: Array, b: Array, *, tolerance: float = 1e-9) -> tuple[int, int, int]:
    """In how many scenes a is above b, level with it, below it; scenes without both values are left out.

    >>> win_tie_loss(np.array([0.3, 0.2, 0.1, np.nan]), np.array([0.1, 0.2, 0.4, 0.5]))
    (1, 1, 1)
    """
    gap = (a - b)[np.isfinite(a) & np.isfinite(b)]
    wins, losses = int((gap > tolerance).sum()), int((gap < -tolerance).sum())
    return wins, len(gap) - wins - losses, losses
