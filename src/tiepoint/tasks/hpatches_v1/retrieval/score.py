# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the 2016 retrieval benchmark, computed from its records under given scoring rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Features, Records
from ....core.scores import SceneCurves, Score, group_name
from ....metrics.ranking.average_precision import (
    Normaliser,
    average_precision,
    average_precision_of_lists,
    normalise_precision,
)
from ....metrics.ranking.chance import chance_average_precision
from ....metrics.ranking.curves import StepCurves
from ....metrics.ranking.ties import TieBlocks, blocks_of_lists, expected_precision_sums, places_before_cutoff
from ...cases import Candidate, Cases, Floats, QueryCase, nearest_candidates
from ...hpatches.data import distances_to
from ...scene_means import RECALL, curves_by_scene
from ..data import Part, benchmark_cases, item_key
from ..protocols import EXACT, HPatchesV1Rules, benchmark_score, with_mean
from .compare import IMAGE, PATCH, TOP_K, PatchPool

METRICS = {"map_patch": (PATCH, "n_patch", "cut_patch"), "map_image": (IMAGE, "n_image", "cut_image")}


def without_query(records: Records, rules: HPatchesV1Rules) -> tuple[Floats, NDArray[np.uint8]]:
    """Return distances and relevance flags of the first 50 ranks, without the query.

    `exact` excludes the query by its identity. The 2016 tool swaps the query with the first entry. If the
    query is not listed, the tool overwrites the first entry.
    """
    distances = np.asarray(records["distances"], np.float64)
    bits = np.asarray(records["relevant"])
    own = (records["ids"] == records["query"][:, None]) & np.isfinite(distances)
    if rules.query_swapped_first:
        place = np.where(own.any(axis=1), own.argmax(axis=1), 0)
        order = np.tile(np.arange(distances.shape[1]), (len(distances), 1))
        order[np.arange(len(order)), place] = 0
        keep = order[:, 1:]
    else:
        keep = np.argsort(own, axis=1, kind="stable")
        keep = keep[:, : min(TOP_K, distances.shape[1] - 1)]
    return np.take_along_axis(distances, keep, axis=1), np.take_along_axis(bits, keep, axis=1)


def query_values(records: Records, metric: str, rules: HPatchesV1Rules) -> Floats:
    """Return the average precision (q,) of every query for `map_patch` or `map_image`."""
    bit, total, cut = METRICS[metric]
    distances, bits = without_query(records, rules)
    relevant = (bits & bit) > 0
    queries, width = distances.shape
    owner = np.repeat(np.arange(queries), width)
    by: Normaliser = "retrieved"
    if not rules.retrieval_normaliser_retrieved:
        by = np.minimum(records[total], TOP_K)
    if rules.file_order:
        places = np.where(np.isfinite(distances), np.arange(width, dtype=np.float64), np.inf)
        value = average_precision_of_lists(
            places.ravel(), relevant.ravel(), owner, queries, normaliser=by, ties="file"
        )
    else:
        blocks = blocks_with_cut(distances, relevant, owner, records[cut], records["cut_total"])
        ones = np.zeros(queries) if isinstance(by, str) else np.asarray(by, np.float64)
        value = normalise_precision(
            blocks, ones, flavour="trec", normaliser=by, ties="expected", cutoff=TOP_K
        )
    return np.nan_to_num(value) if rules.retrieval_normaliser_retrieved else value


def blocks_with_cut(distances: Floats, relevant: Any, owner: Any, cut: Any, total: Any) -> TieBlocks:
    """Return the tie blocks of each list. The last block includes tied patches beyond the end of the list.

    `cut` and `total` (lists,) are the numbers of correct and of all patches in that tie.
    """
    last = distances[:, -1:]
    tied = (distances == last) & np.isfinite(last)
    head = np.where(tied, np.inf, distances)
    inner = blocks_of_lists(head.ravel(), relevant.ravel().astype(np.float64), owner, ties="expected")
    before = np.isfinite(head).sum(axis=1).astype(np.float64)
    found = (relevant & np.isfinite(head)).sum(axis=1).astype(np.float64)
    open_end = np.flatnonzero(tied.any(axis=1) & (cut > 0))
    r = np.asarray(cut, np.float64)[open_end]
    tail = (
        open_end,
        before[open_end],
        found[open_end],
        np.asarray(total, np.float64)[open_end],
        r,
        r * (r - 1.0),
    )
    names = ("owner", "before", "relevant_before", "items", "relevant", "pairs")
    return TieBlocks(*(np.concatenate([getattr(inner, n), t]) for n, t in zip(names, tail, strict=True)))


