# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the 2017 verification task from its records, under any set of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics.average_precision import average_precision
from ..metrics.chance import chance_average_precision
from ..metrics.curves import precision_recall_curve, roc_curve
from ..metrics.roc import fpr_at_recall, needed_positives, roc_auc
from ..model.records import Records
from ..model.scores import PooledBins, Score, group_name
from .v1_bins import pooled_bins
from .v2_protocols import V2Rules

METRICS = ("auc", "ap", "fpr95")
NEGATIVES = ("inter", "intra")
SHARE = 5
"""The imbalanced list has the first fifth of the positives in file order, and all negatives."""
BINS = 64
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PairList:
    """One ranked list, positives first in file order; `fifth` positives enter its imbalanced form."""

    distances: Floats
    positives: int
    scene_a: NDArray[Any]
    scene_b: NDArray[Any]

    @property
    def fifth(self) -> int:
        """Positives of the imbalanced list, at least one."""
        return max(1, self.positives // SHARE)


def as_ranked(records: Records, rules: V2Rules) -> Floats:
    """Kept reference values as the rules rank them.

    Squared or not, in single precision or not; a failure is infinite, or first of all.
    """
    kept = np.asarray(records["distance"], np.float64)
    failed = np.isinf(kept)
    if records.meta["squared"] and not rules.squared:
        kept = np.sqrt(kept)
    if rules.single_precision:
        with np.errstate(over="ignore"):
            kept = kept.astype(np.float32).astype(np.float64)
    if rules.nan_first and failed.any():
        kept = np.where(failed, -np.inf, kept)
    return kept


def pair_lists(records: Records, rules: V2Rules) -> Iterator[tuple[str, PairList]]:
    """The lists of one noise level: positives with the negatives between, then within sequences."""
    d = as_ranked(records, rules)
    rows = records.meta["rows"]
    p, intra, inter = rows["pos"], rows["intra"], rows["inter"]
    start = {"intra": p, "inter": p + intra}
    size = {"intra": intra, "inter": inter}
    for name in NEGATIVES:
        at = slice(start[name], start[name] + size[name])
        parts = [np.concatenate([x[:p], x[at]]) for x in (d, records["scene_a"], records["scene_b"])]
        yield name, PairList(parts[0], p, parts[1], parts[2])


def tie_rule(rules: V2Rules) -> str:
    """The tie rule of the measures."""
    if rules.negatives_first:
        return "pessimistic"
    return "optimistic" if rules.positives_first else "expected"


def values(pairs: PairList, rules: V2Rules) -> dict[str, float]:
    """AUC and FPR95 of the balanced list, AP of the imbalanced one.

    Each class is sorted once; the measures then need no further sort of what is in order already.
    """
    ties = tie_rule(rules)
    p, k = pairs.positives, pairs.fifth
    d, y = _merged(pairs.distances[:p], pairs.distances[p:])
    few, few_y = _merged(pairs.distances[:k], pairs.distances[p:])
    return {
        "auc": roc_auc(d, y, ties=ties, unretrieved="stop" if rules.roc_stops else "extend"),
        "ap": average_precision(few, few_y, ties=ties, flavour="trapezoid" if rules.trapezoid else "trec"),
        "fpr95": fpr_at_recall(d, y, ties=ties),
    }


def _merged(positives: Floats, negatives: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    d = np.concatenate([positives, negatives])
    order = np.argsort(d, kind="stable")
    return d[order], order < len(positives)


def chances(pairs: PairList, rules: V2Rules) -> dict[str, float]:
    """What a random order scores."""
    p, k = pairs.positives, pairs.fifth
    negatives = len(pairs.distances) - p
    flavour = "trapezoid" if rules.trapezoid else "trec"
    return {
        "auc": 0.5,
        "ap": chance_average_precision(negatives + k, k, flavour=flavour),
        "fpr95": needed_positives(p, 0.95) / (p + 1.0),
    }


def score(records: Sequence[Records], rules: V2Rules, protocol: str, *, bins: bool = True) -> list[Score]:
    """Every metric by negatives and noise, and the mean of these cells."""
    cells = [s for r in records for s in _cells(r, rules, protocol, bins)]
    found: list[Score] = []
    for metric in METRICS:
        own = [s for s in cells if s.metric == metric]
        found += [*own, mean_of(own)]
    return found


def _cells(records: Records, rules: V2Rules, protocol: str, bins: bool) -> Iterator[Score]:
    for negatives, pairs in pair_lists(records, rules):
        value, chance = values(pairs, rules), chances(pairs, rules)
        pooled = _bins(records.meta, pairs) if bins else {}
        for metric in METRICS:
            used = pairs.fifth if metric == "ap" else pairs.positives
            yield Score(
                metric,
                group_name(negatives=negatives, noise=records.meta["noise"]),
                value[metric],
                used + len(pairs.distances) - pairs.positives,
                protocol,
                pooled=pooled.get(metric),
                chance=chance[metric],
            )


def _bins(meta: Mapping[str, Any], pairs: PairList) -> dict[str, PooledBins]:
    labels = np.zeros(len(pairs.distances), bool)
    labels[: pairs.positives] = True
    d = np.where(np.isneginf(pairs.distances), -1.0, pairs.distances)
    names, kinds = meta["scenes"], meta["kinds"]
    auc, fpr = pooled_bins(d, labels, pairs.scene_a, pairs.scene_b, names, kinds, ("auc", "fpr95"), bins=BINS)
    keep = np.r_[0 : pairs.fifth, pairs.positives : len(d)]
    (ap,) = pooled_bins(
        d[keep], labels[keep], pairs.scene_a[keep], pairs.scene_b[keep], names, kinds, ("ap",), bins=BINS
    )
    return {"auc": auc, "fpr95": fpr, "ap": ap}


def mean_of(cells: Sequence[Score]) -> Score:
    """Mean of the cells; its interval resamples scenes in all lists together."""
    first = cells[0]
    pooled = [s.pooled for s in cells if s.pooled is not None]
    together = None
    if len(pooled) == len(cells) and len({p.scenes for p in pooled}) == 1:
        together = replace(pooled[0], also=tuple(pooled[1:]))
    chance = [s.chance for s in cells if s.chance is not None]
    return Score(
        first.metric,
        "all",
        float(np.mean([s.value for s in cells])),
        sum(s.n for s in cells),
        first.protocol,
        pooled=together,
        chance=float(np.mean(chance)) if len(chance) == len(cells) else None,
    )


def curves(records: Sequence[Records], rules: V2Rules) -> Iterator[tuple[str, str, Any, Any]]:
    """ROC (balanced) and precision-recall (imbalanced) points of every list: (group, curve, x, y)."""
    for r in records:
        for negatives, pairs in pair_lists(r, rules):
            group = group_name(negatives=negatives, noise=r.meta["noise"])
            p, k = pairs.positives, pairs.fifth
            roc = roc_curve(*_merged(pairs.distances[:p], pairs.distances[p:]), ties=tie_rule(rules))
            yield group, "roc", roc.x, roc.y
            pr = precision_recall_curve(
                *_merged(pairs.distances[:k], pairs.distances[p:]),
                ties=tie_rule(rules),
                flavour="trapezoid" if rules.trapezoid else "trec",
            )
            yield group, "pr", pr.x, pr.y
