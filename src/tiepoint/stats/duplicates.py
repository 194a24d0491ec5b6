# SPDX-License-Identifier: BSD-3-Clause
"""Detect duplicate scenes and duplicate methods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .resampling import SceneScore

Array = NDArray[np.float64]
TOLERANCE = 1e-9
MIN_INFORMATIVE = 3
"""Minimum number of values other than 0 and 1 that two duplicate scenes must share."""


def duplicate_scenes(
    values: Array, scenes: Sequence[str], kinds: Sequence[str], *, tolerance: float = TOLERANCE
) -> list[tuple[int, ...]]:
    """Find groups of duplicate scenes: all values agree, and agreement by chance is unlikely.

    Two scenes are duplicates if they are of one kind, have values for the same rows, and all values agree
    within the tolerance. Values of exactly 0 or 1 are ignored, because an easy scene is easy for every
    method. At least three other values are required. Coarse values may agree by chance. Therefore the
    expected number of scene pairs that agree by chance must be below 0.01. The estimate is the number of
    scene pairs, multiplied for each value by the share of scene pairs that agree in it.

    `values` (k, scenes) has one row per method and averaged setting; NaN if a scene has no value. Returns
    tuples of two or more scene indices in ascending order.

    >>> rng = np.random.default_rng(0); x = rng.random((5, 30)); x[:, 7] = x[:, 3]
    >>> duplicate_scenes(x, [f"i_{j}" for j in range(30)], ["i"] * 30)
    [(3, 7)]
    """
    n = len(scenes)
    pairs = n * (n - 1) / 2
    finite = np.isfinite(values)
    informative = (finite & (values != 0) & (values != 1)).sum(axis=0) >= MIN_INFORMATIVE
    if n < 2 or not informative.any():
        return []
    chance = np.array([_equal_pairs(row[np.isfinite(row)], tolerance) for row in values]) / pairs
    # A fixed random projection sorts duplicates next to each other, without comparing all pairs.
    direction = np.random.Generator(np.random.PCG64(0)).random((values.shape[0],))
    projected = direction @ np.where(finite, values, -1.0)
    reach = tolerance * float(np.sum(direction)) * 2
    order = np.argsort(projected, kind="stable")
    parent = np.arange(n)
    for at, i in enumerate(order):
        if not informative[i]:
            continue
        for j in order[at + 1 :]:
            if projected[j] - projected[i] > reach:
                break
            if kinds[i] == kinds[j] and _same(values[:, i], values[:, j], chance, pairs, tolerance):
                parent[parent == parent[j]] = parent[i]
    roots = np.flatnonzero(np.bincount(parent, minlength=n) > 1)
    return sorted(tuple(np.flatnonzero(parent == root).tolist()) for root in roots)


def _equal_pairs(row: Array, tolerance: float) -> float:
    """Count the pairs of values in a row that agree within the tolerance."""
    if len(row) == 0:
        return 0.0
    run = np.concatenate([[0], np.cumsum(np.diff(np.sort(row)) > tolerance)])
    size = np.bincount(run).astype(np.float64)
    return float((size * (size - 1) / 2).sum())


def _same(a: Array, b: Array, chance: Array, pairs: float, tolerance: float) -> bool:
    """Return whether two scenes agree in all values and chance agreement is unlikely."""
    present = np.isfinite(a)
    if (present != np.isfinite(b)).any() or (np.abs(a - b)[present] > tolerance).any():
        return False
    informative = present & (a != 0) & (a != 1)
    log_expected = np.log(pairs) + np.log(np.maximum(chance[informative], 1e-300)).sum()
    return bool(log_expected < np.log(0.01))


def identical_methods(values: Array, *, tolerance: float = TOLERANCE) -> list[tuple[int, ...]]:
    """Find groups of methods with identical values, e.g. one method under several names.

    `values` is (methods, k), NaN for a missing value.

    >>> identical_methods(np.array([[0.1, 0.2], [0.3, 0.2], [0.1, 0.2]]))
    [(0, 2)]
    """
    present = np.isfinite(values)
    # Identical rows have close sums, so only rows with close sums are compared.
    total = np.where(present, values, 0.0).sum(axis=1)
    width = values.shape[1] if values.ndim > 1 else 0
    reach = 2 * tolerance * width + 1e-12 * np.where(present, np.abs(values), 0.0).sum(axis=1)
    order = np.argsort(total, kind="stable")
    ranked = total[order]
    done = np.zeros(len(values), dtype=bool)
    groups = []
    for first in range(len(values)):
        if done[first]:
            continue
        low = np.searchsorted(ranked, total[first] - reach[first], side="left")
        high = np.searchsorted(ranked, total[first] + reach[first], side="right")
        near = np.sort(order[low:high])
        near = near[~done[near]]
        gap = np.abs(values[near] - values[first])
        agree = np.where(np.isnan(gap), np.isnan(values[near]) & np.isnan(values[first]), gap <= tolerance)
        same = near[agree.all(axis=1)]
        done[same] = True
        done[first] = True
        if len(same) > 1:
            groups.append(tuple(same.tolist()))
    return groups


def merge_duplicates(given: SceneScore) -> tuple[SceneScore, list[tuple[str, ...]]]:
    """Merge duplicate scenes and add up their weights, so that the score does not change.

    Returns:
        The merged scene values and the names that were merged.
    """
    values = np.where(given.weights > 0, given.values, np.nan)
    groups = duplicate_scenes(values, given.scenes, given.kinds)
    return merge_scenes(given, groups), [tuple(given.scenes[i] for i in g) for g in groups]


def merge_scenes(
    given: SceneScore, groups: Sequence[tuple[int, ...]], *, keep_score: bool = True
) -> SceneScore:
    """Merge each group of scenes, given by indices, into the first scene of the group.

    With `keep_score` the weights of merged scenes are added up, so that the score equals the published score.
    Otherwise the merged scene counts once, like any other scene.

    >>> s = SceneScore(("a", "b", "c"), ("i",) * 3, np.array([[0.2, 0.2, 0.8]]), np.ones((1, 3)))
    >>> [round(merge_scenes(s, [(0, 1)], keep_score=k).value(), 6) for k in (True, False)]
    [0.4, 0.5]
    """
    if not groups:
        return given
    weights = given.weights.copy()
    removed: set[int] = set()
    for group in groups:
        together = given.weights[:, list(group)]
        weights[:, group[0]] = together.sum(axis=1) if keep_score else together.mean(axis=1)
        removed.update(group[1:])
    keep = [s for s in range(len(given.scenes)) if s not in removed]
    return SceneScore(
        tuple(given.scenes[s] for s in keep),
        tuple(given.kinds[s] for s in keep),
        given.values[:, keep],
        weights[:, keep],
    )
