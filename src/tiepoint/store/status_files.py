# SPDX-License-Identifier: BSD-3-Clause
"""Status files: one small file per running process in the store folder."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.processes import MARK, is_alive, process_mark, started_at, this_host
from ..core.regular_files import read_content

FOLDER = "running"
EVERY_S = 0.4
"""Seconds between two updates of a status file."""
SILENT_S = 600.0
"""Seconds since the last update after which a process of another machine counts as dead."""
FORGOTTEN_S = 86_400.0
"""Seconds since the last update after which a status file of another machine is removed."""
MAX_STATUS_BYTES = 64_000
_NAME = re.compile(rf"{MARK}-\d+\.(json|tmp)")
_count = itertools.count()
_waiting: list[tuple[Path, Callable[[], None]]] = []
"""Status files that are written as soon as their store exists."""
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class RunningProcess:
    """Running process: its activity, its stages as (name, done, total), and its start time."""

    pid: int
    host: str
    what: str
    stages: tuple[tuple[str, int, int], ...]
    since: float
    updated: float


@contextlib.contextmanager
def track_progress(root: Path, what: str, progress: Progress | None = None) -> Iterator[Progress]:
    """Yield a progress callback that also updates the status file of this process.

    The file is removed at the end. Write errors are ignored, because no run depends on the file. If the store
    does not exist yet, `write_pending_status` writes the file later.
    """
    path = root / FOLDER / f"{process_mark()}-{next(_count)}.json"
    stages: dict[str, tuple[int, int]] = {}
    since, written = time.time(), 0.0

    def update(stage: str, done: int, total: int) -> None:
        nonlocal written
        if progress is not None:
            progress(stage, done, total)
        stages[stage] = (done, total)
        now = time.monotonic()
        if now - written >= EVERY_S and root.is_dir():
            written = now
            for name in [n for n, (d, t) in stages.items() if d >= t and n != stage]:
                del stages[name]
            _write(path, what, stages, since)

    def first() -> None:
        _write(path, what, stages, since)

    entry = (root, first)
    try:
        remove_dead(root)
        if root.is_dir():
            first()
        else:
            _waiting.append(entry)
        yield update
    finally:
        if entry in _waiting:
            _waiting.remove(entry)
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def write_pending_status(root: Path) -> None:
    """Write the status files that were deferred until their store was created."""
    for entry in [e for e in _waiting if e[0] == root]:
        _waiting.remove(entry)
        entry[1]()


def remove_dead(root: Path) -> int:
    """Remove the status files of dead processes. Return the number removed.

    Status files of other machines are removed one day after their last update.
    """
    removed = 0
    with contextlib.suppress(OSError):
        for path in list((root / FOLDER).iterdir()):
            found = _NAME.fullmatch(path.name)
            here = found is not None and found["host"] == this_host()
            if found is None or (here and is_alive(int(found["pid"]), int(found["started"]))):
                continue
            with contextlib.suppress(OSError):
                if here or time.time() - path.stat().st_mtime > FORGOTTEN_S:
                    path.unlink()
                    removed += 1
    return removed


def _write(path: Path, what: str, stages: dict[str, tuple[int, int]], since: float) -> None:
    plain = {
        "pid": os.getpid(),
        "started": started_at(os.getpid()),
        "host": this_host(),
        "what": what[:2000],
        "stages": [[name[:200], done, total] for name, (done, total) in list(stages.items())[-20:]],
        "since": since,
        "updated": time.time(),
    }
    temporary = path.with_suffix(".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(plain), encoding="utf-8", newline="\n")
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def is_this_process(working: RunningProcess) -> bool:
    """Whether this entry describes the current process."""
    return (working.pid, working.host) == (os.getpid(), this_host())


def running(root: Path, *, silent_s: float = SILENT_S) -> list[RunningProcess]:
    """Return the running processes of a store, oldest first. Corrupt status files are skipped.

    A process of this machine is running if its process id and start time match its status file. A process of
    another machine counts as running if its status file was updated in the last `silent_s` seconds.
    """
    found = []
    with contextlib.suppress(OSError):
        for path in sorted((root / FOLDER).glob("*.json")):
            one = _read(path, silent_s)
            if one is not None:
                found.append(one)
    return sorted(found, key=lambda w: (w.since, w.pid))


def _read(path: Path, silent_s: float) -> RunningProcess | None:
    try:
        if path.stat().st_size > MAX_STATUS_BYTES:
            return None
        plain: dict[str, Any] = json.loads(read_content(path))
        stages = tuple((str(n), int(d), int(t)) for n, d, t in plain["stages"])
        made = RunningProcess(
            int(plain["pid"]), str(plain["host"]), str(plain["what"]), stages, float(plain["since"]),
            float(plain["updated"]),
        )  # fmt: skip
        started = plain["started"]
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    if made.host != this_host():
        return made if time.time() - made.updated < silent_s else None
    return made if started_at(made.pid) == started and is_alive(made.pid) else None
