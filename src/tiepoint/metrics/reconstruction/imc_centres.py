# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the Image Matching Challenges 2024 and 2025, from camera centres aligned by similarities.

A similarity is fitted to every triple of images. Rotations of cameras do not affect these scores.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .scene import Floats, Integers, PosedModel, PosedScene

THRESHOLDS_2024 = (0.025, 0.05, 0.1, 0.2, 0.5, 1.0)
THRESHOLDS_2025 = (0.0125, 0.0175, *THRESHOLDS_2024)
"""Thresholds of 2025. The first two are used only to find similarities and are not scored."""
UNSCORED = 2
TRANSPARENT = "transp_obj_"
"""Prefix of the 2024 scenes whose thresholds are divided by ten."""
TRIPLE_S = 8e-7
IMAGE_S = 1.2e-8
"""Measured seconds per triple, threshold and image. `TRIPLE_S`: seconds per triple and similarity fitted."""


def thresholds_2024(scene: str) -> Floats:
    """Return the 2024 thresholds of a scene (`SCENE` or `DATASET/SCENE`), in the unit of the positions.

    >>> thresholds_2024("x/transp_obj_glass").tolist()[0], thresholds_2024("church").tolist()[0]
    (0.0025, 0.025)
    """
    factor = 10 if scene.rpartition("/")[2].startswith(TRANSPARENT) else 1
    return np.array(THRESHOLDS_2024) / factor


def expected_seconds(images: int, thresholds: int) -> float:
    """Return the longest time in seconds that `inlier_counts` takes for a number of images."""
    return math.comb(images, 3) * (TRIPLE_S * (1 + thresholds) + IMAGE_S * images * thresholds)


def inlier_counts(x: Floats, y: Floats, thresholds: Floats) -> Integers:
    """Return the largest number of inliers at each threshold that one similarity from x to y (n, 3) has."""
    from ._triple_loops import most_inliers

    best = np.zeros(len(thresholds), np.int64)
    known = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1)
    most_inliers(np.ascontiguousarray(x[known]), np.ascontiguousarray(y[known]), thresholds, best)
    return best


def maa_2024(scene: PosedScene, thresholds: Floats) -> float:
    """Return the mean average accuracy of the largest model; NaN for a scene of three images (0/0)."""
    n = len(scene)
    if n == 3:
        return math.nan
    model = scene.largest
    if model is None or n < 3:
        return 0.0
    rows = scene.with_truth(model)
    counts = inlier_counts(model.centres[rows], scene.centres[model.image[rows]], thresholds)
    return float(np.maximum(0, counts - 3).sum() / (len(thresholds) * (n - 3)))


class Scores2025(NamedTuple):
    """Scores of 2025: mean average accuracy, clusterness, and their harmonic mean `score`."""

    score: float
    maa: float
    clusterness: float


def scores_2025(scene: PosedScene) -> Scores2025:
    """Return the 2025 scores of a dataset. Its components are the true scenes, its models the clusters.

    An image listed in several models counts in the first one only. Each true scene is matched with the
    cluster that lists most of its images, registered or not. Among equals, the cluster of highest accuracy
    counts. One cluster may be matched with several scenes.
    """
    thresholds = np.array(THRESHOLDS_2025)
    scored = len(thresholds) - UNSCORED
    right, shared, size = 0.0, 0, 0
    parts, clusters = np.unique(scene.component), _clusters(scene)
    for part in parts:
        own = np.flatnonzero(scene.component == part)
        found = [(int(np.isin(_listed(m), own).sum()), m) for m in clusters]
        most = max((count for count, _ in found), default=0)
        best: tuple[float, int] | None = None
        for count, model in found:
            if count != most or not most:
                continue
            rows = scene.with_truth(model)
            rows = rows[np.isin(model.image[rows], own)]
            counts = inlier_counts(model.centres[rows], scene.centres[model.image[rows]], thresholds)
            value = float(np.maximum(0, counts[UNSCORED:] - 3).sum())
            if best is None or value > best[0]:
                best = value, _size(scene, model)
        if best is not None:
            right, shared, size = right + best[0], shared + most, size + best[1]
    room = scored * (len(scene) - 3 * len(parts))
    maa = right / room if room > 0 else 0.0
    clusterness = shared / size if size else 0.0
    both = maa + clusterness
    return Scores2025(2 * maa * clusterness / both if both else 0.0, maa, clusterness)


def _clusters(scene: PosedScene) -> list[PosedModel]:
    taken = np.empty(0, np.int64)
    found = []
    for m in scene.models:
        kept = ~np.isin(m.image, taken)
        found.append(PosedModel(m.image[kept], m.q[kept], m.t[kept], np.setdiff1d(m.unregistered, taken)))
        taken = np.concatenate([taken, _listed(m)])
    return found


def _listed(model: PosedModel) -> Integers:
    return np.concatenate([model.image, model.unregistered])


def _size(scene: PosedScene, model: PosedModel) -> int:
    """Return the number of images listed in a cluster, without images unknown to the dataset."""
    image = _listed(model)
    others = image[image >= len(scene)] - len(scene)
    return int(np.count_nonzero(image < len(scene)) + np.count_nonzero(scene.outlier[others]))
