# SPDX-License-Identifier: BSD-3-Clause
"""Precision over recall in the 2016 retrieval benchmark: of every query, and the mean over queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.curves import SceneCurves
from ....core.records import Records
from ....core.scores import group_name
from ....metrics.ranking.expected_ties import expected_precision_sums, places_before_cutoff
from ....metrics.ranking.recall_grid import StepCurves
from ...scene_means import RECALL, curves_by_scene
from ..protocols import HPatchesV1Rules
from .compare import TOP_K
from .score import METRICS, blocks_with_cut, without_query


def steps(records: Records, metric: str, rules: HPatchesV1Rules) -> tuple[StepCurves, NDArray[np.bool_]]:
    """Precision over recall of every query, and which queries have right answers in the pool.

    A step ends at every right answer, at the recall that is reached there, and is as high as the precision. A
    tie is one step with the mean height. Recall is counted over the right answers that the list has room for.
    The area under the curve of a query is its average precision under `exact`.
    """
    bit, total, cut = METRICS[metric]
    distances, bits = without_query(records, rules)
    queries, width = distances.shape
    owner = np.repeat(np.arange(queries), width)
    blocks = blocks_with_cut(distances, (bits & bit) > 0, owner, records[cut], records["cut_total"])
    by = np.minimum(np.asarray(records[total], np.float64), TOP_K)
    found = blocks.relevant * places_before_cutoff(blocks, TOP_K) / blocks.items
    used = (found > 0) & (by[blocks.owner] > 0)
    sums = expected_precision_sums(blocks, flavour="trec", cutoff=TOP_K)[used]
    owner, found, before = blocks.owner[used], found[used], blocks.relevant_before[used]
    order = np.argsort(owner, kind="stable")  # a tie at the end of a list stands behind all lists
    made = StepCurves(owner[order], ((before + found) / by[owner])[order], (sums / found)[order])
    return made, by > 0


def curves(records: Sequence[Records], rules: HPatchesV1Rules) -> Iterator[tuple[str, str, Any, Any]]:
    """Precision over recall of every benchmark, the mean over queries, and of every query by itself.

    Records of older versions do not name their queries; these have the mean alone.
    """
    for r in records:
        names = query_names(r)
        for metric in METRICS:
            relevant = metric.removeprefix("map_")
            made, has = steps(r, metric, rules)
            mean = made.mean(int(has.sum()))
            yield group_name(benchmark=r.meta["benchmark"], relevant=relevant), "pr", mean.x, mean.y
            for i, name in enumerate(names):
                own = made.of(i)
                group = group_name(benchmark=r.meta["benchmark"], query=name, relevant=relevant)
                yield group, "pr", own.x, own.y


def query_names(records: Records) -> list[str]:
    """The patch of every query, ``SEQ.IM.IDX``; none where the records do not say."""
    images = records.meta.get("pool_images")
    if images is None:
        return []
    starts = np.asarray(records.meta["pool_starts"], np.int64)
    query = np.asarray(records["query"], np.int64)
    image = np.searchsorted(starts, query, side="right") - 1
    return [f"{images[m]}.{k}" for m, k in zip(image.tolist(), (query - starts[image]).tolist(), strict=True)]


def scene_curves(records: Sequence[Records], rules: HPatchesV1Rules) -> Iterator[SceneCurves]:
    """Mean precision over recall of every benchmark, by scene; its area is the score, up to the grid."""
    for r in records:
        scene, meta = np.asarray(r["scene"], np.int64), r.meta
        for metric in METRICS:
            made, has = steps(r, metric, rules)
            group = group_name(benchmark=meta["benchmark"], relevant=metric.removeprefix("map_"))
            table = made.at(RECALL, len(scene))
            yield curves_by_scene(group, table, has, scene, scenes=meta["scenes"], kinds=meta["kinds"])
