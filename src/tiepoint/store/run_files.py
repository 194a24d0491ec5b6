# SPDX-License-Identifier: BSD-3-Clause
"""The file of a run, which holds everything the database says about it, and a checksum of that."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ..core.checksums import add_checksum, verify_checksum
from ..core.errors import StoreError
from ..core.regular_files import read_content
from .atomic_files import atomic_file
from .store import Store
from .stored_run import Manifest
from .stored_run_part import SCORE_COLUMNS, StoredRun


def finite_or_null(value: Any) -> Any:
    """The value; None for a number that is not finite, which JSON and columns do not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_run_file(store: Store, run: StoredRun) -> None:
    """Write the file of a run."""
    plain = {
        "id": run.id,
        "task": run.task,
        "status": run.status,
        "manifest": run.manifest.plain(),
        "scores": [{c: finite_or_null(s.get(c)) for c in SCORE_COLUMNS} for s in run.scores],
        "error": run.error,
        "created_at": run.created_at,
        "time_s": run.time_s,
        "keypoint_set": None if run.keypoint_set is None else dict(run.keypoint_set),
    }
    with atomic_file(run_file(store, run.id)) as temporary:
        temporary.write_text(add_checksum(plain, indent=1), encoding="utf-8", newline="\n")


def run_file(store: Store, run_id: str) -> Path:
    """The file of a run; it holds everything the database says about it."""
    return store.root / "runs" / f"{run_id}.json"


def read_run(path: Path) -> StoredRun:
    """A run from its file; one that is not a run file is a `StoreError`."""
    try:
        plain, _ = verify_checksum(read_content(path))
        scores, used = plain.get("scores", []), plain.get("keypoint_set")
        if not isinstance(scores, list) or not all(isinstance(s, dict) for s in scores):
            raise ValueError("its scores are no list of objects")
        if used is not None and not (isinstance(used, dict) and used.get("id")):
            raise ValueError("its keypoint set is no object with an id")
        return StoredRun(**plain | {"manifest": Manifest.read(plain["manifest"])})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as e:
        raise StoreError(f"{path} is not a run file: {e}") from e
