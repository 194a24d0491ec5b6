# SPDX-License-Identifier: BSD-3-Clause
"""Usage files, which list the features of each run and protect the features of running processes.

A run writes its usage file before it looks up features. The file contains a line of JSON, then the first
eight bytes of every feature key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.regular_files import read_content
from .. import status_files
from ..atomic_files import atomic_file
from ..store import Store

if TYPE_CHECKING:
    from .inventory import StoreEntry

FOLDER = "uses"
_SHORT = 16
"""Number of hexadecimal digits of a short key."""
Keys = NDArray[np.uint64]
SLACK_S = 60.0
"""Largest assumed clock difference between machines that share a store, in seconds."""
SILENT_S = 86400.0
"""Seconds since the last status update after which a process of another machine counts as dead."""


@dataclass(frozen=True)
class FeatureUsage:
    """Content of a usage file: sorted short keys of the features, the task, and the time of use."""

    task: str
    keys: Keys
    when: float


def short_keys(keys: Iterable[str]) -> Keys:
    """Return the sorted, unique short keys of full feature keys.

    >>> short_keys(["00000000000000ff" + "0" * 48, "0" * 64]).tolist()
    [0, 255]
    """
    return np.unique(np.fromiter((int(key[:_SHORT], 16) for key in keys), np.uint64))


def is_feature_key(key: str) -> bool:
    """Return whether a name has the form of a feature key.

    >>> is_feature_key("0" * 64), is_feature_key("other")
    (True, False)
    """
    return len(key) == 64 and not set(key) - set("0123456789abcdef")


def uses_file(root: Path, run_id: str) -> Path:
    """Return the path of the usage file of a run."""
    return root / FOLDER / f"{run_id}.bin"


def note_uses(store: Store, run_id: str, task: str, keys: Iterable[str]) -> None:
    """Add features to the usage file of a run.

    Requires the store lock, like the removal of features. A removal that finished earlier leaves features
    missing, and the run recomputes them. A removal that starts later respects the usage file.
    """
    with store.begin(lock=run_id):
        before, now = uses_of(store.root, run_id), short_keys(keys)
        write_uses(store.root, run_id, task, now if before is None else np.union1d(now, before.keys))


def write_uses(root: Path, run_id: str, task: str, keys: Keys) -> None:
    """Write the usage file of a run."""
    head = json.dumps({"task": task, "features": len(keys)}).encode() + b"\n"
    with atomic_file(uses_file(root, run_id)) as temporary:
        temporary.write_bytes(head + keys.astype("<u8").tobytes())


def uses_of(root: Path, run_id: str) -> FeatureUsage | None:
    """Read the usage file of a run. None if the file is missing or corrupt.

    >>> uses_of(Path("nowhere"), "12ab") is None
    True
    """
    path = uses_file(root, run_id)
    try:
        when = path.stat().st_mtime
        head, _, body = read_content(path).partition(b"\n")
        plain: Any = json.loads(head)
        keys = np.frombuffer(body, "<u8").astype(np.uint64)
        return FeatureUsage(str(plain["task"]), keys, when) if len(keys) == plain["features"] else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


@dataclass(frozen=True)
class InUse:
    """Store entries that running processes may use.

    These are all entries written since the oldest running process started, the features in the usage files of
    running processes, and the records and scene values of their tasks.
    """

    since: float
    keys: Keys
    tasks: frozenset[str]
    processes: int

    @classmethod
    def read(cls, root: Path) -> InUse:
        """Return the entries of the store at `root` that other processes are possibly reading."""
        others = [
            w for w in status_files.running(root, silent_s=SILENT_S) if not status_files.is_this_process(w)
        ]
        if not others:
            return cls(float("inf"), np.empty(0, np.uint64), frozenset(), 0)
        since = min(w.since for w in others) - SLACK_S
        noted = [uses_of(root, path.stem) for path in (root / FOLDER).glob("*.bin")]
        under_way = [uses for uses in noted if uses is not None and uses.when >= since]
        keys = [uses.keys for uses in under_way] or [np.empty(0, np.uint64)]
        tasks = frozenset(uses.task for uses in under_way)
        return cls(since, np.unique(np.concatenate(keys)), tasks, len(others))

    def has(self, entry: StoreEntry, task: str | None = None) -> bool:
        """Return whether an entry may be in use. `task` is the task of the runs that need it, if known."""
        if not self.processes:
            return False
        if entry.written >= self.since or entry.kind == "transforms":
            return True
        if entry.kind == "features":
            return bool(np.isin(short_keys([entry.key]), self.keys, assume_unique=True)[0])
        return task is None or task in self.tasks
