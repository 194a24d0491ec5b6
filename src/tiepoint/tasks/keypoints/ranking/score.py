# SPDX-License-Identifier: BSD-3-Clause
"""Scores of `keypoints/ranking`, computed from its records.

Averages are over queries with at least one correct answer; failed queries count 0. The variants that include
zeros are averaged over all co-visible queries. Queries whose true position is outside the other image do not
enter any average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Records
from ....core.scores import Score, group_name, scene_kind
from ....metrics import average_precision_from_counts, chance_average_precision, half_tie_rank
from ....metrics.experiment import METADATA, ExperimentMetrics, QueryAPResult, metadata_string, scene_pairs
from ....metrics.macro_means import exact_mean
from ....metrics.ranking.first_hit import (
    all_blocks,
    chance_first,
    expected_reciprocal_rank,
    first_blocks,
    hits_at,
    success_at,
)
from ...cases import Cases, Floats
from ...scene_means import (
    KIND_NAMES,
    SceneSums,
    by_scene,
    count_score,
    macro_score,
    micro_score,
    with_protocol,
)
from ..data import image_cases, scene_records

KS = (1, 5, 10)
RANKS = 10


_DETECTED = (
    "rows do not correspond: a match is correct if its keypoint is the nearest one within tau_px of the true "
    "position. DescriptorWorkbench stores 0"
)


@dataclass(frozen=True)
class Queries:
    """Metric values and chance levels of the queries of a scene in one gallery, one array (q,) each.

    Only queries with a correct answer are included.
    """

    image: NDArray[np.int64]
    values: dict[str, Floats]
    chance: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.image)


@cache
def _chance_ap(items: int, relevant: int) -> float:
    return chance_average_precision(items, relevant)


def query_values(records: Records, column: int) -> Queries:
    """Return the metric values of each query in one gallery. Queries with too few candidates are skipped."""
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
    """Return all scores of the protocol `exact`."""
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
    """Return all measurements as one text of ``key=value;`` pairs, with the names of DescriptorWorkbench."""
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
    """Return the share of co-visible queries whose nearest neighbour is correct, as a mean over pairs."""
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
    """Return the scores by gallery size. Queries of images with too few locations are excluded."""
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


def ranks_of(record: Records) -> NDArray[np.int64]:
    """Return the rank of the correct answer of every query, under the tie rule stored in the records."""
    if record.meta.get("tie") == "optimistic":
        return np.asarray(1 + record["lt"].astype(np.int64))
    return half_tie_rank(record["lt"], record["eq"])


def experiment_metrics(records: Sequence[Records]) -> ExperimentMetrics:
    """Return the metrics object of DescriptorWorkbench, filled from records of `compare_workbench`."""
    metrics = ExperimentMetrics()
    for record in sorted(records, key=lambda r: str(r.meta["scene"])):
        scene = str(record.meta["scene"])
        ranks = ranks_of(record).tolist()
        for number, pair in enumerate(record.meta["pairs"]):
            for i in np.flatnonzero(record["image"] == number):
                metrics.add_query_ap(scene, QueryAPResult(1.0 / ranks[i], ranks[i], 1, True))
            for _ in range(pair["zero_vector"] + pair["no_truth"]):
                metrics.add_query_ap(scene, QueryAPResult())
            if pair.get("matches"):
                precision = pair["correct"] / pair["matches"]
                metrics.add_image_result(scene, precision, pair["matches"], pair["keypoints"])
    metrics.calculate_mean_precision()
    return metrics


def score_workbench(records: Sequence[Records]) -> list[Score]:
    """Compute the scores under the names of DescriptorWorkbench.

    Values that were not measured are NaN, whereas the tool stores 0.
    """
    m = experiment_metrics(records)
    corresponding = all(r.meta.get("rows_correspond", True) for r in records)
    scenes = tuple(sorted(str(r.meta["scene"]) for r in records))
    kinds = tuple(scene_kind(s, ("i", "v")) for s in scenes)
    ap = [m.per_scene_ap.get(s, []) for s in scenes]
    excluded = np.array([m.per_scene_excluded.get(s, 0) for s in scenes], float)
    total, count = np.array([sum(a) for a in ap]), np.array([len(a) for a in ap], float)
    random = {str(r.meta["scene"]): float(_harmonic(r["candidates"]).sum()) for r in records}
    chance = np.array([random[s] for s in scenes])
    sums = SceneSums(scenes, kinds, total, count, chance)
    # A scene with only excluded queries counts in the means by kind, but not in the overall mean.
    zeros_all = SceneSums(scenes, kinds, total, np.where(count > 0, count + excluded, 0), chance)
    zeros = SceneSums(scenes, kinds, total, count + excluded, chance)
    scores = [
        micro_score("true_map_micro", sums),
        micro_score("mrr", sums),
        macro_score("true_map_macro_by_scene", sums),
        macro_score("mean_average_precision", sums),
        micro_score("true_map_micro_including_zeros", zeros),
        macro_score("true_map_macro_by_scene_including_zeros", zeros_all),
    ]
    for kind, name in KIND_NAMES.items():
        scores.append(macro_score(f"{name}_map", sums.of_kind(kind)))
        scores.append(macro_score(f"{name}_map_including_zeros", zeros.of_kind(kind)))
        scores.append(macro_score(f"{name}_map_with_zeros", zeros.of_kind(kind)))
    scores += by_scene("true_map_micro", sums) + by_scene("true_map_micro_including_zeros", zeros)
    scores += _at_k(records, scenes, kinds) + _legacy(m, scenes, kinds, None if corresponding else _DETECTED)
    scores += [
        count_score("total_queries_processed", m.total_queries_processed),
        count_score("total_queries_excluded", m.total_queries_excluded),
    ]
    if m.precisions_per_image:
        scores.append(count_score("total_matches", m.total_matches))
        scores.append(count_score("total_keypoints", m.total_keypoints))
    queries = len(m.ranks_per_query)
    scores += [
        Score("rank_histogram", group_name(rank=rank), n / max(queries, 1), queries)
        for rank, n in m.rank_histogram().items()
    ]
    scores.append(Score("metadata", "all", float("nan"), len(scenes), note=m.to_metadata_string()))
    return with_protocol(scores, "workbench")


def _harmonic(n: NDArray[Any]) -> NDArray[np.float64]:
    from ....metrics.ranking.ties import harmonic_difference

    sizes, inverse = np.unique(np.asarray(n, np.int64), return_inverse=True)
    return np.asarray((harmonic_difference(np.zeros(len(sizes)), sizes) / np.maximum(sizes, 1))[inverse])


def _at_k(records: Sequence[Records], scenes: tuple[str, ...], kinds: tuple[str, ...]) -> list[Score]:
    by = {str(r.meta["scene"]): r for r in records}
    ranks = [ranks_of(by[s]) for s in scenes]
    count = np.array([len(r) for r in ranks], float)
    scores = []
    for k in (1, 5, 10):
        hits = np.array([(r <= k).sum() for r in ranks], float)
        random = np.array([np.minimum(k / np.maximum(by[s]["candidates"], 1), 1.0).sum() for s in scenes])
        sums = SceneSums(scenes, kinds, hits, count, random)
        scores += [micro_score(f"{name}_at_{k}", sums) for name in ("precision", "recall", "success")]
    return scores


def _legacy(
    m: ExperimentMetrics, scenes: tuple[str, ...], kinds: tuple[str, ...], note: str | None
) -> list[Score]:
    lists = [m.per_scene_precisions.get(s, []) for s in scenes]
    total = np.array([exact_mean(values) * len(values) for values in lists])
    sums = SceneSums(scenes, kinds, total, np.array([len(values) for values in lists], float))
    return [
        micro_score("mean_precision", sums, note=note),
        macro_score("legacy_macro_precision_by_scene", sums, note=note),
    ]


def cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Return the images of a scene, scored by the mean average precision of their queries with an answer."""
    if (r := scene_records(records, scene)) is None:
        return None
    table, names = query_values(r, 0), [str(p["image"]) for p in r.meta["pairs"]]
    total = np.bincount(table.image, weights=table.values["ap"], minlength=len(names))
    count = np.bincount(table.image, minlength=len(names))
    means = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
    return image_cases(names, means)
