# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the 2016 classification benchmark, computed from its records under given scoring rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Features, Records
from ....core.scores import CAUTION, Score, group_name
from ....formats.hpatches_v1.classification import LabelledPairs
from ....metrics.ranking.average_precision import average_precision
from ....metrics.ranking.chance import chance_average_precision
from ....metrics.ranking.curves import precision_recall_curve, roc_curve
from ....metrics.ranking.roc import fpr_at_recall, needed_positives, roc_auc
from ...cases import Cases, QueryCase, side_shares
from ...hpatches.data import replay_pair
from ...pooled_bins import pooled_bins
from ..data import Part, benchmark_cases, item_key
from ..protocols import HPatchesV1Rules, printed_classification

METRICS = ("auc", "ap", "fpr95")
WARNING = (
    "ROC area (auc) of an imbalanced list, which hides low precision: read ap, or auc of the balanced list"
)


def headline(metric: str, rules: HPatchesV1Rules) -> str:
    """Return the pair list that the headline score uses: `imbalanced` for AP, `balanced` for ROC metrics.

    The rules of the 2016 program use the imbalanced list for all metrics.
    """
    return "imbalanced" if metric == "ap" or rules.headline_imbalanced else "balanced"


def selection(labels: NDArray[np.bool_], balance: str, rules: HPatchesV1Rules) -> NDArray[np.int64]:
    """Return the indices of the scored pairs in file order: all, or one negative per positive (balanced)."""
    if balance == "imbalanced":
        return np.arange(len(labels))
    negatives = np.flatnonzero(~labels)
    wanted = min(int(labels.sum()), len(negatives))
    if rules.balanced_first_negatives:
        chosen = negatives[:wanted]
    else:
        chosen = negatives[np.arange(wanted) * len(negatives) // max(wanted, 1)]
    return np.sort(np.concatenate([np.flatnonzero(labels), chosen]))


def is_imbalanced(labels: NDArray[np.bool_]) -> bool:
    """Return whether the numbers of positive and negative pairs differ."""
    return 2 * int(labels.sum()) != len(labels)


def ranked_distances(records: Records, rules: HPatchesV1Rules) -> NDArray[np.float64]:
    """Return the distances that the rules rank. Failures are infinite, or -infinite if NaN ranks first."""
    distances = printed_classification(records, records["distance"], rules)
    if not rules.nan_is_infinite:
        distances = np.where(np.isinf(distances), -np.inf, distances)
    return distances


def values(
    distances: NDArray[np.float64], labels: NDArray[np.bool_], rules: HPatchesV1Rules
) -> dict[str, float]:
    """Return the AUC, AP and FPR at 95 % recall of one pair list."""
    ties = "file" if rules.file_order else "expected"
    # One stable sort here makes the sorts inside the three metrics fast.
    order = np.argsort(distances, kind="stable")
    distances, labels = distances[order], labels[order]
    return {
        "auc": roc_auc(distances, labels, ties=ties, unretrieved="stop" if rules.roc_stops else "extend"),
        "ap": average_precision(distances, labels, ties=ties),
        "fpr95": fpr_at_recall(distances, labels, ties=ties),
    }


def chances(labels: NDArray[np.bool_]) -> dict[str, float]:
    """Return the chance level of each metric: its value for a random order."""
    p, n = int(labels.sum()), len(labels)
    return {"auc": 0.5, "ap": chance_average_precision(n, p), "fpr95": needed_positives(p, 0.95) / (p + 1.0)}


def score(records: Sequence[Records], rules: HPatchesV1Rules, protocol: str) -> list[Score]:
    """Compute the scores of each benchmark, on both pair lists and on the headline list, and their means."""
    cells = [s for r in records for s in _of_benchmark(r, rules, protocol)]
    found: list[Score] = []
    for metric in METRICS:
        for balance in ("balanced", "imbalanced"):
            own = [s for s in cells if s.metric == metric and s.extra["balance"] == balance]
            found += own
            mean = _mean(own, group_name(balance=balance))
            if balance == headline(metric, rules):
                found += [replace(s, group=group_name(benchmark=s.extra["benchmark"])) for s in own]
                found.append(replace(mean, group="all"))
            found.append(mean)
    return found


def _of_benchmark(records: Records, rules: HPatchesV1Rules, protocol: str) -> Iterator[Score]:
    distances = ranked_distances(records, rules)
    labels = np.asarray(records["label"], bool)
    meta = records.meta
    for balance in ("balanced", "imbalanced"):
        at = selection(labels, balance, rules)
        d, y = distances[at], labels[at]
        pooled = pooled_bins(
            d, y, records["scene_a"][at], records["scene_b"][at], meta["scenes"], meta["kinds"], METRICS
        )
        chance, value = chances(y), values(d, y, rules)
        for metric, bins in zip(METRICS, pooled, strict=True):
            yield Score(
                metric,
                group_name(balance=balance, benchmark=meta["benchmark"]),
                value[metric],
                len(y),
                protocol,
                pooled=bins,
                chance=chance[metric],
                note=CAUTION + WARNING if metric == "auc" and is_imbalanced(y) else None,
                extra={"balance": balance, "benchmark": meta["benchmark"]},
            )


def _mean(scores: Sequence[Score], group: str) -> Score:
    """Compute the mean over benchmarks. Its confidence interval resamples the scenes of all lists jointly."""
    first = scores[0]
    if len(scores) == 1:
        return replace(first, group=group)
    bins = [s.pooled for s in scores if s.pooled is not None]
    together = None
    if len(bins) == len(scores) and all(b.scenes == bins[0].scenes for b in bins):
        together = replace(bins[0], also=tuple(bins[1:]))
    return Score(
        first.metric,
        group,
        float(np.mean([s.value for s in scores])),
        sum(s.n for s in scores),
        first.protocol,
        pooled=together,
        chance=float(np.mean([s.chance for s in scores if s.chance is not None])),
        note=next((s.note for s in scores if s.note), None),
    )


def curves(records: Sequence[Records], rules: HPatchesV1Rules) -> Iterator[tuple[str, str, Any, Any]]:
    """Compute the ROC and precision-recall curves of every benchmark and pair list: (group, curve, x, y).

    If a list is imbalanced, the name of its ROC curve says so.
    """
    ties = "file" if rules.file_order else "expected"
    for r in records:
        distances, labels = ranked_distances(r, rules), np.asarray(r["label"], bool)
        for balance in ("balanced", "imbalanced"):
            at = selection(labels, balance, rules)
            group = group_name(balance=balance, benchmark=r.meta["benchmark"])
            roc = "roc (imbalanced)" if is_imbalanced(labels[at]) else "roc"
            for name, make in ((roc, roc_curve), ("pr", precision_recall_curve)):
                curve = make(distances[at], labels[at], ties=ties)
                if np.isfinite(curve.y).all():  # else no positive pair is retrieved
                    yield group, name, curve.x, curve.y


def cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Return the pairs whose first patch belongs to a sequence, with their scores.

    The score of a pair is the share of pairs with the other label that have a larger distance (for a positive
    pair) or a smaller one (for a negative pair).
    """

    def part(r: Records, number: int) -> Part:
        own = np.flatnonzero(r["scene_a"] == number)
        distance, label = np.asarray(r["distance"]), np.asarray(r["label"], bool)
        same = label[own]
        value = np.empty(len(own))
        value[same] = side_shares(distance[own[same]], np.sort(distance[~label]), nearer=True)
        value[~same] = side_shares(distance[own[~same]], np.sort(distance[label]), nearer=False)
        return own, value, None

    def words(r: Records, row: int) -> str:
        return f"{'same patch' if r['label'][row] else 'different patches'}, pair {row}"

    return benchmark_cases(records, scene, part, words)


def replay(pairs: LabelledPairs, row: int, features: Features | None) -> QueryCase:
    """Recompute a pair of patches as a query with one candidate."""
    table = pairs.pairs
    images = [table.images[int(of[row])] for of in (table.image_a, table.image_b)]
    items = item_key(images[0]), item_key(images[1])
    rows = int(table.index_a[row]), int(table.index_b[row])
    pictures = [f"{item}#{patch}" for item, patch in zip(items, rows, strict=True)]
    return replay_pair(items, rows, pictures, bool(pairs.labels[row]), features)
