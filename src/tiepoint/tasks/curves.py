# SPDX-License-Identifier: BSD-3-Clause
"""Mean precision-recall curves of tasks whose score is a mean of average precisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics.ranking.curves import precision_at_recall
from ..model.curves import SceneCurves

RECALL = (np.arange(100) + 0.5) / 100
"""Where the curves are read: the mean over these recalls is the average precision, up to the grid."""


def mean_precision_recall(
    group: str,
    distances: NDArray[Any],
    right: NDArray[Any],
    owner: NDArray[Any],
    normaliser: NDArray[Any],
    list_scene: NDArray[np.int64],
    *,
    scenes: Sequence[str],
    kinds: Sequence[str],
    by_kind: bool = False,
) -> SceneCurves:
    """Curves of image pairs, averaged in each scene; beyond the last right match a curve is 0.

    Args:
        group: what the curve is of.
        distances: of the matches, pairs laid end to end.
        right: whether each is right, or how probably.
        owner: the pair of each match, non-decreasing.
        normaliser: (pairs,), how many could be right; pairs with 0 are left out.
        list_scene: (pairs,), the scene of each pair.
        scenes: names of the scenes.
        kinds: their kinds.
        by_kind: every kind counts the same, and the scenes of a kind do; otherwise every pair.
    """
    table = precision_at_recall(
        distances, right, owner, len(list_scene), recall=RECALL, normaliser=normaliser
    )
    used = np.asarray(normaliser) > 0
    count = np.bincount(list_scene[used], minlength=len(scenes)).astype(np.float64)
    sums = np.zeros((len(scenes), len(RECALL)))
    np.add.at(sums, list_scene[used], table[used])
    some = np.flatnonzero(count)
    names, strata = (tuple(x[int(i)] for i in some) for x in (scenes, kinds))
    weights = count[some]
    if by_kind:
        weights = np.array([1.0 / strata.count(k) for k in strata])
    return SceneCurves(group, "pr", RECALL, names, strata, sums[some] / count[some, None], weights)
