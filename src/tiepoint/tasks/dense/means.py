# SPDX-License-Identifier: BSD-3-Clause
"""Means over pairs and over items of pairs, with the scene values their intervals come from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...model.scores import SceneValues, Score, group_name

Values = NDArray[np.float64]


def ratio_score(
    metric: str,
    parts: dict[str, str | int | float],
    scenes: Sequence[str],
    kinds: Sequence[str],
    numerator: Values,
    denominator: Values,
    *,
    per: str,
    interval: bool = True,
    note: str | None = None,
) -> Score:
    """Mean of ``numerator / denominator`` over pairs (``per="pair"``) or ``sum / sum`` (any other `per`).

    Pairs whose denominator is 0 have no value and are left out. A scene's value is the same mean over its own
    pairs; its weight makes the weighted mean over scenes equal to the score.

    >>> n, d = np.array([1.0, 1.0]), np.array([1.0, 3.0])
    >>> [ratio_score("x", {}, "ab", "cc", n, d, per=p).value for p in ("pair", "point")]
    [0.6666666666666666, 0.5]
    """
    used = denominator > 0
    weights = np.where(used, 1.0, 0.0) if per == "pair" else denominator.astype(np.float64)
    values = np.divide(numerator, denominator, out=np.zeros(len(used)), where=used)
    total = weights.sum()
    value = float((weights * values).sum() / total) if total else float("nan")
    left = int((~used).sum())
    if left:
        note = "; ".join(p for p in (note, f"{left} of {len(used)} pairs left out") if p)
    basis = _scenes(scenes, kinds, values, weights) if interval and total else None
    return Score(metric, group_name(**parts), value, int(used.sum()), scenes=basis, note=note)


def _scenes(scenes: Sequence[str], kinds: Sequence[str], values: Values, weights: Values) -> SceneValues:
    names = sorted({s for s, w in zip(scenes, weights, strict=True) if w > 0})
    place = {name: i for i, name in enumerate(names)}
    kind = dict(zip(scenes, kinds, strict=True))
    total, weight = np.zeros(len(names)), np.zeros(len(names))
    for scene, v, w in zip(scenes, values, weights, strict=True):
        if w > 0:
            total[place[scene]] += v * w
            weight[place[scene]] += w
    return SceneValues(tuple(names), tuple(kind[n] for n in names), (total / weight)[None], weight[None])
