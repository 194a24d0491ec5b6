# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the tasks on WxBS: recall at 0, 1, …, 19 pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Records
from ...core.scores import Score, group_name
from ...geometry.areas import disc_share
from ...metrics.error_curves import auc_shares
from ..pairs.score import RecallCurve, count_scores, curve_scores

THRESHOLDS_PX = np.arange(20)
LOMA_THRESHOLDS = 11
"""Number of thresholds 0, 1, …, 10 px over which LoMa averages."""


AREA_PX = 20.0
Floats = NDArray[np.float64]


def score_fundamental(records: Sequence[Records], *, exact: bool) -> list[Score]:
    """Compute the recall from epipolar distances of clicked points, under `exact` for each seed."""
    if not records:
        return []
    repeats = min(len(r.meta["ok"]) for r in records)
    recall = np.zeros((repeats, len(records), len(THRESHOLDS_PX)))
    area = np.zeros((repeats, len(records)))
    for i, r in enumerate(records):
        distance, repeat = np.asarray(r["distance_px"]), np.asarray(r["repeat"])
        for k in range(repeats):
            recall[k, i] = recall_curve(distance[repeat == k], rounded=not exact)
            area[k, i] = _area(distance[repeat == k])
    curve = RecallCurve([str(t) for t in THRESHOLDS_PX], recall, area)
    return [*curve_scores(records, curve, exact=exact), *count_scores(records, exact=exact)]


def score_loma(records: Sequence[Records]) -> list[Score]:
    """Compute the mean recall at 0, 1, …, 10 px as LoMa prints it.

    Pairs without F have a recall above 0, because LoMa scores them with horizontal epipolar lines.
    """
    if not records:
        return []
    recall = np.array([recall_curve(np.asarray(r["distance_px"]))[:LOMA_THRESHOLDS] for r in records])
    blind = sum(not all(r.meta["ok"]) for r in records)
    note = (
        f"{len(records)} pairs; at most {100 * (1 - 1 / LOMA_THRESHOLDS):.1f} %, as the recall at 0 px is 0"
    )
    if blind:
        note += f"; {blind} without F are scored with horizontal lines"
    made = [Score("maa_10px", "all", float(recall.mean()), len(records), note=note)]
    made += [
        Score("recall", group_name(threshold_px=t), float(recall[:, t].mean()), len(records))
        for t in range(LOMA_THRESHOLDS)
    ]
    made += [
        Score("maa_10px", group_name(pair=str(r.meta["pair"])), float(values.mean()), 1)
        for r, values in zip(records, recall, strict=True)
    ]
    return [*made, *count_scores(records, exact=False)]


def score_points(records: Sequence[Records], *, exact: bool) -> list[Score]:
    """Compute the recall of transferred points, averaged over both directions."""
    if not records:
        return []
    recall = np.array([_both(r, lambda d: recall_curve(d, rounded=not exact)) for r in records])
    area = np.array([_both(r, _area) for r in records])
    chance = np.array([_chance(r) for r in records])
    curve = RecallCurve([str(t) for t in THRESHOLDS_PX], recall[None], area[None], chance)
    made = curve_scores(records, curve, exact=exact)
    missing = np.concatenate([~np.isfinite(r["distance_px"]) for r in records])
    made.append(Score("unanswered", "all", float(missing.mean()), len(missing)))
    return [*made, *count_scores(records, exact=exact)]


def recall_curve(distance_px: Floats, *, rounded: bool = False) -> Floats:
    """Return the share of distances up to 0, 1, …, 19 px, (20,). `rounded`: in float32, as wxbs-benchmark.

    >>> recall_curve(np.array([0.0, 1.5, np.inf]))[:3].round(3).tolist()
    [0.333, 0.333, 0.667]
    """
    share = (np.asarray(distance_px)[None] <= THRESHOLDS_PX[:, None]).mean(axis=1)
    return np.asarray(share.astype(np.float32) if rounded else share, np.float64)


def _area(distance_px: Floats) -> float:
    return float(auc_shares(distance_px, AREA_PX).mean())


def _both(record: Records, rule: Any) -> Any:
    """Return the value of `rule` for the points of each direction, averaged over both directions."""
    side = np.asarray(record["side"])
    return np.mean([rule(np.asarray(record["distance_px"])[side == k]) for k in (0, 1)], axis=0)


def _chance(record: Records) -> Floats:
    """Return the recall of uniformly random answers at every threshold."""
    side = np.asarray(record["side"])
    shares = []
    for k in (0, 1):
        truth = np.asarray(record["truth"])[side == k]
        size = record.meta["sizes"][k]
        shares.append([disc_share(truth, float(t), size).mean() for t in THRESHOLDS_PX])
    return np.asarray(np.mean(shares, axis=0), np.float64)
