# SPDX-License-Identifier: BSD-3-Clause
"""Records that are read when they are looked at, so that a large store does not have to fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...model.records import Records
from ...store.records import RecordStore

KEPT_BYTES = 1 << 30


@dataclass
class Kept:
    """Records in memory, shared by the runs of a report: the first gibibyte stays, the rest is read again."""

    store: RecordStore
    most_bytes: int = KEPT_BYTES
    size_bytes: int = 0
    known: dict[str, Records] = field(default_factory=dict)

    def get(self, key: str) -> Records:
        """Records of a key, from memory or from the store."""
        found = self.known.get(key)
        if found is None:
            found = self.store.get(key)
            if self.size_bytes + found.size_bytes <= self.most_bytes:
                self.known[key] = found
                self.size_bytes += found.size_bytes
        return found


class LazyRecords(Mapping[str, Records]):
    """Records by comparison (one unit of a run), read when asked for; names cost nothing."""

    def __init__(self, keys: Mapping[str, str], kept: Kept) -> None:
        self._keys, self._kept = dict(keys), kept

    def __getitem__(self, comparison: str) -> Records:
        return self._kept.get(self._keys[comparison])

    def __contains__(self, comparison: object) -> bool:
        return comparison in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
