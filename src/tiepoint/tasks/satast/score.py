# SPDX-License-Identifier: BSD-3-Clause
"""Scores of `satast/points`: areas under the recall curves of transferred points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...core.records import Records
from ...core.scores import SceneValues, Score, group_name
from ...metrics.error_curves import auc_shares, auc_trapezoid
from ..pairs.score import sums_of
from ..scene_means import micro_score, score_from_scenes

Floats = NDArray[np.float64]
HEADLINE_PX = 10
THRESHOLDS_PX = (5, 10, 20, 30)
TURNS = (0, 90, 180, 270)


def score_exact(records: Sequence[Records]) -> list[Score]:
    """Compute the area under each pair's recall curve, averaged over pairs: overall and by orientation."""
    if not records:
        return []
    turns = [t for t in TURNS if all(t in r.meta["turns"] for r in records)]
    made: list[Score] = []
    for t in (HEADLINE_PX, *THRESHOLDS_PX):
        by_turn = {turn: np.array([area_of(r, t, turn) for r in records]) for turn in turns}
        own = {} if not made else {"tau_px": t}
        made.append(_mean_of_turns(records, by_turn, group_name(**own)))
        for turn, values in by_turn.items():
            made.append(micro_score("auc", sums_of(records, values), group=group_name(turn=turn, **own)))
    made.append(_unanswered(records))
    made += _match_scores(records)
    for r in records:
        value = float(np.mean([area_of(r, HEADLINE_PX, turn) for turn in turns]))
        made.append(Score("auc", group_name(pair=str(r.meta["pair"])), value, 1))
    return made


def area_of(record: Records, t: float, turn: int | None = None) -> float:
    """Return a pair's area up to t pixels: the mean of max(0, 1 - e/t) over points, seeds and orientations.

    `turn` restricts the mean to one orientation.
    """
    turns = np.asarray(record["turn"])
    rows = np.ones(len(turns), bool) if turn is None else turns == turn
    return float(auc_shares(np.asarray(record["error_px"])[rows], t).mean())


def _mean_of_turns(records: Sequence[Records], by_turn: dict[int, Floats], group: str) -> Score:
    sums = [sums_of(records, values) for values in by_turn.values()]
    cells = np.array([s.total / s.count for s in sums])
    weights = np.array([s.count for s in sums])
    table = SceneValues(sums[0].scenes, sums[0].kinds, cells, weights)
    return score_from_scenes("auc", group, len(records), table)


def pooled_errors(records: Sequence[Records]) -> Floats:
    """Return the errors of all points of all pairs."""
    return np.concatenate([np.asarray(r["error_px"], np.float64) for r in records])


def score_pooled(records: Sequence[Records]) -> list[Score]:
    """Compute the trapezoid area under the recall curve of all points, as RoMa v2 prints it."""
    if not records:
        return []
    errors = pooled_errors(records)
    made: list[Score] = []
    for t in (HEADLINE_PX, *THRESHOLDS_PX):
        group = group_name(tau_px=t) if made else "all"
        made.append(Score("auc", group, auc_trapezoid(errors, t), len(errors)))
    return [*made, _unanswered(records), *_match_scores(records)]


def _unanswered(records: Sequence[Records]) -> Score:
    missing = ~np.isfinite(pooled_errors(records))
    return Score("unanswered", "all", float(missing.mean()), len(missing))


def _match_scores(records: Sequence[Records]) -> list[Score]:
    made = []
    if all(r.meta["matches"] is not None for r in records):
        values = np.array([float(r.meta["matches"]) for r in records])
        made.append(micro_score("matches", sums_of(records, values)))
    failed = sum(not all(r.meta["ok"]) for r in records)
    return [*made, Score("failures", "all", float(failed), len(records))]