def score(records: Sequence[Records], rules: HPatchesV1Rules, protocol: str) -> list[Score]:
    """Return `map_patch` and `map_image` by benchmark and scene, and their means over benchmarks."""
    found = []
    for metric in METRICS:
        own: list[Score] = []
        for r in records:
            q = len(r)
            scale = q / (q + 1.0) if rules.divisor_q_plus_one else 1.0
            value = query_values(r, metric, rules)
            chance = scale * _chance(r, metric, rules)
            scene = np.asarray(r["scene"], np.int64)
            own.append(
                benchmark_score(metric, r, value, scene, scale=scale, chance=chance, protocol=protocol)
            )
        found += with_mean(own)
    return found


def _chance(records: Records, metric: str, rules: HPatchesV1Rules) -> float:
    """Return the chance level: the expected AP at 50 of a random order, averaged over queries."""
    pool = int(records.meta["pool_rows"]) - 1
    kinds, times = np.unique(records[METRICS[metric][1]], return_counts=True)
    values = []
    for r in map(int, kinds):
        by: Normaliser = "retrieved" if rules.retrieval_normaliser_retrieved else min(r, TOP_K)
        values.append(chance_average_precision(pool, r, normaliser=by, cutoff=TOP_K) if r else 0.0)
    return float(np.sum(np.array(values) * times) / times.sum())


def steps(records: Records, metric: str, rules: HPatchesV1Rules) -> tuple[StepCurves, NDArray[np.bool_]]:
    """Return the precision-recall curve of every query, and which queries have correct answers in the pool.

    Curves are step functions. Each correct answer ends a step at the recall reached there, and the height of
    the step is the precision. A tie is one step with the mean height. Recall is relative to the number of
    correct answers that fit into the list. The area under the curve is the average precision under `exact`.
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
    order = np.argsort(owner, kind="stable")  # the last block of each list was appended at the end
    made = StepCurves(owner[order], ((before + found) / by[owner])[order], (sums / found)[order])
    return made, by > 0


def curves(records: Sequence[Records], rules: HPatchesV1Rules) -> Iterator[tuple[str, str, Any, Any]]:
    """Compute the precision-recall curve of every query, and the mean curve of every benchmark."""
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
    """Return the patch name ``SEQ.IM.IDX`` of every query."""
    images = records.meta["pool_images"]
    starts = np.asarray(records.meta["pool_starts"], np.int64)
    query = np.asarray(records["query"], np.int64)
    image = np.searchsorted(starts, query, side="right") - 1
    return [f"{images[m]}.{k}" for m, k in zip(image.tolist(), (query - starts[image]).tolist(), strict=True)]


def scene_curves(records: Sequence[Records], rules: HPatchesV1Rules) -> Iterator[SceneCurves]:
    """Compute the mean precision-recall curve of every scene and benchmark. Its area is the score."""
    for r in records:
        scene, meta = np.asarray(r["scene"], np.int64), r.meta
        for metric in METRICS:
            made, has = steps(r, metric, rules)
            group = group_name(benchmark=meta["benchmark"], relevant=metric.removeprefix("map_"))
            table = made.at(RECALL, len(scene))
            yield curves_by_scene(group, table, has, scene, scenes=meta["scenes"], kinds=meta["kinds"])


def cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Return the queries of a sequence, scored by their AP for `map_patch`."""

    def part(r: Records, number: int) -> Part:
        own = np.flatnonzero(r["scene"] == number)
        few = Records(r.kind, {name: column[own] for name, column in r.columns.items()}, r.meta)
        return own, query_values(few, "map_patch", EXACT), None

    def words(r: Records, row: int) -> str:
        query = int(r["query"][row])
        image = int(np.searchsorted(r.meta["pool_starts"], query, side="right")) - 1
        return f"patch {query - r.meta['pool_starts'][image]} of {r.meta['pool_images'][image]}"

    return benchmark_cases(records, scene, part, words)


def replay(pool: PatchPool, row: int, features: Features | None) -> QueryCase:
    """Recompute how all other patches of the pool rank for a query."""
    names = [item_key(name) for name in pool.benchmark.pool]

    def picture(place: int) -> str:
        image = int(np.searchsorted(pool.starts, place, side="right")) - 1
        return f"{names[image]}#{place - int(pool.starts[image])}"

    own = int(pool.query[row])
    truth = [int(t) for t in pool.truth[pool.offsets[row] : pool.offsets[row + 1]]]
    if features is None:
        return QueryCase(picture(own), (), tuple(Candidate(picture(t), None, None, True) for t in truth))
    image = int(np.searchsorted(pool.starts, own, side="right")) - 1
    values = distances_to(features, names[image], own - int(pool.starts[image]), [(n, None) for n in names])
    values[own] = np.inf  # the query is in the pool but is not an answer
    chosen, right = nearest_candidates(values, truth, picture, squared=features.distance == "l2")
    labels = np.isin(np.arange(len(values)), truth)
    most = min(len(truth), TOP_K)
    score = average_precision(values, labels, normaliser=most, cutoff=TOP_K) if truth else None
    return QueryCase(picture(own), chosen, right, score)
