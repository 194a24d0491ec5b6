# SPDX-License-Identifier: BSD-3-Clause
"""Score records, add intervals, and detect corrupt cache entries before scoring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import DamagedError
from ..core.records import Records
from ..core.scores import Score, ScoreRow
from ..store.atomic_files import remove_atomically
from ..store.record_files import RecordStore
from ..store.stored_run import SubsetFacts
from ..tasks.base import Task
from ..tasks.capabilities import HasRecordWarnings, HasTimes
from ..tasks.info import metric_info
from .context import RunContext
from .subset_scores import subset_scores

if TYPE_CHECKING:
    from ..stats.intervals import Interval
    from ..stats.pooled import PooledMemo


UnitRecords = Mapping[str, Mapping[str, Records]]
"""Records by unit and comparison."""

SCORING = 4
"""Version of scoring and intervals. Increment it when they change.

Stored scores of another version are recomputed from their records.
"""


def scores_under(
    task: Task, protocol: str, records: UnitRecords, subset: SubsetFacts | None = None
) -> list[Score]:
    """Return all scores of a task under one protocol. Scores of a subset are estimates."""
    comparison = task.comparison(protocol)
    if subset is not None:
        return subset_scores(subset, task, {key: by[comparison] for key, by in records.items()})
    return task.score([by[comparison] for by in records.values()], protocol)


def missing_value_notes(protocol: str, scores: Sequence[Score]) -> list[str]:
    """If no score under a protocol has a value, return the notes of the scores. Empty otherwise."""
    if not scores or any(np.isfinite(s.value) for s in scores):
        return []
    return [f"{protocol}: {note}" for note in dict.fromkeys(s.note for s in scores) if note]


def time_scores(task: Task, protocol: str, features_s: float, compare_s: float) -> list[Score]:
    """Return the timing scores of a task, from the seconds of extraction and comparison."""
    return task.time_scores(protocol, features_s, compare_s) if isinstance(task, HasTimes) else []


def record_warnings(task: Task, records: Sequence[Records]) -> list[str]:
    """Return the warnings of a task about records."""
    return task.record_warnings(records) if isinstance(task, HasRecordWarnings) else []


def score_rows_with_intervals(task: Task, scores: Sequence[Score]) -> list[ScoreRow]:
    """Return the score rows to store. Scores with enough scenes have an interval.

    Scores with the same `PooledBins` share one interval.
    """
    from ..stats.pooled import PooledMemo

    known: dict[tuple[int, float], Interval] = {}
    memo = PooledMemo(score.pooled for score in scores if score.pooled is not None)
    return [_row(task, score, known, memo) for score in scores]


def _row(task: Task, score: Score, known: dict[tuple[int, float], Interval], memo: PooledMemo) -> ScoreRow:
    from ..stats.intervals import pooled_interval, scene_interval

    low, high, kind = score.low, score.high, None
    note = score.note
    interval = None
    if low is None and score.scenes is not None:
        interval = scene_interval(score.scenes, bounded=metric_info(task.info, score.metric).bounded)
    elif low is None and score.pooled is not None:
        place = (id(score.pooled), score.value)
        if place not in known:
            known[place] = pooled_interval(score.pooled, value=score.value, memo=memo)
        interval = known[place]
    if interval is not None:
        low, high, kind = interval.low, interval.high, interval.kind
        note = "; ".join(part for part in (note, interval.note) if part) or None
    low, high = metric_info(task.info, score.metric).within_range(low, high)
    return ScoreRow(
        protocol=score.protocol,
        metric=score.metric,
        group=score.group,
        value=finite_or_none(score.value),
        n=int(score.n),
        low=finite_or_none(low),
        high=finite_or_none(high),
        interval=kind,
        chance=finite_or_none(score.chance),
        note=note,
    )


def finite_or_none(value: float | np.floating[Any] | None) -> float | None:
    """Convert to a plain float. Return None for NaN and infinities, which the store saves as NULL.

    >>> finite_or_none(float("nan")) is None, finite_or_none(0.5)
    (True, 0.5)
    """
    if value is None or not np.isfinite(value):
        return None
    return float(value)


Keys = Mapping[str, Mapping[str, str]]
"""Keys of records by unit and comparison."""


def discard_damaged(context: RunContext) -> None:
    """Recompute cached features with a corrupt header. Discard features whose key is incomplete.

    The data of the first item are checked, too. `RunContext.compare` checks the other items when it reads
    them.
    """
    features, keys = context.features, context.feature_keys
    first = list(keys.values())[:1]
    damaged = features.damaged_headers(list(keys.values())) | features.find_damaged(first)
    for item, key in keys.items():
        if key in damaged:
            context.recompute(item, key, damaged[key])
    context.discard_unkeyed()


def recompute_notices(context: RunContext, since_ns: int) -> list[str]:
    """Return a warning if this process or a worker recomputed corrupt features since a given time."""
    keys = context.feature_keys
    problems = context.features.recomputed(list(keys.values()), since_ns)
    names = [f"the features of {item}" for item, key in keys.items() if key in problems]
    return _corruption_notice(names, list(problems.values()))


def read_intact_records(
    store: RecordStore, keys: Keys, recompute: Callable[[], Keys]
) -> tuple[UnitRecords, Keys, list[str]]:
    """Read records. If some are corrupt, remove them and call `recompute` once for their new keys.

    Returns:
        Records by unit and comparison, their keys, and a warning if some records were corrupt.
    """
    records, corrupt = _read(store, keys)
    if not corrupt:
        return records, keys, []
    for error in corrupt.values():
        remove_atomically(error.path)
    keys = recompute()
    records, still_corrupt = _read(store, keys)
    for error in still_corrupt.values():
        raise error
    names = [f"the records of unit {unit}" for unit in corrupt]
    return records, keys, _corruption_notice(names, [e.problem for e in corrupt.values()])


def _read(records: RecordStore, keys: Keys) -> tuple[UnitRecords, dict[str, DamagedError]]:
    found: dict[str, dict[str, Records]] = {}
    corrupt: dict[str, DamagedError] = {}
    for unit, by in keys.items():
        found[unit] = {}
        for comparison, key in by.items():
            try:
                found[unit][comparison] = records.get(key)
            except DamagedError as e:
                corrupt[f"{unit} ({comparison})"] = e
    return found, corrupt


def _corruption_notice(names: Sequence[str], problems: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return [f"{names[0]}{more} were corrupt on disk and were recomputed ({problems[0]})"]
