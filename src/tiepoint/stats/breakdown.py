# SPDX-License-Identifier: BSD-3-Clause
"""Breakdown point of a score along levels of difficulty: where a non-increasing fit falls to one half."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.splitmix import random_integers, seed_of

Floats = NDArray[np.float64]

SHARE = 0.5
"""Share of its value at the first level to which the fit falls at the breakdown point."""
LEAST_SCENES = 6
"""Minimum number of scenes for an interval."""
DRAWS = 2000
QUANTILES = (0.025, 0.975)


@dataclass(frozen=True)
class Axis:
    """Axis of levels. `to` converts a level to a coordinate, `back` a coordinate to a level.

    Breakdown points are interpolated in the coordinate, which increases with difficulty.
    """

    to: Callable[[float], float]
    back: Callable[[float], float]


LINEAR = Axis(float, float)
LOG2 = Axis(math.log2, lambda a: 2.0**a)
QUALITY = Axis(lambda q: 100.0 - q, lambda a: 100.0 - a)


@dataclass(frozen=True)
class BreakdownPoint:
    """Level at which the fit falls to half of its first value.

    If `beyond` is set, the fit stays above half, and `level` is the last level. If `nothing` is set, the
    score is 0 at the first level, and `level` is that level.
    """

    level: float
    beyond: bool = False
    nothing: bool = False


@dataclass(frozen=True)
class StressCurve:
    """Mean score by level, its non-increasing fit, and the breakdown point with a 95 % interval.

    `interval` is None with fewer than six scenes. `rise` is the largest amount by which the mean is above the
    fit. A large `rise` shows that the score is not monotone.
    """

    levels: tuple[float, ...]
    mean: Floats
    fit: Floats
    point: BreakdownPoint
    interval: tuple[BreakdownPoint, BreakdownPoint] | None
    rise: float


def stress_curve(
    table: Floats, levels: Sequence[float], scenes: Sequence[str], *, axis: Axis, kind: str
) -> StressCurve:
    """Return the curve of scores (scenes, levels), levels in ascending difficulty.

    `kind` and the names of the scenes seed the resampling of scenes.

    >>> made = stress_curve(np.array([[1.0, 0.5, 0.0]]), (0, 10, 20), ("a",), axis=LINEAR, kind="tilt")
    >>> made.point.level, made.interval
    (10.0, None)
    """
    order = sorted(range(len(scenes)), key=lambda i: scenes[i])
    ordered = np.asarray(table, np.float64)[order]
    mean = ordered.mean(axis=0)
    fit = non_increasing_fit(mean)
    coordinates = [axis.to(level) for level in levels]
    interval = None
    if len(scenes) >= LEAST_SCENES:
        names = "|".join(scenes[i] for i in order)
        low, high = _interval(ordered, coordinates, seed_of(f"tiepoint-stress-interval|{kind}|{names}"))
        interval = _point(low, levels, axis), _point(high, levels, axis)
    point = _point(_breakdown(fit, coordinates), levels, axis)
    return StressCurve(tuple(map(float, levels)), mean, fit, point, interval, float((mean - fit).max()))


def non_increasing_fit(values: Floats) -> Floats:
    """Return the non-increasing sequence with the smallest squared distance to values (n,).

    >>> non_increasing_fit(np.array([1.0, 0.2, 0.4, 0.1])).round(12).tolist()
    [1.0, 0.3, 0.3, 0.1]
    """
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        total, count = value, 1
        while blocks and blocks[-1][0] * count < total * blocks[-1][1]:
            before = blocks.pop()
            total, count = total + before[0], count + before[1]
        blocks.append((total, count))
    return np.repeat([total / count for total, count in blocks], [count for _, count in blocks])


Found = tuple[bool, float]
"""Whether a breakdown point is beyond the last level, and its coordinate. Sorts by difficulty."""


def _breakdown(fit: Floats, coordinates: Sequence[float]) -> Found:
    if fit[0] <= 0:
        return False, -math.inf
    below = np.flatnonzero(fit <= SHARE * fit[0])
    if not len(below):
        return True, coordinates[-1]
    i = int(below[0])  # at least 1, because the first value is positive
    part = (fit[i - 1] - SHARE * fit[0]) / (fit[i - 1] - fit[i])
    return False, float(coordinates[i - 1] + part * (coordinates[i] - coordinates[i - 1]))


def _interval(table: Floats, coordinates: Sequence[float], seed: int) -> tuple[Found, Found]:
    """Return the 2.5 % and 97.5 % quantiles of the breakdown points over 2000 bootstrap samples of scenes."""
    count = len(table)
    u = (random_integers(seed, DRAWS * count) >> np.uint64(11)).astype(np.float64) / 2.0**53
    index = np.floor(u * count).astype(np.int64).reshape(DRAWS, count)
    means = table[index].mean(axis=1)
    rises = (np.diff(means, axis=1) > 0).any(axis=1)
    fits = [non_increasing_fit(mean) if rise else mean for mean, rise in zip(means, rises, strict=True)]
    points = sorted(_breakdown(fit, coordinates) for fit in fits)
    low, high = (points[math.floor(q * (DRAWS - 1) + 0.5)] for q in QUANTILES)
    return low, high


def _point(found: Found, levels: Sequence[float], axis: Axis) -> BreakdownPoint:
    beyond, coordinate = found
    if beyond:
        return BreakdownPoint(float(levels[-1]), beyond=True)
    if coordinate == -math.inf:
        return BreakdownPoint(float(levels[0]), nothing=True)
    return BreakdownPoint(axis.back(coordinate))
