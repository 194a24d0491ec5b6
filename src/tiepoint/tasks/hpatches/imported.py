# SPDX-License-Identifier: BSD-3-Clause
"""Records of results that another tool has finished: average precisions instead of distances.

Such records have ``meta["form"] == "ap"`` and name the protocol whose rules made the numbers; under another
protocol they cannot be scored, since nothing is left to apply its rules to.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.errors import InputError
from ...core.records import Records
from ...core.scores import SceneValues, Score, group_name
from ..scene_means import scene_means
from .matching.score import ImagePairs, scores_of_pairs
from .protocols import hpatches_rules, pool_groups

FORM = "ap"


def is_imported(records: Sequence[Records]) -> bool:
    """Whether the records hold finished numbers."""
    return any(r.meta.get("form") == FORM for r in records)


def refuse_imported(records: Sequence[Records], what: str) -> None:
    """Raise where something needs distances and the records have none."""
    if is_imported(records):
        raise InputError(f"{what} needs distances, but these results were imported as finished numbers")


def _check(records: Sequence[Records], protocol: str) -> bool:
    if not is_imported(records):
        return False
    made = records[0].meta["protocol"]
    if made != protocol:
        raise InputError(
            f"these results were imported as finished numbers made under {made}; "
            f'they cannot be scored under {protocol}, only under `protocol="{made}"`'
        )
    return True


def imported_verification(records: Sequence[Records], protocol: str) -> list[Score] | None:
    """Scores of imported verification results, None for records of distances.

    Columns, one row per cell: `noise` and `negatives` (numbers into the meta), and each metric that was in
    the files. There are no scenes, hence no intervals. `pairs` of the meta is the length of the lists, where
    it is known.
    """
    if not _check(records, protocol):
        return None
    found = []
    pairs = dict(records[0].meta.get("pairs", {}))
    for metric in ("auc", "ap", "fpr95"):
        values = []
        for r in records:
            if metric not in r.columns:
                continue
            for z, k, value in zip(r["noise"], r["negatives"], r[metric], strict=True):
                group = group_name(negatives=r.meta["negatives"][k], noise=r.meta["noises"][z])
                values.append(float(value))
                found.append(Score(metric, group, float(value), pairs.get(metric, 0), protocol))
        if values:
            n = len(values) * pairs.get(metric, 0)
            found.append(Score(metric, "all", float(np.mean(values)), n, protocol))
    return found


def imported_matching(records: Sequence[Records], protocol: str) -> list[Score] | None:
    """Scores of imported matching results, None for records of distances.

    Columns, one row per image pair: `scene`, `noise` (numbers into the meta), `image`, and `map`, perhaps
    `success_rate`.
    """
    if not _check(records, protocol):
        return None
    r = records[0]
    scenes, noises = tuple(r.meta["scenes"]), tuple(r.meta["noises"])
    cell = np.asarray(r["scene"], np.int64) * len(noises) + r["noise"]
    size = len(scenes) * len(noises)
    shape = (len(scenes), len(noises))
    count = np.bincount(cell, minlength=size).astype(np.float64)
    values = {
        metric: scene_means(r[metric], cell, size)[0].reshape(shape)
        for metric in ("map", "success_rate")
        if metric in r.columns
    }
    pairs = ImagePairs(scenes, tuple(r.meta["kinds"]), noises, count.reshape(shape), values, {})
    return scores_of_pairs(pairs, hpatches_rules(protocol), protocol)


def imported_retrieval(records: Sequence[Records], protocol: str) -> list[Score] | None:
    """Scores of imported retrieval results, None for records of distances.

    Columns, one row per query and cell (or per cell where only means were kept): `noise`, `pool` (numbers
    into the meta), `map`, and `scene` where the queries are known.
    """
    if not _check(records, protocol):
        return None
    r = records[0]
    noises, pools = r.meta["noises"], [str(p) for p in r.meta["pools"]]
    kinds = tuple(r.meta.get("kinds", ()))
    scenes = tuple(r.meta.get("scenes", ()))
    table: dict[tuple[int, int], tuple[float, int, SceneValues | None]] = {}
    for z in range(len(noises)):
        for p in range(len(pools)):
            own = (r["noise"] == z) & (r["pool"] == p)
            if own.any():
                by = None
                if "scene" in r.columns:
                    means, weights = scene_means(r["map"][own], r["scene"][own], len(scenes))
                    by = SceneValues(scenes, kinds, means[None], weights[None])
                table[z, p] = float(np.mean(r["map"][own])), int(own.sum()), by
    found = [
        Score("map", group_name(noise=noises[z], pool=pools[p]), v, n, protocol, scenes=s)
        for (z, p), (v, n, s) in table.items()
    ]
    for group, parts in pool_groups(noises, dict(enumerate(pools)), hpatches_rules(protocol)).items():
        if all(c in table for c in parts):
            found.append(_mean([table[c] for c in parts], group, protocol))
    return found


def _mean(cells: Sequence[tuple[float, int, SceneValues | None]], group: str, protocol: str) -> Score:
    parts = [s for _, _, s in cells if s is not None]
    scenes = None
    if len(parts) == len(cells):
        weights = np.concatenate([np.asarray(s.weights) for s in parts])
        scenes = SceneValues(
            parts[0].scenes, parts[0].kinds, np.concatenate([s.cells for s in parts]), weights
        )
    value = float(np.mean([v for v, _, _ in cells]))
    return Score("map", group, value, sum(n for _, n, _ in cells), protocol, scenes=scenes)
