# SPDX-License-Identifier: BSD-3-Clause
"""Process identity, cleanup of temporary files of dead processes, and the number of cores."""

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
    """Return a short hash of this machine and its process namespace. Containers have different hashes."""
    try:
        numbering = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        numbering = 0
    return hash_json([platform.node(), numbering])[:8]


def started_at(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot. None if unknown.

    >>> started_at(os.getpid()) == started_at(os.getpid())
    True
    """
    facts = _facts(pid)
    return int(facts[19]) if len(facts) > 19 else None


def _facts(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat``, starting with the process state. Empty if unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (OSError, ValueError):
        return []


def peak_memory_bytes(pid: int) -> int | None:
    """Return the largest resident memory of a process since its start. None if unknown.

    >>> peak_memory_bytes(0) is None
    True
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), None)


MARK = r"(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-(?P<started>\d+)"
"""Regular expression that matches a `process_mark`."""


def process_mark() -> str:
    """Return a file name part that is unique to this process across machines and time."""
    return f"{this_host()}-{os.getpid()}-{started_at(os.getpid()) or 0}"


def is_orphan(found: re.Match[str]) -> bool:
    """Return whether a file name that matches `MARK` belongs to a dead process of this machine."""
    return found["host"] == this_host() and not is_alive(int(found["pid"]), int(found["started"]))


def is_alive(pid: int, started: int | None = None) -> bool:
    """Return whether a process of this machine is running and, if given, has the start time `started`.

    Return True if the operating system does not provide the information.

    >>> is_alive(os.getpid()), is_alive(os.getpid(), 1)
    (True, False)
    """
    if pid <= 0:
        return False
    if not hasattr(os, "fork"):
        return True  # Windows, where signal 0 would send Ctrl-C
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # a process of another user
    facts = _facts(pid)
    if facts[:1] in (["Z"], ["X"]):  # a zombie
        return False
    return not started or len(facts) <= 19 or int(facts[19]) == started


SHARED_MEMORY = Path("/dev/shm")
_NAME = re.compile(rf"(?:sem\.)?tiepoint-{MARK}-.*")


def process_prefix() -> str:
    """Return the prefix of temporary names of this process."""
    return f"tiepoint-{process_mark()}-"


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Create an empty private folder in the system's temporary folder. Leaving the block removes it.

    If this process is killed, the next process removes the folder.

    >>> with scratch_folder() as folder:
    ...     os.listdir(folder)
    []
    >>> os.path.exists(folder)
    False
    """
    remove_orphans()
    return tempfile.TemporaryDirectory(prefix=process_prefix(), ignore_cleanup_errors=True)


def name_semaphores() -> None:
    """Name the semaphores of worker pools after this process, so that `remove_orphans` finds them.

    Python's resource tracker normally removes the semaphores, unless it is killed too.
    """
    if SHARED_MEMORY.is_dir():
        vars(process.current_process())["_config"]["semprefix"] = f"/{process_prefix()[:-1]}"


def remove_orphans() -> int:
    """Remove temporary files of dead processes. Return the number removed."""
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
    """Return the number of cores that this process may use, by CPU affinity and cgroup quota.

    A fractional quota is rounded up: a container with ``--cpus 2.5`` has three cores.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    return allowed if quota is None else max(1, min(allowed, quota))


def check_threads(name: str, *, least: int = 1) -> None:
    """Raise `InputError` unless an environment variable is a valid number of threads, empty or unset.

    Without this check, Numba and OpenCV fail in the middle of a run.

    >>> os.environ["SOME_NUM_THREADS"] = "0"
    >>> check_threads("SOME_NUM_THREADS")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: the environment variable SOME_NUM_THREADS is '0'; set an integer ...
    >>> del os.environ["SOME_NUM_THREADS"]
    """
    value = os.environ.get(name, "").strip()
    if value and not (value.isascii() and value.isdigit() and int(value[:18]) >= least):
        raise InputError(
            f"the environment variable {name} is {value[:40]!r}; set an integer of at least {least}, "
            "or unset the variable"
        )


@cache
def _quota() -> int | None:
    """Return the cgroup quota of this process. It is read once and cached."""
    return cgroup_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))


def cgroup_quota(table: Path, mount: Path) -> int | None:
    """Return the CPU limit of the control groups in cores, rounded up. None if there is no limit.

    The smallest limit of a group and its parents applies. Version 2 of cgroups stores ``QUOTA PERIOD`` in
    ``cpu.max`` (``max`` for no limit). Version 1 stores ``cpu.cfs_quota_us`` (negative for no limit) and
    ``cpu.cfs_period_us`` below the mount of its cpu controller. In a container the table may contain a path
    of the host. In that case the root of the mount is read.

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
    """Yield the folder of a group and its parents up to the mount."""
    parts = [p for p in path.split("/") if p not in ("", ".", "..")]
    for n in range(len(parts), -1, -1):
        yield root.joinpath(*parts[:n])


def _share(folder: Path) -> float | None:
    """Return the CPU limit of one control group in cores. None if there is no limit."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            words = " ".join((folder / name).read_text(encoding="utf-8") for name in names).split()
            quota, period = float(words[0]), float(words[1])
        except (OSError, ValueError, IndexError):  # no such file, or `max`
            continue
        if quota > 0 and period > 0:
            return quota / period
    return None
