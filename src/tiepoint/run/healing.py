# SPDX-License-Identifier: BSD-3-Clause
"""Damage in a store, seen before it reaches a score: what is damaged is removed, and made anew by the run."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence

from ..model.errors import DamagedError
from ..model.records import Records
from ..store.atomic import put_away
from ..store.records import RecordStore
from .context import Context
from .scoring import UnitRecords

Keys = Mapping[str, Mapping[str, str]]
"""Keys of records by unit and comparison."""


def discard_damaged(context: Context, comparisons: Collection[str]) -> list[str]:
    """Remove cached features that are damaged, so that they count as missing; returns what to tell.

    Of all entries the header is looked at; of the first, whose sizes are told, and of those that units
    without records will read, everything. Where these are more than half of the memory they would be read
    from disk twice, so whoever reads them looks.
    """
    features, keys = context.features, context.feature_keys
    damaged = features.damaged(list(keys.values()), most_bytes=0)
    gone = {key for key in keys.values() if key in damaged or key not in features}
    wanted: dict[str, None] = dict.fromkeys(list(keys.values())[:1])
    for unit in context.opened.units:
        own = context.unit_keys(unit)
        if not gone.isdisjoint(own.values()) or any(
            context.record_key(unit, c, own) not in context.records for c in comparisons
        ):
            wanted.update(dict.fromkeys(own.values()))
    damaged |= features.damaged([key for key in wanted if key not in gone], most_bytes=_half_of_memory())
    for key in damaged:
        features.discard(key)
    return _told(
        [f"the features of {item}" for item, key in keys.items() if key in damaged], damaged.values()
    )


def whole_records(
    records: RecordStore, keys: Keys, again: Callable[[], Keys]
) -> tuple[UnitRecords, list[str]]:
    """Records by unit and comparison, and what to tell: damaged ones are removed, and made `again` once."""
    made, damaged = _read(records, keys)
    if not damaged:
        return made, []
    for error in damaged.values():
        put_away(error.path)
    made, left = _read(records, again())
    for error in left.values():
        raise error
    return made, _told([f"the records of unit {unit}" for unit in damaged], damaged.values())


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


def _told(names: Sequence[str], errors: Collection[DamagedError]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    first = next(iter(errors))
    return [f"{names[0]}{more} were damaged on disk and have been made anew ({first.problem})"]


def _half_of_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):  # no such system
        return None
