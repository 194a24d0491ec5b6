# SPDX-License-Identifier: BSD-3-Clause
"""Intervals of differences that hold for a whole family at once, and agree with its tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .multiplicity import quantile_reached
from .resampling import exact_product, stratum_members
from .sign_flip import FLIPS, wide_family
from .student import standard_error

Array = NDArray[np.float64]
DRAWS, FEWEST_DRAWS, MOST = 4000, 1000, 40_000_000
"""Draws behind the reach of intervals: the level is then known to 0.3 points; fewer for very many pairs."""

_BLOCK, _STEPS = 256, 1024.0


def family_half_width(
    influence: Array,
    pairs: NDArray[np.int64],
    strata: NDArray[np.int64],
    *,
    level: float = 0.95,
    seed: int = 0,
) -> float:
    """How many standard errors on either side hold the differences of all pairs at once.

    The quantile of the largest |t| of the family around the true differences: normal draws that depend on
    each other as the pairs do in these scenes, each over a standard error of its own. For one pair it is
    Student's t. The quantile of the test, where nothing differs, would be too small: where differences are
    much larger than their spread all pairs flip together, and of 95 % as few as 78 remain.

    Args:
        influence: of scenes on the scores, (scenes, methods).
        pairs: (k, 2), columns of `influence`.
        strata: (scenes,).
        level: at which all intervals hold together.
        seed: of the draws.

    Returns:
        The reach; 0 where no pair has any spread.

    >>> x = np.random.default_rng(0).normal(0, 1, (60, 5)); one = np.array([[0, 1]])
    >>> reach = family_half_width(x, one, np.zeros(60, dtype=int)); bool(1.9 < reach < 2.1)  # Student t: 2.0
    True
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    draws = int(np.clip(MOST // max(len(pairs), 1), FEWEST_DRAWS, DRAWS))
    # Multiples of a power of two: the products are exact, whatever the number of threads.
    normal = np.rint(rng.standard_normal((draws, len(strata))) * _STEPS)
    moved = np.zeros((draws, influence.shape[1]))
    for member in stratum_members(strata):
        n = len(member)
        own = influence[member] - influence[member].mean(axis=0)
        moved += exact_product(normal[:, member], own, own_grid=True) * np.sqrt(n / max(n - 1, 1)) / _STEPS
    largest = np.zeros(draws)
    for start in range(0, len(pairs), _BLOCK):
        first, second = pairs[start : start + _BLOCK].T
        se, df = standard_error(influence[:, first] - influence[:, second], strata)
        spread = np.sqrt(rng.chisquare(df, (draws, len(df))) / df) * se
        gap = np.abs(moved[:, first] - moved[:, second])
        with np.errstate(invalid="ignore", divide="ignore"):
            np.maximum(largest, np.where(se > 0, gap / spread, 0.0).max(axis=1), out=largest)
    return quantile_reached(largest, level)


def wide_family_half_width(
    influence: Array, strata: NDArray[np.int64], *, level: float = 0.95, flips: int = FLIPS, seed: int = 0
) -> float:
    """`family_half_width` of all pairs of many methods, by flipping signs of the influence; see `wide_family`."""
    return wide_family(influence, strata, level=level, flips=flips, seed=seed).critical(level)


def intervals_matching_tests(
    difference: Array, half: Array, separated: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Intervals difference ± half, brought to agree with the tests: low (k,), high (k,).

    Step-down tests separate a few more pairs than intervals that hold at once. Of such a pair the direction
    is known and no least size: its interval ends at 0, which is not in it. The interval of a pair that is
    not separated holds 0, at its end if need be.

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
