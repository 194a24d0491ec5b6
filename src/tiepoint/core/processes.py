# SPDX-License-Identifier: BSD-3-Clause
"""Whether a process that left something behind is still there."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from multiprocessing import process
from pathlib import Path

from .errors import InputError
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


SHARED_MEMORY = Path("/dev/shm")
_NAME = re.compile(rf"(?:sem\.)?tiepoint-{MARK}-.*")


def process_prefix() -> str:
    """How names of this process begin."""
    return f"tiepoint-{process_mark()}-"


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """An empty folder of this user alone, where the system keeps temporary files; removed at the end.

    That of a killed process is removed by the next one that needs a folder or starts work.

    >>> with scratch_folder() as folder:
    ...     os.listdir(folder)
    []
    >>> os.path.exists(folder)
    False
    """
    remove_orphans()
    return tempfile.TemporaryDirectory(prefix=process_prefix(), ignore_cleanup_errors=True)


def name_semaphores() -> None:
    """Let semaphores that this process makes for its workers bear its name.

    Python unlinks them when the process ends, but not where the helper that does so was killed as well.
    """
    if SHARED_MEMORY.is_dir():
        vars(process.current_process())["_config"]["semprefix"] = f"/{process_prefix()[:-1]}"


def remove_orphans() -> int:
    """Remove what dead processes of this machine and user left; returns how many things."""
    removed = 0
    for place in (Path(tempfile.gettempdir()), SHARED_MEMORY):
        with contextlib.suppress(OSError):
            for name in os.listdir(place):
                found = _NAME.fullmatch(name)
                if found is not None and is_orphan(found):
                    removed += _remove(place / name)
    return removed


def _remove(path: Path) -> bool:
    with contextlib.suppress(OSError):
        facts = path.lstat()
        if hasattr(os, "getuid") and facts.st_uid != os.getuid():
            return False
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
        return True
    return False


def cores() -> int:
    """Cores this process may use, at least 1: those of its affinity, no more than its cgroups' quota.

    A container with ``--cpus 2.5`` shows all cores of the machine and stops its processes when they have
    used 2.5 of them, so three threads are as many as help: a quota is rounded up.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    return allowed if quota is None else max(1, min(allowed, quota))


def check_threads(name: str, *, least: int = 1) -> None:
    """Refuse an environment variable that should say how many threads a library starts, and does not.

    Numba and OpenCV fail on these in the middle of the work, in words of their own.

    >>> os.environ["SOME_NUM_THREADS"] = "0"
    >>> check_threads("SOME_NUM_THREADS")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: the environment variable SOME_NUM_THREADS is '0'; a whole number ...
    >>> del os.environ["SOME_NUM_THREADS"]
    """
    value = os.environ.get(name, "").strip()
    if value and not (value.isascii() and value.isdigit() and int(value[:18]) >= least):
        raise InputError(
            f"the environment variable {name} is {value[:40]!r}; a whole number from {least} on is expected: "
            "set one, or unset it"
        )


@cache
def _quota() -> int | None:
    """The quota of this process; asked for at every kernel, it is read once."""
    return cgroup_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))


def cgroup_quota(table: Path, mount: Path) -> int | None:
    """Cores that control groups grant, rounded up; None without a limit.

    The tightest of a group and those above it holds. Version 2 keeps ``QUOTA PERIOD`` in ``cpu.max`` (``max``
    for no limit), version 1 ``cpu.cfs_quota_us`` (negative for no limit) and ``cpu.cfs_period_us`` under the
    mount of its cpu controller. In a container the table may name a path as the host sees it, while the
    container's own group is what is mounted: then the root of the mount is read.

    Args:
        table: ``/proc/self/cgroup``, lines ``NUMBER:CONTROLLERS:PATH``.
        mount: ``/sys/fs/cgroup``.
    """
    try:
        lines = table.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    shares = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            roots = [mount, mount / "unified"]
        elif "cpu" in controllers.split(","):
            roots = [mount / controllers, mount / "cpu"]
        else:
            continue
        for root in roots:
            shares += [s for folder in _upwards(root, path) if (s := _share(folder)) is not None]
    return math.ceil(min(shares)) if shares else None


def _upwards(root: Path, path: str) -> Iterator[Path]:
    """A group's folder and those above it, up to the root of the mount."""
    parts = [p for p in path.split("/") if p not in ("", ".", "..")]
    for n in range(len(parts), -1, -1):
        yield root.joinpath(*parts[:n])


def _share(folder: Path) -> float | None:
    """Cores that the files of one group grant, None without a limit."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            words = " ".join((folder / name).read_text(encoding="utf-8") for name in names).split()
            quota, period = float(words[0]), float(words[1])
        except (OSError, ValueError, IndexError):  # no such file, or `max`
            continue
        if quota > 0 and period > 0:
            return quota / period
    return None
