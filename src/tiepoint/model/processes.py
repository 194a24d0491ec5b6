# SPDX-License-Identifier: BSD-3-Clause
"""Whether a process that left something behind is still there."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

from .hashing import hash_json


@cache
def this_host() -> str:
    """A short hash of this machine and its numbering of processes, which differs between containers."""
    try:
        numbering = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        numbering = 0
    return hash_json([platform.node(), numbering])[:8]


def started_at(pid: int) -> int | None:
    """When a process started, in ticks since the machine did; None where the system does not tell.

    >>> started_at(os.getpid()) == started_at(os.getpid())
    True
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def is_alive(pid: int, started: int | None = None) -> bool:
    """Whether a process of this machine runs; with `started`, whether it is the one that started then.

    Where the system cannot tell, it does.

    >>> is_alive(os.getpid()), is_alive(os.getpid(), 1)
    (True, False)
    """
    if pid <= 0:
        return False
    if not hasattr(os, "fork"):
        return True  # Windows, where signal 0 would send Ctrl-C
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OverflowError:
        return False
    except OSError:
        pass  # somebody else's
    if _has_ended(pid):
        return False
    found = started_at(pid)
    return not started or found is None or found == started


def _has_ended(pid: int) -> bool:
    """Whether all that is left of a process is its number, which nobody has asked for yet."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return text.rpartition(")")[2].split()[:1] in (["Z"], ["X"])
