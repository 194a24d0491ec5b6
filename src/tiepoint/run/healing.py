# SPDX-License-Identifier: BSD-3-Clause
"""Damage in a store, seen before it reaches a score: what is damaged is removed, and made anew by the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..core.errors import DamagedError
from ..core.records import Records
from ..store.atomic_files import remove_atomically
from ..store.record_files import RecordStore
from .context import RunContext
from .scoring import UnitRecords

Keys = Mapping[str, Mapping[str, str]]
"""Keys of records by unit and comparison."""


def discard_damaged(context: RunContext) -> None:
    """Make cached features anew whose header is damaged, and the first, whose sizes are told.

    The rest is looked at when it is needed, see `RunContext.compare`.
    """
    features, keys = context.features, context.feature_keys
    first = list(keys.values())[:1]
    damaged = features.damaged_headers(list(keys.values())) | features.damaged(first)
    for item, key in keys.items():
        if key in damaged:
            context.recompute(item, key, damaged[key])


def recompute_notices(context: RunContext, since_ns: int) -> list[str]:
    """What to tell of features that were damaged and made anew, by this process or by workers."""
    keys = context.feature_keys
    made = context.features.recomputed(list(keys.values()), since_ns)
    return _told(
        [f"the features of {item}" for item, key in keys.items() if key in made], list(made.values())
    )


def read_intact_records(
    records: RecordStore, keys: Keys, again: Callable[[], Keys]
) -> tuple[UnitRecords, list[str]]:
    """Records by unit and comparison, and what to tell: damaged ones are removed, and made `again` once."""
    made, damaged = _read(records, keys)
    if not damaged:
        return made, []
    for error in damaged.values():
        remove_atomically(error.path)
    made, left = _read(records, again())
    for error in left.values():
        raise error
    return made, _told(
        [f"the records of unit {unit}" for unit in damaged], [e.problem for e in damaged.values()]
    )


def _read(records: RecordStore, keys: Keys) -> tuple[UnitRecords, dict[str, DamagedError]]:
    made: dict[str, dict[str, Records]] = {}
    damaged: dict[str, DamagedError] = {}
    for unit, by in keys.items():
        made[unit] = {}
        for comparison, key in by.items():
            try:
                made[unit][comparison] = records.get(key)
            except DamagedError as e:
                damaged[f"{unit} ({comparison})"] = e
    return made, damaged


def _told(names: Sequence[str], problems: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return [f"{names[0]}{more} were damaged on disk and have been made anew ({problems[0]})"]
