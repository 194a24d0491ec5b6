# SPDX-License-Identifier: BSD-3-Clause
"""Scenes that are the same scene twice, made one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .duplicates import duplicate_scenes
from .scene_score import SceneScore


def merge_duplicates(given: SceneScore) -> tuple[SceneScore, list[tuple[str, ...]]]:
    """Make one scene of scenes that are the same; its weight is the sum of theirs, so the score stays.

    Returns:
        The merged scene values and the names that went together.
    """
    values = np.where(given.weights > 0, given.values, np.nan)
    groups = duplicate_scenes(values, given.scenes, given.kinds)
    return merge_scenes(given, groups), [tuple(given.scenes[i] for i in g) for g in groups]


def merge_scenes(
    given: SceneScore, groups: Sequence[tuple[int, ...]], *, keep_score: bool = True
) -> SceneScore:
    """Merge groups of scene indices; the first of each stays.

    Args:
        given: scene values.
        groups: from `duplicate_scenes`.
        keep_score: the merged scene carries the sum of the weights, so that the score is the one of the
            list as published; False: it counts once, like any other distinct scene.

    >>> s = SceneScore(("a", "b", "c"), ("i",) * 3, np.array([[0.2, 0.2, 0.8]]), np.ones((1, 3)))
    >>> [round(merge_scenes(s, [(0, 1)], keep_score=k).value(), 6) for k in (True, False)]
    [0.4, 0.5]
    """
    weights = given.weights.copy()
    gone: set[int] = set()
    for group in groups:
        together = given.weights[:, list(group)]
        weights[:, group[0]] = together.sum(axis=1) if keep_score else together.mean(axis=1)
        gone.update(group[1:])
    keep = [s for s in range(len(given.scenes)) if s not in gone]
    return SceneScore(
        tuple(given.scenes[s] for s in keep),
        tuple(given.kinds[s] for s in keep),
        given.values[:, keep],
        weights[:, keep],
    )
