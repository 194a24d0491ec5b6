# SPDX-License-Identifier: BSD-3-Clause
"""Tasks that sample (queries, distractors, pairs) add the variance of their draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .intervals import Interval


def draw_error(scores: Sequence[float]) -> tuple[float, int]:
    """Standard error of the mean of a score over independent draws, and its degrees of freedom.

    >>> se, df = draw_error([0.50, 0.52, 0.51]); round(se, 6), df
    (0.005774, 2)
    """
    x = np.asarray(scores, dtype=np.float64)
    if len(x) < 2:
        return math.nan, 0
    return float(x.std(ddof=1) / math.sqrt(len(x))), len(x) - 1


def add_draw_variance(interval: Interval, value: float, scores: Sequence[float]) -> Interval:
    """Widen an interval over scenes by the variance of a draw that all scenes share.

    A draw made for each scene on its own needs nothing: it is part of what varies from scene to scene. A draw
    that all scenes share (one pool of distractors for everyone) moves them together, which no resampling
    of scenes can show. Both errors are independent, so their half-widths add in squares, on each side:
    high' = value + sqrt((high - value)² + (t se_draw)²).

    Args:
        interval: over scenes, of the mean over draws.
        value: the mean over draws.
        scores: the score under each draw. With a single one nothing is known about the draw: the interval
            stays and its note says so.

    >>> i = Interval(0.47, 0.53, "t", 12); j = add_draw_variance(i, 0.5, [0.49, 0.51, 0.50, 0.50])
    >>> round(j.low, 4), round(j.high, 4)
    (0.4673, 0.5327)
    """
    from scipy.special import stdtrit

    if interval.low is None or interval.high is None:
        return interval
    se, df = draw_error(scores)
    if df == 0:
        return replace(interval, note=_join(interval.note, "one draw only: its own variance is not included"))
    extra = float(stdtrit(df, 0.5 + interval.level / 2)) * se
    low = value - math.hypot(value - interval.low, extra)
    high = value + math.hypot(interval.high - value, extra)
    return replace(
        interval, low=low, high=high, note=_join(interval.note, f"includes the variance of {df + 1} draws")
    )


def _join(first: str | None, second: str) -> str:
    return second if first is None else f"{first}; {second}"
