# SPDX-License-Identifier: BSD-3-Clause
"""Removing files that no run needs, while the store is held, and never what a running process may use."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import live
from ..atomic import put_away, temporary_folder
from ..store import Store
from .contents import Entry, Links, entries
from .uses import FOLDER, Keys, short_keys, uses_of

SLACK_S = 60.0
"""Seconds by which the clocks of machines that share a store may differ."""
SILENT_S = 86400.0
"""Seconds after which a process of another machine is taken for dead; it may be busy with one image."""


@dataclass(frozen=True)
class InUse:
    """What processes at work may use.

    That is everything written since the first of them began, features that they have noted, and records and
    scene values of the tasks they work on.
    """

    since: float
    keys: Keys
    tasks: frozenset[str]
    processes: int

    @classmethod
    def read(cls, root: Path) -> InUse:
        """What is in use in the store at `root` now, by other processes than this one."""
        others = [w for w in live.running(root, silent_s=SILENT_S) if not live.is_this(w)]
        if not others:
            return cls(float("inf"), np.empty(0, np.uint64), frozenset(), 0)
        since = min(w.since for w in others) - SLACK_S
        noted = [uses_of(root, path.stem) for path in (root / FOLDER).glob("*.bin")]
        under_way = [uses for uses in noted if uses is not None and uses.when >= since]
        keys = [uses.keys for uses in under_way] or [np.empty(0, np.uint64)]
        tasks = frozenset(uses.task for uses in under_way)
        return cls(since, np.unique(np.concatenate(keys)), tasks, len(others))

    def has(self, entry: Entry, task: str | None = None) -> bool:
        """Whether an entry may be in use; `task` is the one whose runs needed it, where that is known."""
        if not self.processes:
            return False
        if entry.written >= self.since or entry.kind == "transforms":
            return True
        if entry.kind == "features":
            return bool(np.isin(short_keys([entry.key]), self.keys, assume_unique=True)[0])
        return task is None or task in self.tasks


def discard(store: Store, candidates: Mapping[tuple[str, str], str], busy: InUse) -> int:
    """Remove those of the files (kind and key, with their task) that no run needs; returns their bytes.

    The store must be held (`Store.begin`), so that nobody comes to need one meanwhile.
    """
    if not candidates:
        return 0
    links = Links.read(store)
    gone = [
        entry
        for entry in entries(store)
        if (task := candidates.get((entry.kind, entry.key))) is not None
        and not links.of(entry)
        and not busy.has(entry, task)
    ]
    throw_away(store.root, gone)
    return sum(e.size_bytes for e in gone)


def throw_away(root: Path, gone: Iterable[Entry]) -> None:
    """Remove entries: each vanishes at once, and what a kill leaves half-removed goes at the next start."""
    with temporary_folder(root) as folder:
        for number, entry in enumerate(gone):
            try:
                os.rename(entry.path, folder / str(number))
            except FileNotFoundError:
                continue
            except OSError:  # on another disk
                put_away(entry.path)
