# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the 2016 matching benchmark, computed from its records under given scoring rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....core.records import Features, Records
from ....core.scores import SceneCurves, Score, group_name
from ....metrics.ranking.average_precision import Normaliser, average_precision_of_lists
from ....metrics.ranking.chance import chance_average_precision
from ....metrics.ranking.curves import precision_recall_curve
from ....metrics.ranking.first_hit import reciprocal_rank
from ....metrics.ranking.matching import (
    chance_matching_average_precision,
    expected_validity,
    ratio_dissimilarity,
)
from ...cases import Candidate, Cases, Floats, QueryCase, nearest_candidates, ratio_of
from ...hpatches.data import distances_to, first_share
from ...scene_means import mean_precision_recall
from ..data import Part, benchmark_cases, item_key
from ..protocols import EXACT, HPatchesV1Rules, benchmark_score, printed_matching, with_mean

METRICS = ("ap", "ap_ratio", "success_rate", "map_query")
MAX_V1_MATCHING_MISSES = 50


def neighbour_distances(records: Records, rules: HPatchesV1Rules) -> tuple[Floats, Floats]:
    """Return the distances of first and second neighbours that the rules rank."""
    d1 = printed_matching(records, records["d1"], rules)
    d2 = printed_matching(records, records["d2"], rules)
    if rules.both_infinite:
        lost = np.isinf(d1) | np.isinf(d2)
        d1, d2 = np.where(lost, np.inf, d1), np.where(lost, np.inf, d2)
    return d1, d2


def validity(records: Records, rules: HPatchesV1Rules) -> Floats:
    """Return whether each nearest neighbour is correct, or the probability of that if neighbours tie."""
    if rules.lowest_index_match:
        truth = records["gt"]
        if rules.first_label_line and "first_label" in records.columns:
            truth = records["first_label"]
        return ((records["index"] == truth) & records["matched"]).astype(np.float64)
    known = np.asarray(records["gt_listed"], bool)
    return expected_validity(records["lt"], records["eq"] + 1, retrieved=known)


def ratio(d1: Floats, d2: Floats, rules: HPatchesV1Rules) -> Floats:
    """Return the ratio of first to second distance. With `ratio_nan_first`, undefined ratios rank first."""
    if not rules.ratio_nan_first:
        return ratio_dissimilarity(d1, d2)
    with np.errstate(invalid="ignore", divide="ignore"):
        score = d2 / d1
    undefined = np.isnan(score)
    place = np.unique(np.where(undefined, 0.0, -score), return_inverse=True)[1].astype(np.float64)
    return np.where(undefined, -1.0, place)


def pair_values(records: Records, rules: HPatchesV1Rules) -> dict[str, Floats]:
    """Return the AP, ratio AP and success rate of every image pair."""
    pair = np.asarray(records["pair"], np.int64)
    pairs = len(records.meta["pairs"])
    d1, d2 = neighbour_distances(records, rules)
    valid = validity(records, rules)
    sizes = np.bincount(pair, minlength=pairs)
    ties = "file" if rules.file_order else "expected"
    by: Normaliser = "all" if rules.matching_normaliser_valid else sizes
    found = {}
    for name, dissimilarity in (("ap", d1), ("ap_ratio", ratio(d1, d2, rules))):
        value = average_precision_of_lists(dissimilarity, valid, pair, pairs, normaliser=by, ties=ties)
        found[name] = np.nan_to_num(value) if rules.zero_without_match else value
    found["success_rate"] = np.bincount(pair, weights=valid, minlength=pairs) / sizes
    return found


def score(records: Sequence[Records], rules: HPatchesV1Rules, protocol: str) -> list[Score]:
    """Return all scores by benchmark and scene, and their means over benchmarks."""
    found: dict[str, list[Score]] = {metric: [] for metric in METRICS}
    for r in records:
        by_pair = pair_values(r, rules)
        chance = _chances(r, rules)
        scene = np.asarray(r.meta["pair_scenes"], np.int64)
        more: dict[str, Any] = {"note": _note(r), "protocol": protocol}
        for metric, value in by_pair.items():
            found[metric].append(benchmark_score(metric, r, value, scene, chance=chance[metric], **more))
        found["map_query"].append(_map_query(r, rules, chance=chance["map_query"], protocol=protocol))
    return [s for metric in METRICS for s in with_mean(found[metric])]


def _map_query(records: Records, rules: HPatchesV1Rules, **more: Any) -> Score:
    """Return the mean of 1/rank of the correct target: the AP of a list with one relevant item."""
    scene = np.asarray(records.meta["pair_scenes"], np.int64)[records["pair"]]
    if not records.meta["ranks_known"]:
        note = "needs the rank of every right target; these files list only the nearest few"
        return benchmark_score("map_query", records, np.full(len(records), np.nan), scene, note=note, **more)
    value = reciprocal_rank(
        records["lt"],
        records["eq"],
        eq_before=records["eq_before"],
        retrieved=records["gt_listed"],
        ties="file" if rules.file_order else "expected",
    )
    return benchmark_score("map_query", records, value, scene, **more)


def _note(records: Records) -> str | None:
    cut = int(records.meta.get("cut_ties", 0))
    if not cut:
        return None
    return f"{cut} patches have a tie that fills the list of neighbours; it is counted as that long"


