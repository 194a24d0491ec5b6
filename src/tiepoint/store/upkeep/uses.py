# SPDX-License-Identifier: BSD-3-Clause
"""Which features a run uses: one small file a run, written before the run looks for any of them.

It has a line of JSON and the first eight bytes of every key. Runs of older versions have none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..atomic import atomic_file
from ..store import Store

FOLDER = "uses"
_SHORT = 16
"""Hexadecimal digits of a key that are kept."""
Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class Uses:
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


def is_named(key: str) -> bool:
    """Whether a name can be the key of features.

    >>> is_named("0" * 64), is_named("other")
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


def uses_of(root: Path, run_id: str) -> Uses | None:
    """What a run uses; None where that is not known.

    >>> uses_of(Path("nowhere"), "12ab") is None
    True
    """
    path = uses_file(root, run_id)
    try:
        when = path.stat().st_mtime
        head, _, body = path.read_bytes().partition(b"\n")
        plain: Any = json.loads(head)
        keys = np.frombuffer(body, "<u8").astype(np.uint64)
        return Uses(str(plain["task"]), keys, when) if len(keys) == plain["features"] else None
    except (OSError, ValueError, TypeError, KeyError):
        return None
