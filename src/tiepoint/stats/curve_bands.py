# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise confidence bands of curves over scenes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.scores import PooledBins, SceneCurves
from .pooled import pooled_counts
from .resampling import Resamples, resample, strata_of
from .samples import STUDENT_FROM, seed_for

Array = NDArray[np.float64]
DRAWS = 400
"""Number of bootstrap resamples of a band; enough for a smooth band in a plot."""


def scene_band(curves: SceneCurves, *, level: float = 0.95, draws: int = DRAWS) -> tuple[Array, Array] | None:
    """Return the lower and upper band of a mean curve over scenes. None if there are fewer than 6 scenes.

    The band is curve ± t times the standard deviation of the curve over bootstrap resamples. Scenes are
    resampled within their kind. The confidence level holds for each x separately, not jointly for the curve.
    The band is clipped to 0…1 if all values are in this range.

    >>> y = np.linspace(0, 1, 12).reshape(6, 2)
    >>> c = SceneCurves("all", "pr", np.arange(2.0), tuple("abcdef"), ("i",) * 6, y, np.ones(6))
    >>> low, high = scene_band(c); bool((low < c.mean).all() and (c.mean < high).all())
    True
    """
    samples = _resample(curves.scenes, curves.kinds, draws)
    if samples is None:
        return None
    weighted = np.column_stack([curves.weights[:, None] * curves.y, curves.weights])
    sums = samples.weigh(weighted)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = sums[:, :-1] / sums[:, -1:]
    # Means of ties may be off by one in the last digit.
    inside = bool((curves.y >= -1e-9).all() and (curves.y <= 1 + 1e-9).all())
    return _bounds(curves.mean, values, samples, level, inside)


def pooled_band(
    bins: PooledBins, curve: str, x: Array, y: Array, *, level: float = 0.95, draws: int = DRAWS
) -> tuple[Array, Array] | None:
    """Return the lower and upper band of a ROC or precision-recall curve (x, y) pooled over all scenes.

    Scenes are resampled by reweighting their counts in each bin. A negative pair between two scenes is
    weighted by the product of both scene counts. The spread of the binned curve is applied to the exact
    curve. None if there are fewer than 6 scenes.
    """
    samples = _resample(bins.scenes, bins.kinds, draws)
    if samples is None:
        return None
    positives, negatives = pooled_counts(bins, samples)
    binned = (binned_roc if curve == "roc" else binned_precision)(positives, negatives, x)
    return _bounds(np.asarray(y, np.float64), binned, samples, level, True)


def binned_roc(positives: Array, negatives: Array, fpr: Array) -> Array:
    """Return true positive rates at given false positive rates, from counts (r, bins).

    >>> one = np.array([[1.0, 1.0]]); binned_roc(one, one, np.array([0.5]))
    array([[0.5]])
    """
    return np.stack([np.interp(fpr, _rates(n), _rates(p)) for p, n in zip(positives, negatives, strict=True)])


def _rates(counts: Array) -> Array:
    return np.append(0.0, np.cumsum(counts) / max(float(counts.sum()), 1e-300))


def binned_precision(positives: Array, negatives: Array, recall: Array) -> Array:
    """Return the precision at given recalls, from counts (r, bins), assuming random order in a bin.

    >>> binned_precision(np.array([[2.0, 2.0]]), np.array([[0.0, 2.0]]), np.array([0.5, 1.0]))
    array([[1.        , 0.66666667]])
    """
    rows = []
    for p, n in zip(positives, negatives, strict=True):
        last = len(p) - int(np.argmax(p[::-1] > 0))
        first = int(np.argmax(p > 0))
        needed = recall * p.sum()
        x, y = (np.append(0.0, np.cumsum(c[:last])) for c in (p, n))
        accepted = np.interp(needed, x, y)
        share = p[first] / max(float(p[first] + n[: first + 1].sum()), 1e-300)
        with np.errstate(invalid="ignore", divide="ignore"):
            rows.append(np.where(needed > 0, needed / (needed + accepted), share))
    return np.stack(rows)


def _resample(scenes: tuple[str, ...], kinds: tuple[str, ...], draws: int) -> Resamples | None:
    if len(scenes) < STUDENT_FROM:
        return None
    return resample(strata_of(kinds), resamples=draws, seed=seed_for(scenes, kinds, None))


def _bounds(
    middle: Array, values: Array, samples: Resamples, level: float, inside: bool
) -> tuple[Array, Array]:
    from scipy.stats import t

    scenes = sum(len(m) for m in samples.members)
    reach = float(t.ppf((1 + level) / 2, max(scenes - len(samples.members), 1)))
    spread = reach * np.nanstd(values, axis=0)
    low, high = middle - spread, middle + spread
    return (np.clip(low, 0, 1), np.clip(high, 0, 1)) if inside else (low, high)
