# SPDX-License-Identifier: BSD-3-Clause
"""Whether a process that left something behind is still there."""

from __future__ import annotations

import os
import platform
import re
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
    facts = _facts(pid)
    return int(facts[19]) if len(facts) > 19 else None


def _facts(pid: int) -> list[str]:
    """What the system says of a process, its state first; nothing where it does not tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (OSError, ValueError):
        return []


MARK = r"(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-(?P<started>\d+)"
"""Pattern of what `process_mark` gives, as part of a name."""


def process_mark() -> str:
    """What tells this process from all others of all machines, now and later, as part of a name."""
    return f"{this_host()}-{os.getpid()}-{started_at(os.getpid()) or 0}"


def is_orphan(found: re.Match[str]) -> bool:
    """Whether something whose name has a `MARK` was made by a process of this machine that has ended."""
    return found["host"] == this_host() and not is_alive(int(found["pid"]), int(found["started"]))


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
    facts = _facts(pid)
    if facts[:1] in (["Z"], ["X"]):  # all that is left of it is its number, which nobody has asked for yet
        return False
    return not started or len(facts) <= 19 or int(facts[19]) == started
