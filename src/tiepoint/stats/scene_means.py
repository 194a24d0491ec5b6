# SPDX-License-Identifier: BSD-3-Clause
"""From one value per query to one value per scene and cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..model.errors import InputError
from ..model.scores import SceneValues


def scene_means(
    values: ArrayLike,
    scene: NDArray[np.int64],
    cell: NDArray[np.int64],
    *,
    scenes: Sequence[str],
    kinds: Sequence[str],
    cells: int,
    weigh_queries: bool = False,
) -> SceneValues:
    """Mean of the values of each scene in each cell, as scene values.

    Args:
        values: one per query or pair, (n,); NaN is left out.
        scene: index into `scenes`, (n,).
        cell: index of the cell, (n,).
        scenes: names.
        kinds: kind of each scene.
        cells: how many cells.
        weigh_queries: a scene weighs as many queries as it has (the mean over all queries of a cell,
            "micro"); by default all scenes weigh the same ("macro").

    >>> s = scene_means([0.0, 1.0, 0.5], np.array([0, 0, 1]), np.zeros(3, dtype=int),
    ...                 scenes=["i_a", "v_b"], kinds=["i", "v"], cells=1)
    >>> s.cells.tolist()
    [[0.5, 0.5]]
    """
    x = np.asarray(values, dtype=np.float64)
    if not len(x) == len(scene) == len(cell):
        raise InputError(
            f"{len(x)} values, {len(scene)} scenes and {len(cell)} cells; expected equal lengths"
        )
    there = np.isfinite(x)
    code = (cell * len(scenes) + scene)[there]
    size = cells * len(scenes)
    count = np.bincount(code, minlength=size).reshape(cells, len(scenes)).astype(np.float64)
    total = np.bincount(code, weights=x[there], minlength=size).reshape(cells, len(scenes))
    with np.errstate(invalid="ignore"):
        means = np.where(count > 0, total / count, np.nan)
    return SceneValues(tuple(scenes), tuple(kinds), means, count if weigh_queries else None)
