# SPDX-License-Identifier: BSD-3-Clause
"""From records to rows of scores with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..model.records import Records
from ..model.scores import Score
from ..tasks.base import Task
from .context import finite_or_none

if TYPE_CHECKING:
    from ..stats.intervals import Interval
    from ..stats.pooled import PooledMemo


SCORING = 2
"""Number of the rules by which records become scores and intervals; raise it when these change.

Scores stored under another number are made again from their records.
"""


def with_interval(
    task: Task, score: Score, known: dict[tuple[int, float], Interval], memo: PooledMemo | None = None
) -> dict[str, Any]:
    """One row of the scores table: value and, where scenes allow it, its interval and how it was made.

    `known` remembers the intervals of pooled scores: several rows may share one set of bins. `memo` is what
    different sets of bins have in common.
    """
    from ..stats.intervals import pooled_interval, scene_interval

    low, high, kind = score.low, score.high, None
    note = score.note
    interval = None
    if low is None and score.scenes is not None:
        interval = scene_interval(score.scenes)
    elif low is None and score.pooled is not None:
        place = (id(score.pooled), score.value)
        if place not in known:
            known[place] = pooled_interval(score.pooled, value=score.value, memo=memo)
        interval = known[place]
    if interval is not None:
        low, high, kind = interval.low, interval.high, interval.kind
        note = "; ".join(part for part in (note, interval.note) if part) or None
    low, high = task.metric(score.metric).within_range(low, high)
    return {
        "protocol": score.protocol,
        "metric": score.metric,
        "group": score.group,
        "value": finite_or_none(score.value),
        "n": int(score.n),
        "low": finite_or_none(low),
        "high": finite_or_none(high),
        "interval": kind,
        "chance": finite_or_none(score.chance),
        "note": note,
    }


def score_rows(task: Task, records: Sequence[Records], protocol: str) -> list[dict[str, Any]]:
    """All scores of a task under one protocol, as rows."""
    from ..stats.pooled import PooledMemo

    known: dict[tuple[int, float], Interval] = {}
    memo = PooledMemo()
    scores = task.score(records, protocol)  # kept alive, so that ids stay unique
    return [with_interval(task, score, known, memo) for score in scores]


def time_rows(task: Task, protocol: str, described_s: float, compared_s: float) -> list[dict[str, Any]]:
    """Rows of a task whose tool publishes times as scores."""
    return [with_interval(task, score, {}) for score in task.times(protocol, described_s, compared_s)]