def _chances(records: Records, rules: HPatchesV1Rules) -> dict[str, float]:
    """Return the chance level of each metric, averaged over image pairs."""
    sizes = np.bincount(records["pair"], minlength=len(records.meta["pairs"]))
    kinds, times = np.unique(sizes, return_counts=True)
    by = "retrieved" if rules.matching_normaliser_valid else None
    ap = np.array([chance_matching_average_precision(int(n), int(n), normaliser=by) for n in kinds])
    query = np.array([chance_average_precision(int(n), 1) for n in kinds])
    return {
        "ap": float(np.sum(ap * times) / times.sum()),
        "ap_ratio": float(np.sum(ap * times) / times.sum()),
        "success_rate": float(np.sum(times / kinds) / times.sum()),
        "map_query": float(np.sum(query * times * kinds) / np.sum(times * kinds)),
    }


def curves(records: Sequence[Records], rules: HPatchesV1Rules) -> Iterator[tuple[str, str, Any, Any]]:
    """Compute the precision-recall curve of every image pair. Recall is relative to all reference patches.

    An image pair without a correct match has no curve.
    """
    for r in records:
        d1, _ = neighbour_distances(r, rules)
        valid = validity(r, rules)
        for i, (a, b) in enumerate(r.meta["pairs"]):
            own = r["pair"] == i
            if not (valid[own] > 0)[np.isfinite(d1[own])].any():
                continue
            curve = precision_recall_curve(d1[own], valid[own], max_points=200)
            recall = curve.x * valid[own].sum() / own.sum()
            yield group_name(benchmark=r.meta["benchmark"], pair=f"{a}:{b}"), "pr", recall, curve.y


def wrong_answers(records: Sequence[Records]) -> Iterator[tuple[str, str, str]]:
    """Return wrong matches of a fixed sample of patches: (query, correct answer, method's answer).

    The sample has at most `MAX_V1_MATCHING_MISSES` evenly spaced patches of an image pair, the same for every
    method.
    """
    for r in records:
        bounds = np.searchsorted(r["pair"], np.arange(len(r.meta["pairs"]) + 1))
        for i, (a, b) in enumerate(r.meta["pairs"]):
            n = int(bounds[i + 1] - bounds[i])
            chosen = np.unique(np.linspace(0, n - 1, min(n, MAX_V1_MATCHING_MISSES)).round().astype(np.int64))
            rows = bounds[i] + chosen
            near = np.asarray(r["gt_listed"][rows], bool) & (r["gt_distance"][rows] == r["d1"][rows])
            wrong = np.asarray(r["matched"][rows], bool) & ~near
            one, other = a.replace(".", "/"), b.replace(".", "/")
            columns = (chosen[wrong], r["gt"][rows[wrong]], r["index"][rows[wrong]])
            for patch, right, answer in zip(*columns, strict=True):
                yield f"{one}#{patch}", f"{other}#{right}", f"{other}#{answer}"


def scene_curves(records: Sequence[Records], rules: HPatchesV1Rules) -> Iterator[SceneCurves]:
    """Compute the mean precision-recall curve of every scene and benchmark. Its area approximates `ap`."""
    for r in records:
        pair, meta = np.asarray(r["pair"], np.int64), r.meta
        d1, _ = neighbour_distances(r, rules)
        yield mean_precision_recall(
            group_name(benchmark=meta["benchmark"]),
            d1,
            validity(r, rules),
            pair,
            np.bincount(pair, minlength=len(meta["pairs"])),
            np.asarray(meta["pair_scenes"], np.int64),
            scenes=meta["scenes"],
            kinds=meta["kinds"],
        )


def cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Return the reference patches of a scene, scored by the probability that their match is correct."""

    def part(r: Records, number: int) -> Part:
        own = np.flatnonzero(np.asarray(r.meta["pair_scenes"])[r["pair"]] == number)
        d1, d2 = neighbour_distances(r, EXACT)
        return own, validity(r, EXACT)[own], ratio_of(d1[own], d2[own], squared=r.meta["squared"])

    def words(r: Records, row: int) -> str:
        pair = int(r["pair"][row])
        return f"patch {row - int(np.searchsorted(r['pair'], pair))} in {r.meta['pairs'][pair][1]}"

    return benchmark_cases(records, scene, part, words)


def replay(content: Any, row: int, features: Features | None) -> QueryCase:
    """Recompute how the patches of the target image rank for a reference patch."""
    benchmark, truth = content
    ends = np.cumsum([len(t.target) for t in truth])
    pair = int(np.searchsorted(ends, row, side="right"))
    a, b = (item_key(name) for name in benchmark.pairs[pair])
    patch = row - int(ends[pair]) + len(truth[pair].target)
    right = int(truth[pair].target[patch])
    query = f"{a}#{patch}"
    if features is None:
        return QueryCase(query, (), (Candidate(f"{b}#{right}", None, None, True),))
    values = distances_to(features, a, patch, [(b, None)])
    chosen, rights = nearest_candidates(
        values, [right], f"{b}#{{}}".format, squared=features.distance == "l2"
    )
    return QueryCase(query, chosen, rights, first_share(values, [right]))
