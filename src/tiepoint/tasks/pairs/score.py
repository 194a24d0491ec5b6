# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the wide-baseline tasks: recall by threshold, its mean, and the area under its curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Arrays, Records
from ...core.scores import Score, group_name
from ...datasets.image_pairs.pair import ImagePair
from ...geometry.two_view.linear_estimation import HomographyEstimate
from ...geometry.two_view.pose_estimation import FundamentalEstimate
from ..base import MetricInfo
from ..scene_means import SceneSums, micro_score
from .data import matches_of

EDGES: dict[str, tuple[float, ...]] = {
    "rotation_deg": (0, 15, 30, 60, 180),
    "overlap": (0.0, 0.1, 0.3, 0.5, 0.7, 1.0),
    "matches": (0, 50, 200, 1000, float("inf")),
    "zoom": (1.0, 1.25, 1.5, 2.0, float("inf")),
}
"""Edges of the bins of pair properties. A bin includes its lower edge; the last bin includes both edges."""
QUARTILES_FROM = 8
"""Minimum number of pairs for scores by quartile of the baseline."""


def strata(records: Sequence[Records]) -> Iterator[tuple[dict[str, str], NDArray[np.bool_]]]:
    """Yield groups of pairs by property, such as rotation: parts of the group name, and a mask of records."""
    for name, edges in EDGES.items():
        values = np.array([_stratum_number(r, name) for r in records])
        if np.isfinite(values).any():
            yield from _bins(name, values, edges)
    lengths = np.array([_stratum_number(r, "baseline") for r in records])
    if len(records) >= QUARTILES_FROM and np.isfinite(lengths).all():
        limits = np.quantile(lengths, [0.25, 0.5, 0.75])
        for i, label in enumerate(("shortest", "short", "long", "longest")):
            yield {"baseline": label}, np.searchsorted(limits, lengths, side="left") == i
    for name in sorted({k for r in records for k, v in r.meta["facts"].items() if isinstance(v, str)}):
        values_ = np.array([str(r.meta["facts"].get(name, "")) for r in records])
        for value in sorted(set(values_) - {""}):
            yield {name: value}, values_ == value


def _bins(
    name: str, values: NDArray[np.float64], edges: Sequence[float]
) -> Iterator[tuple[dict[str, str], NDArray[np.bool_]]]:
    for low, high in pairwise(edges):
        last = high == edges[-1]
        chosen = (values >= low) & ((values <= high) if last else (values < high))
        if chosen.any():
            yield {name: f"{low:g}+" if np.isinf(high) else f"{low:g}-{high:g}"}, chosen


def _stratum_number(record: Records, name: str) -> float:
    """Return a numeric property of a pair, such as its baseline. NaN if unknown."""
    found = record.meta["matches"] if name == "matches" else record.meta["strata"].get(name)
    return float("nan") if found is None else float(found)


Floats = NDArray[np.float64]
SEED_SPREAD = {
    "maa_seed_sd": MetricInfo("standard deviation of maa over seeds of the estimator", better="lower"),
    "maa_seed_min": MetricInfo("smallest maa over seeds of the estimator"),
    "maa_seed_max": MetricInfo("largest maa over seeds of the estimator"),
}
"""Metrics of the variation of `maa` over seeds."""


@dataclass(frozen=True)
class RecallCurve:
    """Recall of every pair, and the area below its curve.

    `recall` is (repeats, pairs, thresholds), `area` is (repeats, pairs). `chance` (pairs,
    thresholds) is the recall of random answers, None if unknown.
    """

    thresholds: Sequence[str]
    recall: Floats
    area: Floats | None = None
    chance: Floats | None = None


def sums_of(records: Sequence[Records], values: Floats, chance: Floats | None = None) -> SceneSums:
    """Return the sums over the pairs of each scene, ignoring NaN."""
    names = sorted({str(r.meta["scene"]) for r in records})
    of = np.array([names.index(str(r.meta["scene"])) for r in records])
    known = np.isfinite(values)

    def added(x: Floats) -> Floats:
        return np.asarray(np.bincount(of[known], weights=x[known], minlength=len(names)), np.float64)

    blind = None if chance is None else added(chance)
    return SceneSums(tuple(names), ("other",) * len(names), added(values), added(np.ones(len(values))), blind)


