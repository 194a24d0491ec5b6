# SPDX-License-Identifier: BSD-3-Clause
"""Intervals over images, where there are too few scenes to resample."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
MIN_IMAGES = 6
_RESAMPLE_BATCH = 4_000_000


def image_interval(
    values: NDArray[np.float64],
    images: Sequence[tuple[str, str]],
    weights: NDArray[np.float64],
    *,
    classes: Sequence[str] | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> tuple[float, float] | None:
    """Percentile interval of a weighted mean over pairs when images are drawn anew.

    In a resample an image that was drawn k times has weight k, and a pair the product of its two images'
    weights and its own. The interval speaks of other images **of the same scenes**, never of new scenes.
    Draws without any pair are drawn again. With `classes` as many images of each class are drawn as it has.
    None below 6 images, or below 6 images of a class.

    Args:
        values: (n,) value of each pair; NaN is left out.
        images: the two images of each pair.
        weights: (n,) of the pairs.
        classes: the class of each pair, whose images are drawn by themselves.
        level: coverage aimed at.
        resamples: number of draws, seeded by the names of the images.

    >>> pairs = [(a, b) for a in "abcdef" for b in "abcdef" if a < b]
    >>> low, high = image_interval(np.linspace(0, 1, 15), pairs, np.ones(15))
    >>> 0 < low < 0.5 < high < 1
    True
    """
    names = sorted({name for pair in images for name in pair})
    strata = _strata(names, images, classes or [""] * len(images))
    if min(map(len, strata), default=0) < MIN_IMAGES:
        return None
    place = {name: i for i, name in enumerate(names)}
    known = np.isfinite(values)
    first = np.array([place[a] for a, _ in images])[known]
    second = np.array([place[b] for _, b in images])[known]
    seed = int.from_bytes(hashlib.sha256("\0".join(names).encode()).digest()[:8], "big")
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn: list[NDArray[np.float64]] = []
    while sum(map(len, drawn)) < resamples:
        counts = np.zeros((resamples, len(names)))
        for members in strata:
            n = len(members)
            counts[:, members] += rng.multinomial(n, np.full(n, 1 / n), size=resamples)
        for some in np.array_split(counts, max(1, resamples * len(first) // _RESAMPLE_BATCH)):
            weight = some[:, first] * some[:, second] * weights[known]
            total = weight.sum(axis=1)
            drawn.append((weight @ values[known])[total > 0] / total[total > 0])
    means = np.concatenate(drawn)[:resamples]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _strata(
    names: Sequence[str], images: Sequence[tuple[str, str]], classes: Sequence[str]
) -> list[NDArray[np.int64]]:
    """Places of the images of each class; an image of several classes is of the first."""
    own: dict[str, str] = {}
    for pair, label in zip(images, classes, strict=True):
        for name in pair:
            own.setdefault(name, label)
    labels = np.array([own[name] for name in names])
    return [np.flatnonzero(labels == label).astype(np.int64) for label in sorted(set(labels.tolist()))]
