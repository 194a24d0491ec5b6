# SPDX-License-Identifier: BSD-3-Clause
"""`keypoints/ranking` as DescriptorWorkbench computes it, quirks included.

Squared L2 on the raw numbers for every descriptor type (packed bits too); one right answer, the nearest
keypoint within tau; a query with an all-zero descriptor is left out before its ground truth is looked up;
NaN distances compare as False; ties are worth half a place each, rounded up, or nothing (`tie`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Features, Records
from ....core.scores import Score, group_name, scene_kind
from ....geometry.correspondence import nearest_answers
from ....kernels import first_two, pair_distances_sq, rank_counts
from ....metrics import half_tie_rank
from ....metrics.experiment import ExperimentMetrics, QueryAPResult
from ....metrics.macro_means import exact_mean
from ...scene_means import (
    KIND_NAMES,
    SceneSums,
    by_scene,
    count_score,
    macro_score,
    micro_score,
    with_protocol,
)
from ..data import ComparedFeatures, OpenKeypoints, image_features

Ints = NDArray[np.int64]

_NO_ROWS = (
    "needs keypoints whose rows correspond in all images: a set made with mode=projected, or "
    "keypoint_source=homography_projection"
)
MAX_BOUND_PX = 2000.0
"""Images of points beyond this coordinate count as lost, whatever the size of the target image."""


def raw_values(image: ComparedFeatures) -> NDArray[Any]:
    """Rows as the tool would see them: a failed descriptor without NaN in it is a zero row."""
    values = image.values
    if values.dtype.kind != "f":
        values = values.astype(np.float32)
    failed = ~image.valid & np.isfinite(values).all(axis=1)
    return np.where(failed[:, None], values.dtype.type(0), values)


def compare_workbench(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """Records of a scene: one row per query with ground truth, exclusions counted by reason."""
    sequences, options = opened.sequences, opened.options
    first, *others = sequences.images(scene)
    source = image_features(features, f"{scene}/{first}")
    queries = raw_values(source)
    corresponding = rows_correspond(options, features.meta)
    zero = ~np.any(queries != 0, axis=1) if len(source) else np.zeros(0, bool)
    columns: dict[str, list[Any]] = {name: [] for name in ("image", "query", "lt", "eq", "candidates")}
    pairs = []
    for number, image in enumerate(others):
        target = image_features(features, f"{scene}/{image}")
        pair: dict[str, Any] = {"image": image, "keypoints": len(target), "zero_vector": 0, "no_truth": 0}
        pairs.append(pair)
        if len(source) == 0 or len(target) == 0:
            continue  # the tool skips such a pair: its queries are neither processed nor excluded
        right = nearest_answers(
            sequences.homography(scene, image),
            _float32(source.xy),
            _float32(target.xy),
            tau_px=options.tau_px,
            bound_px=MAX_BOUND_PX,
        )
        pair |= {"zero_vector": int(zero.sum()), "no_truth": int(((right < 0) & ~zero).sum())}
        asked = np.flatnonzero((right >= 0) & ~zero)
        pool = raw_values(target)
        better, ties = rank_of_answers(queries, pool, asked, right[asked])
        columns["image"].append(np.full(len(asked), number, np.int16))
        columns["query"].append(asked.astype(np.int32))
        columns["lt"].append(better.astype(np.int32))
        columns["eq"].append(ties.astype(np.int32))
        columns["candidates"].append(np.full(len(asked), len(target), np.int32))
        if corresponding:
            pair |= legacy_precision(queries, pool)
    table = {name: np.concatenate([*parts, np.empty(0, np.int32)]) for name, parts in columns.items()}
    meta = {"scene": scene, "tau_px": options.tau_px, "reference_keypoints": len(source), "pairs": pairs}
    if options.tie != "protocol":
        meta["tie"] = options.tie
    return Records("rank", table, meta)


def rows_correspond(options: Any, meta: Mapping[str, Any]) -> bool:
    """Whether row i is the same point in all images: said by an option, or known of a projected set."""
    made = (meta.get("keypoint_set") or {}).get("generation_method")
    source = options.keypoint_source
    return source == "homography_projection" or (made == "projected" and source != "database")


def ranks_of(record: Records) -> Ints:
    """Rank of the right answer of every query, by the rule for ties that the records name."""
    if record.meta.get("tie") == "optimistic":
        return np.asarray(1 + record["lt"].astype(np.int64))
    return half_tie_rank(record["lt"], record["eq"])


def _float32(xy: NDArray[np.float64]) -> NDArray[np.float64]:
    return xy.astype(np.float32).astype(np.float64)


def rank_of_answers(queries: NDArray[Any], pool: NDArray[Any], asked: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Candidates nearer than the right answer of each asked query, and as near as it (itself left out).

    Rows with NaN or inf are compared one query at a time by the tool's own rule: every comparison with a
    NaN is False.
    """
    bad_q, bad_p = (~np.isfinite(x).all(axis=1) for x in (queries, pool))
    better, ties = np.zeros(len(asked), np.int64), np.zeros(len(asked), np.int64)
    plain = ~bad_q[asked] & ~bad_p[right]
    if plain.any():
        rows = np.flatnonzero(~bad_p)
        place = np.cumsum(~bad_p) - 1
        q, r = asked[plain], place[right[plain]]
        good = np.ascontiguousarray(pool[rows])
        value = pair_distances_sq(queries, good, q, r)
        counts = rank_counts(
            queries[q], good, np.arange(len(q)), value, r, distance="l2", squared=True, target_in_pool=True
        )
        better[plain], ties[plain] = counts.lt[:, 0], counts.eq[:, 0]
    # Infinite candidates have infinite or NaN distances: never nearer than a finite one, never equal to it.
    for i in np.flatnonzero(~plain):
        with np.errstate(invalid="ignore", over="ignore"):
            d = ((queries[asked[i]].astype(np.float64) - pool.astype(np.float64)) ** 2).sum(axis=1)
        better[i] = (d < d[right[i]]).sum()
        ties[i] = (np.delete(d, right[i]) == d[right[i]]).sum()
    return better, ties