def curve_scores(records: Sequence[Records], curve: RecallCurve, *, exact: bool) -> list[Score]:
    """Compute `maa` (mean recall) and `recall` at each threshold.

    Under `exact`, add the score `area`, and the scores of groups of pairs.
    """
    recall = curve.recall.mean(axis=0)
    blind = curve.chance
    maa = _mean(
        "maa", records, recall.mean(axis=1), None if blind is None else blind.mean(axis=1), exact=exact
    )
    made = [maa]
    if exact and curve.area is not None:
        made.append(_mean("area", records, curve.area.mean(axis=0)))
    for k, label in enumerate(curve.thresholds):
        chance = None if blind is None else blind[:, k]
        group = group_name(threshold_px=label)
        made.append(_mean("recall", records, recall[:, k], chance, group, exact=exact))
    if not exact:
        return made
    for parts, chosen in strata(records):
        values = np.where(chosen, recall.mean(axis=1), np.nan)
        made.append(_mean("maa", records, values, group=group_name(**parts)))
    made += _spread(curve.recall.mean(axis=2))
    made += by_pair(records, recall.mean(axis=1))
    return made


def _mean(
    metric: str,
    records: Sequence[Records],
    values: Floats,
    chance: Floats | None = None,
    group: str = "all",
    *,
    exact: bool = True,
) -> Score:
    if exact:
        return micro_score(metric, sums_of(records, values, chance), group=group)
    blind = None if chance is None else float(chance.mean())
    return Score(metric, group, float(values.mean()), len(values), chance=blind)


def _spread(table: Floats) -> list[Score]:
    """Return the standard deviation, minimum and maximum of `maa` over the seeds of the estimator."""
    if len(table) < 2:
        return []
    by_seed = table.mean(axis=1)
    found = {"sd": by_seed.std(ddof=1), "min": by_seed.min(), "max": by_seed.max()}
    return [Score(f"maa_seed_{name}", "all", float(value), len(table)) for name, value in found.items()]


def by_pair(records: Sequence[Records], values: Floats) -> Iterator[Score]:
    """Yield the score `maa` of each pair."""
    for r, value in zip(records, values, strict=True):
        yield Score("maa", group_name(pair=str(r.meta["pair"])), float(value), 1)


def count_scores(records: Sequence[Records], *, exact: bool) -> list[Score]:
    """Return the numbers of matches, inliers and failures as scores, if the records contain them."""
    made: list[Score] = []
    for name in ("matches", "inliers"):
        values = np.array([_number(r.meta.get(name)) for r in records])
        if np.isfinite(values).all():
            made.append(_mean(name, records, values, exact=exact))
    failed = sum(not all(r.meta["ok"]) for r in records)
    return [*made, Score("failures", "all", float(failed), len(records))]


def _number(value: Any) -> float:
    if value is None:
        return float("nan")
    return float(np.mean(value))


def pair_facts(pair: ImagePair) -> dict[str, Any]:
    """Return the metadata that a pair's records share: its name, scene, dataset and text properties."""
    return {
        "pair": pair.name,
        "scene": pair.scene,
        "dataset": pair.dataset,
        "strata": {},
        "facts": {k: v for k, v in pair.facts.items() if isinstance(v, str) and k != "split"},
    }


def model_facts(
    pair: ImagePair, arrays: Arrays, found: Sequence[FundamentalEstimate | HomographyEstimate], *, given: bool
) -> dict[str, Any]:
    """Return the numbers of matches and inliers (None if unknown), and whether each estimate succeeded.

    A model that the method provides (`given`) has no number of inliers.
    """
    has_points = "points0" in arrays or "flow" in arrays
    return {
        "matches": len(matches_of(arrays, pair.name)) if has_points else None,
        "inliers": [f.inliers for f in found] if has_points and not given else None,
        "ok": [f.ok for f in found],
    }


def without_model(records: Sequence[Records], what: str) -> list[str]:
    """Return a warning that names the first pairs whose estimate failed for some seed.

    Empty if there are none.
    """
    failed = [str(r.meta["pair"]) for r in records if not all(r.meta["ok"])]
    if not failed:
        return []
    named = ", ".join(failed[:5]) + (", …" if len(failed) > 5 else "")
    return [f"{len(failed)} of {len(records)} pairs have no {what}: {named}"]
