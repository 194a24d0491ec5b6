# SPDX-License-Identifier: BSD-3-Clause
"""What is in use: which features a run uses, and what processes at work may need.

The first is one small file a run, written before the run looks for any of them: a line of JSON and the first
eight bytes of every key.
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
"""Hexadecimal digits of a key that are kept."""
Keys = NDArray[np.uint64]
SLACK_S = 60.0
"""Seconds by which the clocks of machines that share a store may differ."""
SILENT_S = 86400.0
"""Seconds after which a process of another machine is taken for dead; it may be busy with one image."""


@dataclass(frozen=True)
class FeatureUsage:
    """Features of a run by the beginning of their keys in rising order, its task, and when it used them."""

    task: str
    keys: Keys
    when: float


def short_keys(keys: Iterable[str]) -> Keys:
    """The beginnings of keys as numbers in rising order, each once.

    >>> short_keys(["00000000000000ff" + "0" * 48, "0" * 64]).tolist()
    [0, 255]
    """
    return np.unique(np.fromiter((int(key[:_SHORT], 16) for key in keys), np.uint64))


def is_feature_key(key: str) -> bool:
    """Whether a name can be the key of features.

    >>> is_feature_key("0" * 64), is_feature_key("other")
    (True, False)
    """
    return len(key) == 64 and not set(key) - set("0123456789abcdef")


def uses_file(root: Path, run_id: str) -> Path:
    """The file that has what a run uses."""
    return root / FOLDER / f"{run_id}.bin"


def note_uses(store: Store, run_id: str, task: str, keys: Iterable[str]) -> None:
    """Note that a run uses features from now on, those that it used before among them.

    What removes features holds the store for itself: it has either finished, and the run will find that
    features are missing, or has not begun, and will leave them alone.
    """
    with store.begin(lock=run_id):
        before, now = uses_of(store.root, run_id), short_keys(keys)
        write_uses(store.root, run_id, task, now if before is None else np.union1d(now, before.keys))


def write_uses(root: Path, run_id: str, task: str, keys: Keys) -> None:
    """Write the file of a run."""
    head = json.dumps({"task": task, "features": len(keys)}).encode() + b"\n"
    with atomic_file(uses_file(root, run_id)) as temporary:
        temporary.write_bytes(head + keys.astype("<u8").tobytes())


def uses_of(root: Path, run_id: str) -> FeatureUsage | None:
    """What a run uses; None where that is not known.

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
        """Whether an entry may be in use; `task` is the one whose runs needed it, where that is known."""
        if not self.processes:
            return False
        if entry.written >= self.since or entry.kind == "transforms":
            return True
        if entry.kind == "features":
            return bool(np.isin(short_keys([entry.key]), self.keys, assume_unique=True)[0])
        return task is None or task in self.tasks
