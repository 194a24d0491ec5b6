# SPDX-License-Identifier: BSD-3-Clause
"""Sequential tests of the mean of bounded unit values by betting: capital, confidence sequence, closed tests.

The error probability holds for all numbers of units together, so a test may stop at any time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
BETS: Array = 0.9 * 2.0 ** -np.arange(8.0)
"""Shares of the capital at stake, from bold to careful. The capital is the mean over them."""

EDGE = 1e-9
"""Distances up to this count as zero."""

_TOLERANCE = 1e-10
_LARGEST_LOG = 690.0


@dataclass(frozen=True)
class UnitBounds:
    """Unbiased estimates of the mean difference, and the range of each before its unit is drawn.

    `drawn` (..., n) are the estimates, `lowest` and `highest` (..., n) their ranges. After the last unit the
    mean is between `low` and `high` (...) with certainty.
    """

    drawn: Array
    lowest: Array
    highest: Array
    low: Array
    high: Array


def unit_bounds(differences: ArrayLike, weights: ArrayLike | None) -> UnitBounds:
    """Return the estimates of units in order of drawing, from differences (..., n) between -1 and 1.

    Args:
        differences: Differences of the units that were drawn.
        weights: (..., n) weights of the units in a finite list, whose weights have sum 1. None if the units
            are independent samples of an unlimited population.

    >>> unit_bounds([1.0, 0.0], [0.5, 0.5]).drawn.tolist(), unit_bounds([1.0, 0.0], None).drawn.tolist()
    ([1.0, 0.5], [1.0, 0.0])
    """
    d = np.asarray(differences, np.float64)
    if weights is None:
        ones = np.ones(d.shape)
        return UnitBounds(d, -ones, ones, np.full(d.shape[:-1], -1.0), np.full(d.shape[:-1], 1.0))
    w = np.broadcast_to(np.asarray(weights, np.float64), d.shape)
    seen, left = np.cumsum(w * d, axis=-1), 1.0 - np.cumsum(w, axis=-1)
    start = np.zeros((*d.shape[:-1], 1))
    before = np.concatenate([start, seen[..., :-1]], axis=-1)
    ahead = np.concatenate([start + 1.0, left[..., :-1]], axis=-1)
    end = np.maximum(left[..., -1], 0.0) if d.shape[-1] else np.ones(d.shape[:-1])
    total = seen[..., -1] if d.shape[-1] else np.zeros(d.shape[:-1])
    return UnitBounds(before + ahead * d, before - ahead, before + ahead, total - end, total + end)


def bet(logs: Array, gain: ArrayLike, room: ArrayLike) -> Array:
    """Return the logarithms (..., bets) of the capital of each bet after one unit.

    `gain` is the unit's estimate minus the tested mean, `room` the largest possible loss. If the room is 0, a
    gain shows that the mean is impossible, and the capital is infinite. If both are 0, all remaining units
    equal the tested mean, and the capital does not change.
    """
    gain, room = np.asarray(gain, np.float64)[..., None], np.asarray(room, np.float64)[..., None]
    tight = room <= EDGE
    ratio = np.divide(gain, room, out=np.zeros(np.broadcast(gain, room).shape), where=~tight)
    # Rounding may put a unit outside its range by an ulp.
    grown = logs + np.log1p(BETS * np.maximum(ratio, -1.0))
    return np.where(tight, np.where(gain > EDGE, np.inf, logs), grown)


def capital_of(logs: Array) -> Array:
    """Return the capital: the mean of the bets whose logarithms (..., bets) are given."""
    top = logs.max(axis=-1)
    finite = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(over="ignore"):
        total = finite + np.log(np.exp(logs - finite[..., None]).mean(axis=-1))
    return np.where(np.isinf(top), np.inf, np.exp(np.minimum(total, _LARGEST_LOG)))


def capitals(units: UnitBounds, mean: float) -> tuple[float, float]:
    """Return the final capital of the bets that the mean is above and below `mean`, after units (n,)."""
    found = []
    for gain, room in (
        (units.drawn - mean, mean - units.lowest),
        (mean - units.drawn, units.highest - mean),
    ):
        tight = room <= EDGE
        if bool((tight & (gain > EDGE)).any()):
            found.append(float("inf"))
            continue
        ratio = np.maximum(gain[~tight] / room[~tight], -1.0)
        found.append(float(capital_of(np.log1p(BETS[:, None] * ratio).sum(axis=1))))
    return found[0], found[1]


def confidence_set(units: UnitBounds, alpha: float) -> tuple[float, float]:
    """Return the interval of means that bets with error probability `alpha` do not exclude.

    The sets of different numbers of units hold simultaneously, so their intersection is also a confidence
    set.
    """
    from scipy.optimize import brentq

    low, high = float(units.low), float(units.high)

    def excess(mean: float) -> float:
        """Return log(capital / limit), which is negative for means inside the confidence set."""
        capital = sum(capitals(units, mean)) / 2
        return _LARGEST_LOG if np.isinf(capital) else float(np.log(capital * alpha))

    centre = min(max(float(units.drawn.mean()), low), high)
    if excess(centre) >= 0:
        centre = _least(units, low, high)
        if excess(centre) >= 0:
            return centre, centre
    ends = [
        end if excess(end) < 0 else float(brentq(excess, centre, end, xtol=_TOLERANCE)) for end in (low, high)
    ]
    return ends[0], ends[1]


def _least(units: UnitBounds, low: float, high: float) -> float:
    """Return the mean between `low` and `high` with the least capital.

    Ternary search finds it, because the capital is convex.
    """
    while high - low > _TOLERANCE:
        a, b = low + (high - low) / 3, high - (high - low) / 3
        if sum(capitals(units, a)) <= sum(capitals(units, b)):
            high = b
        else:
            low = a
    return (low + high) / 2


def adjusted_evidence(evidence: ArrayLike) -> Array:
    """Return the evidence (n,) against each hypothesis after closed testing by averages.

    If a hypothesis is rejected when its evidence reaches 1/alpha, the probability of any wrong rejection is
    at most alpha.

    >>> adjusted_evidence([30.0, 0.5, 45.0, 0.01]).round(3).tolist()
    [10.17, 0.255, 15.17, 0.01]
    """
    e = np.asarray(evidence, np.float64)
    n = len(e)
    order = np.argsort(e, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(e[order])])
    k = np.arange(n)
    rank = np.empty(n, np.int64)
    rank[order] = k
    # Averages over a hypothesis and the k smallest others. If it is one of the k smallest, take one more.
    own = np.where(k[None] > rank[:, None], sums[k + 1][None], e[:, None] + sums[k][None])
    return np.asarray((own / (k + 1)).min(axis=1))
