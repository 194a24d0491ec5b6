# SPDX-License-Identifier: BSD-3-Clause
"""Compute scores and curves that are means over scenes, and store the scene values for intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.records import Records
from ..core.scores import SceneCurves, SceneValues, Score, group_name
from ..metrics.ranking.curves import precision_at_recall

Floats = NDArray[np.float64]
KIND_NAMES = {"v": "viewpoint", "i": "illumination"}
RECALL = (np.arange(100) + 0.5) / 100
"""Recall values at which mean curves are evaluated. The mean precision over them approximates the average
precision.
"""


def score_from_scenes(metric: str, group: str, n: int, scenes: SceneValues, **more: Any) -> Score:
    """Compute a score from scene values: average over scenes, then over the rows of the table.

    Args:
        metric: Name of the metric.
        group: Group of the score.
        n: Number of items behind the score.
        scenes: Values (rows, scenes), with weights if scenes do not count equally.
        **more: Other fields of the score. Pass `value` if the protocol averages in a different order.

    The score is NaN if a row of the table has no value.

    >>> table = SceneValues(("a", "b"), ("v", "v"), np.array([[0.0, 1.0]]), np.array([[3.0, 1.0]]))
    >>> score_from_scenes("map", "all", 4, table).value
    0.25
    """
    if "value" not in more:
        more["value"] = float(np.mean([_cell_mean(scenes, row) for row in range(len(scenes.cells))]))
    return Score(metric, group, n=n, scenes=scenes, **more)


def _cell_mean(scenes: SceneValues, row: int) -> float:
    values = scenes.cells[row]
    if scenes.weights is None:
        known = values[np.isfinite(values)]
        return float(known.mean()) if len(known) else float("nan")
    used = np.isfinite(values) & (scenes.weights[row] > 0)
    if not used.any():
        return float("nan")
    return float((values[used] * scenes.weights[row][used]).sum() / scenes.weights[row][used].sum())


def scene_means(
    values: Floats, scene: NDArray[Any], scenes: int, *, scale: float = 1.0
) -> tuple[Floats, Floats]:
    """Return, for each scene, the mean value of its items times `scale`, and the number of items.

    `scene` is the scene index of each item. Items with NaN are ignored.

    >>> scene_means(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 2]), 3)
    (array([ 1., nan,  3.]), array([1., 0., 2.]))
    """
    known = np.isfinite(values)
    count = np.bincount(scene[known], minlength=scenes).astype(np.float64)
    total = np.bincount(scene[known], weights=values[known], minlength=scenes)
    with np.errstate(invalid="ignore"):
        return scale * total / count, count


@dataclass(frozen=True)
class SceneSums:
    """Sum and number of the values in each scene, both (scenes,).

    `chance` is the sum of the chance levels of these values, if a closed form exists.
    """

    scenes: tuple[str, ...]
    kinds: tuple[str, ...]
    total: Floats
    count: Floats
    chance: Floats | None = None

    def only(self, keep: NDArray[np.bool_]) -> SceneSums:
        """Return the sums of the scenes that a mask selects."""
        chosen = np.flatnonzero(keep)
        chance = None if self.chance is None else self.chance[chosen]
        names = tuple(self.scenes[i] for i in chosen)
        kinds = tuple(self.kinds[i] for i in chosen)
        return SceneSums(names, kinds, self.total[chosen], self.count[chosen], chance)

    def of_kind(self, kind: str) -> SceneSums:
        """Return the sums of the scenes of one kind."""
        return self.only(np.array([k == kind for k in self.kinds], bool))


def micro_score(metric: str, sums: SceneSums, *, group: str = "all", **more: Any) -> Score:
    """Return the mean over all values as a score; NaN if there are none. Larger scenes have more weight."""
    some = sums.only(sums.count > 0)
    n = float(some.count.sum())
    chance = None if some.chance is None or not n else float(some.chance.sum() / n)
    table = SceneValues(some.scenes, some.kinds, (some.total / some.count)[None], some.count[None])
    return score_from_scenes(metric, group, int(n), table, chance=chance, **more)


def macro_score(metric: str, sums: SceneSums, *, group: str = "all", **more: Any) -> Score:
    """Return the mean over scene means as a score. Scenes without values are skipped."""
    some = sums.only(sums.count > 0)
    n = int(some.count.sum())
    chance = None if some.chance is None or not n else float((some.chance / some.count).mean())
    table = SceneValues(some.scenes, some.kinds, (some.total / some.count)[None])
    return score_from_scenes(metric, group, n, table, chance=chance, **more)


def by_scene(metric: str, sums: SceneSums, **parts: Any) -> list[Score]:
    """Return one score for each scene that has values, in group ``scene=…``."""
    return [
        Score(
            metric,
            group_name(scene=scene, **parts),
            float(sums.total[i] / sums.count[i]),
            int(sums.count[i]),
            chance=None if sums.chance is None else float(sums.chance[i] / sums.count[i]),
        )
        for i, scene in enumerate(sums.scenes)
        if sums.count[i] > 0
    ]


def ratio_score(
    metric: str,
    parts: dict[str, str | int | float],
    scenes: Sequence[str],
    kinds: Sequence[str],
    numerator: Floats,
    denominator: Floats,
    *,
    per: str,
    note: str | None = None,
) -> Score:
    """Compute the mean of ``numerator / denominator`` (``per="pair"``) or the ratio of their sums.

    Pairs with denominator 0 are excluded. The value of a scene is the same statistic over its pairs. Scenes
    are weighted so that their mean equals the score.

    >>> n, d = np.array([1.0, 1.0]), np.array([1.0, 3.0])
    >>> [ratio_score("x", {}, "ab", "cc", n, d, per=p).value for p in ("pair", "point")]
    [0.6666666666666666, 0.5]
    """
    used = denominator > 0
    left = int((~used).sum())
    if left:
        note = "; ".join(p for p in (note, f"{left} of {len(used)} pairs left out") if p)
    group, n = group_name(**parts), int(used.sum())
    weights = np.where(used, 1.0, 0.0) if per == "pair" else denominator.astype(np.float64)
    values = np.divide(numerator, denominator, out=np.zeros(len(used)), where=used)
    total = weights.sum()
    if not total:
        return Score(metric, group, float("nan"), n, note=note)
    names = sorted({s for s, u in zip(scenes, used, strict=True) if u})
    kind = dict(zip(scenes, kinds, strict=True))
    place = {name: i for i, name in enumerate(names)}
    of = np.array([place.get(s, -1) for s in scenes])[used]
    weight = np.asarray(np.bincount(of, weights=weights[used], minlength=len(names)), np.float64)
    cells = np.bincount(of, weights=(values * weights)[used], minlength=len(names)) / weight
    table = SceneValues(tuple(names), tuple(kind[s] for s in names), cells[None], weight[None])
    value = float((weights * values).sum() / total)
    return score_from_scenes(metric, group, n, table, value=value, note=note)


def grouped_scores(
    records: Sequence[Records], score: Callable[[Sequence[Records], str], Score]
) -> list[Score]:
    """Return the results of `score` for all records, for each kind and for each scene.

    Scores of single scenes have no interval.
    """
    scores = [score(records, "all")]
    for kind in sorted({str(r.meta["kind"]) for r in records}):
        scores.append(score([r for r in records if r.meta["kind"] == kind], group_name(kind=kind)))
    alone = [score([r], group_name(scene=r.meta["scene"])) for r in records]
    return scores + [replace(s, scenes=None, pooled=None) for s in alone]


def count_score(metric: str, value: float, *, group: str = "all", **more: Any) -> Score:
    """Return a count as a score."""
    return Score(metric, group, float(value), int(value), **more)


def with_protocol(scores: Sequence[Score], protocol: str) -> list[Score]:
    """Return copies of the scores with a given protocol name."""
    return [replace(score, protocol=protocol) for score in scores]


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
    """Compute the precision-recall curves of image pairs, averaged by scene.

    Beyond the last correct match, the precision is 0.

    Args:
        group: Group of the curve.
        distances: Distances of the matches of all pairs, concatenated.
        right: Whether each match is correct, or the probability of that.
        owner: Pair index of each match, non-decreasing.
        normaliser: (pairs,) number of possible correct matches. Pairs with 0 are excluded.
        list_scene: (pairs,) scene of each pair.
        scenes: Names of the scenes.
        kinds: Kind of each scene.
        by_kind: If true, weigh kinds equally, and scenes equally within a kind. Otherwise weigh pairs
            equally.
    """
    table = precision_at_recall(
        distances, right, owner, len(list_scene), recall=RECALL, normaliser=normaliser
    )
    used = np.asarray(normaliser) > 0
    return curves_by_scene(group, table, used, list_scene, scenes=scenes, kinds=kinds, by_kind=by_kind)


def curves_by_scene(
    group: str,
    table: Floats,
    used: NDArray[np.bool_],
    list_scene: NDArray[np.int64],
    *,
    scenes: Sequence[str],
    kinds: Sequence[str],
    by_kind: bool = False,
) -> SceneCurves:
    """Return the mean precision-recall curve of each scene, and the weights of the scenes.

    `table` (lists, k) has the precision of each list at `RECALL`. Only the lists in `used` count. The other
    arguments are the same as in `mean_precision_recall`.
    """
    count = np.bincount(list_scene[used], minlength=len(scenes)).astype(np.float64)
    sums = np.zeros((len(scenes), len(RECALL)))
    np.add.at(sums, list_scene[used], table[used])
    some = np.flatnonzero(count)
    names, strata = (tuple(x[int(i)] for i in some) for x in (scenes, kinds))
    weights = count[some]
    if by_kind:
        weights = np.array([1.0 / strata.count(k) for k in strata])
    return SceneCurves(group, "pr", RECALL, names, strata, sums[some] / count[some, None], weights)