def legacy_precision(queries: NDArray[Any], pool: NDArray[Any]) -> dict[str, int]:
    """Mutual nearest neighbours of a pair, and how many have equal row numbers (the tool's "correct")."""
    good_q, good_p = (np.flatnonzero(np.isfinite(x).all(axis=1)) for x in (queries, pool))
    if len(good_q) == 0 or len(good_p) == 0:
        return {"matches": 0, "correct": 0}
    a, b = np.ascontiguousarray(queries[good_q]), np.ascontiguousarray(pool[good_p])
    there, back = first_two(a, b, distance="l2").index, first_two(b, a, distance="l2").index
    mutual = back[there] == np.arange(len(a))
    same = good_q[mutual] == good_p[there[mutual]]
    return {"matches": int(mutual.sum()), "correct": int(same.sum())}


def experiment_metrics(records: Sequence[Records]) -> ExperimentMetrics:
    """The tool's container, filled from records of `compare_workbench`."""
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
    """Scores under the tool's names; what it stores as 0 for "nothing measured" is NaN here."""
    m = experiment_metrics(records)
    scenes = tuple(sorted(str(r.meta["scene"]) for r in records))
    kinds = tuple(scene_kind(s, ("i", "v")) for s in scenes)
    ap = [m.per_scene_ap.get(s, []) for s in scenes]
    excluded = np.array([m.per_scene_excluded.get(s, 0) for s in scenes], float)
    total, count = np.array([sum(a) for a in ap]), np.array([len(a) for a in ap], float)
    random = {str(r.meta["scene"]): float(_harmonic(r["candidates"]).sum()) for r in records}
    chance = np.array([random[s] for s in scenes])
    sums = SceneSums(scenes, kinds, total, count, chance)
    # A scene with exclusions alone counts in the categories and not in the overall mean.
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
    scores += _at_k(records, scenes, kinds) + _legacy(m, scenes, kinds)
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


def _legacy(m: ExperimentMetrics, scenes: tuple[str, ...], kinds: tuple[str, ...]) -> list[Score]:
    lists = [m.per_scene_precisions.get(s, []) for s in scenes]
    total = np.array([exact_mean(values) * len(values) for values in lists])
    sums = SceneSums(scenes, kinds, total, np.array([len(values) for values in lists], float))
    note = None if m.precisions_per_image else _NO_ROWS
    return [
        micro_score("mean_precision", sums, note=note),
        macro_score("legacy_macro_precision_by_scene", sums, note=note),
    ]
