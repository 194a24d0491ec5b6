# SPDX-License-Identifier: BSD-3-Clause
"""Scores of `keypoints/ranking` under `exact`, from its records.

Averages run over queries with at least one right answer (failures count 0 there); the variants including
zeros run over all co-visible queries. Queries out of view are in no average, only in the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ....core.records import Records
from ....core.scores import Score, group_name
from ....metrics import average_precision_from_counts, chance_average_precision
from ....metrics.experiment import METADATA, metadata_string, scene_pairs
from ....metrics.ranking.first_hit import (
    all_blocks,
    chance_first,
    expected_reciprocal_rank,
    first_blocks,
    hits_at,
    success_at,
)
from ...scene_means import (
    KIND_NAMES,
    SceneSums,
    by_scene,
    count_score,
    macro_score,
    micro_score,
    with_protocol,
)

Floats = NDArray[np.float64]
KS = (1, 5, 10)
RANKS = 10


@dataclass(frozen=True)
class Queries:
    """Values of every answered query of one scene in one gallery, (q,) each, chance beside them."""

    image: NDArray[np.int64]
    values: dict[str, Floats]
    chance: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.image)


@cache
def _chance_ap(items: int, relevant: int) -> float:
    return chance_average_precision(items, relevant)


def query_values(records: Records, column: int) -> Queries:
    """Per-query values from the counts of one gallery column; queries with too few locations are left out."""
    size = records.meta["galleries"][column - 1] if column else None
    image, query = records["image"].astype(np.int64), records["query"].astype(np.int64)
    new = np.append(True, (image[1:] != image[:-1]) | (query[1:] != query[:-1])) if len(image) else image > 0
    owner = np.cumsum(new) - 1
    lists = int(new.sum())
    relevant = np.bincount(owner, minlength=lists)
    items = records["irrelevant"][new] + relevant
    if size is not None:
        keep = (items >= size) & (relevant < size)
        rows = keep[owner]
        image, relevant = image[rows], relevant[keep]
        new, items = new[rows], np.full(int(keep.sum()), size)
        owner = np.cumsum(new) - 1
        lists = len(items)
    else:
        rows = np.ones(len(image), bool)
    lt, eq = (records[name][rows, column].astype(np.int64) for name in ("lt", "eq"))
    retrieved = records["retrieved"][rows]
    first = first_blocks(lt, eq, owner, lists, retrieved=retrieved)
    blocks = all_blocks(lt, eq, owner, lists, retrieved=retrieved)
    ap = average_precision_from_counts(lt, eq, owner=owner, lists=lists, retrieved=retrieved)
    random = chance_first(items, relevant)
    wrong = np.maximum(items - relevant, 1)
    beaten = np.where(retrieved, (lt + eq / 2.0) / wrong[owner], 1.0)
    values = {"ap": ap, "mrr": expected_reciprocal_rank(first)}
    chance = {
        "ap": np.array([_chance_ap(int(n), int(r)) for n, r in zip(items, relevant, strict=True)]),
        "mrr": expected_reciprocal_rank(random),
        "auc": np.full(lists, 0.5),
    }
    values["auc"] = 1.0 - np.bincount(owner, weights=beaten, minlength=lists) / np.maximum(relevant, 1)
    for k in range(1, RANKS + 1):
        values[f"success{k}"] = success_at(first, k)
        chance[f"success{k}"] = success_at(random, k)
    for k in KS:
        values[f"recall{k}"] = hits_at(blocks, k, lists) / np.maximum(relevant, 1)
        chance[f"recall{k}"] = np.minimum(k, items) / np.maximum(items, 1)
    values["found"] = (first.relevant > 0).astype(np.float64)
    return Queries(image[new] if len(new) else image, values, chance)


def score_exact(records: Sequence[Records]) -> list[Score]:
    """All scores of the exact protocol."""
    scenes = tuple(str(r.meta["scene"]) for r in records)
    kinds = tuple(str(r.meta["kind"]) for r in records)
    tables = [query_values(r, 0) for r in records]

    def sums(name: str, tables: Sequence[Queries] = tables) -> SceneSums:
        total = np.array([t.values[name].sum() for t in tables])
        chance = np.array([t.chance[name].sum() for t in tables])
        return SceneSums(scenes, kinds, total, np.array([len(t) for t in tables], float), chance)

    pairs = [r.meta["pairs"] for r in records]
    seen = np.array([sum(p["answered"] + p["not_redetected"] for p in ps) for ps in pairs], float)
    ap = sums("ap")
    zeros = SceneSums(scenes, kinds, ap.total, seen, ap.chance)
    scores = [*_map_scores(ap, zeros), *_at_k_scores(sums)]
    scores += [micro_score("mrr", sums("mrr")), micro_score("query_auc", sums("auc"))]
    scores += _precision_scores(records, tables, scenes, kinds)
    scores += _count_scores(pairs, ap, tables, scenes, kinds)
    scores += _gallery_scores(records, int(ap.count.sum()), scenes, kinds)
    excluded = np.array([sum(p["not_redetected"] + p["out_of_view"] for p in ps) for ps in pairs], float)
    scores.append(_metadata(scores, ap, zeros, excluded))
    return with_protocol(scores, "exact")


def _metadata(scores: Sequence[Score], ap: SceneSums, zeros: SceneSums, excluded: Floats) -> Score:
    """What was measured as one text of ``key=value;``, under the names of the older tool."""
    known = {s.metric: s.value for s in scores if s.group == "all" and np.isfinite(s.value)}
    pairs: dict[str, object] = {"success": "true"}
    for name in METADATA:
        if name in known:
            pairs[name] = int(known[name]) if name.startswith("total_") else float(known[name])
    queries = float(ap.count.sum() + excluded.sum())
    if queries:
        pairs["r0_rate"] = float(excluded.sum()) / queries
    for scene, total, n, seen, left in zip(ap.scenes, ap.total, ap.count, zeros.count, excluded, strict=True):
        if n:
            pairs |= scene_pairs(scene, total / n, n, total / seen, left)
    return Score("metadata", "all", float("nan"), len(ap.scenes), note=metadata_string(pairs))


def _map_scores(ap: SceneSums, zeros: SceneSums) -> list[Score]:
    scores = [
        micro_score("true_map_micro", ap),
        macro_score("true_map_macro_by_scene", ap),
        micro_score("true_map_micro_including_zeros", zeros),
        macro_score("true_map_macro_by_scene_including_zeros", zeros),
        macro_score("mean_average_precision", ap),
    ]
    for kind, name in KIND_NAMES.items():
        scores.append(macro_score(f"{name}_map", ap.of_kind(kind)))
        scores.append(macro_score(f"{name}_map_including_zeros", zeros.of_kind(kind)))
        scores.append(macro_score(f"{name}_map_with_zeros", zeros.of_kind(kind)))
    for kind in sorted(set(ap.kinds)):
        scores.append(micro_score("true_map_micro", ap.of_kind(kind), group=group_name(kind=kind)))
        scores.append(macro_score("true_map_macro_by_scene", ap.of_kind(kind), group=group_name(kind=kind)))
    scores += by_scene("true_map_micro", ap)
    return scores + by_scene("true_map_micro_including_zeros", zeros)


def _at_k_scores(sums: Callable[[str], SceneSums]) -> list[Score]:
    scores = []
    for k in KS:
        success = sums(f"success{k}")
        scores.append(micro_score(f"precision_at_{k}", success))
        scores.append(micro_score(f"success_at_{k}", success))
        scores.append(micro_score(f"recall_at_{k}", sums(f"recall{k}")))
    return scores + by_scene("precision_at_1", sums("success1"))


def _precision_scores(
    records: Sequence[Records], tables: Sequence[Queries], scenes: tuple[str, ...], kinds: tuple[str, ...]
) -> list[Score]:
    """Share of the first neighbours of co-visible queries that are right, per image pair."""
    total, count = np.zeros(len(records)), np.zeros(len(records))
    for i, (record, table) in enumerate(zip(records, tables, strict=True)):
        for number, pair in enumerate(record.meta["pairs"]):
            matches = pair["answered"] + pair["not_redetected"]
            if matches:
                total[i] += table.values["success1"][table.image == number].sum() / matches
                count[i] += 1
    found = SceneSums(scenes, kinds, total, count)
    return [micro_score("mean_precision", found), macro_score("legacy_macro_precision_by_scene", found)]


def _count_scores(
    pairs: Sequence[Sequence[dict[str, int]]],
    ap: SceneSums,
    tables: Sequence[Queries],
    scenes: tuple[str, ...],
    kinds: tuple[str, ...],
) -> list[Score]:
    def add(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([sum(p[name] for p in ps) for ps in pairs], float)

    queries, answered = add("queries"), add("answered")
    lost, away, failed = add("not_redetected"), add("out_of_view"), add("failed")
    scores = [
        count_score("total_queries_processed", answered.sum()),
        count_score("total_queries_excluded", (lost + away).sum()),
        count_score("queries_out_of_view", away.sum()),
        count_score("queries_not_redetected", lost.sum()),
        count_score("queries_descriptor_failed", failed.sum()),
        count_score("total_keypoints", add("keypoints").sum()),
        micro_score("covisibility", SceneSums(scenes, kinds, answered + lost, queries)),
        micro_score("redetection", SceneSums(scenes, kinds, answered, answered + lost)),
        micro_score("descriptor_failure", SceneSums(scenes, kinds, failed, answered)),
        micro_score(
            "gallery_size",
            SceneSums(scenes, kinds, add("locations"), np.array([len(p) for p in pairs], float)),
        ),
    ]
    histogram = np.zeros(RANKS)
    found = 0.0
    for table in tables:
        steps = [0.0] + [float(table.values[f"success{k}"].sum()) for k in range(1, RANKS + 1)]
        histogram += np.diff(steps)
        found += float(table.values["found"].sum())
    bins = {"0": float((lost + away).sum())}
    bins |= {str(k): float(value) for k, value in enumerate(histogram, start=1)}
    bins |= {f">{RANKS}": found - float(histogram.sum()), "never": float(ap.count.sum()) - found}
    total = max(float(queries.sum()), 1.0)
    return scores + [
        Score("rank_histogram", group_name(rank=rank), value / total, int(queries.sum()))
        for rank, value in bins.items()
    ]


def _gallery_scores(
    records: Sequence[Records], queries: int, scenes: tuple[str, ...], kinds: tuple[str, ...]
) -> list[Score]:
    """The curve over gallery sizes, over the queries whose image has that many locations."""
    scores: list[Score] = []
    curves = [("true_map_micro", "ap"), ("mrr", "mrr"), *((f"precision_at_{k}", f"success{k}") for k in KS)]
    for column, size in enumerate(records[0].meta["galleries"] if records else (), start=1):
        tables = [query_values(r, column) for r in records]
        left = queries - sum(len(t) for t in tables)
        note = f"{left} queries of images with fewer than {size} locations are left out" if left else None
        if left and not any(len(t) for t in tables):
            scores.append(Score("true_map_micro", group_name(gallery=size), float("nan"), 0, note=note))
            continue
        for metric, name in curves:
            total = np.array([t.values[name].sum() for t in tables])
            chance = np.array([t.chance[name].sum() for t in tables])
            found = SceneSums(scenes, kinds, total, np.array([len(t) for t in tables], float), chance)
            scores.append(micro_score(metric, found, group=group_name(gallery=size), note=note))
            if name == "ap":
                scores.append(
                    macro_score("true_map_macro_by_scene", found, group=group_name(gallery=size), note=note)
                )
                for kind in sorted(set(kinds)):
                    group = group_name(gallery=size, kind=kind)
                    scores.append(macro_score("true_map_macro_by_scene", found.of_kind(kind), group=group))
    return scores
