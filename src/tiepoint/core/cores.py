# SPDX-License-Identifier: BSD-3-Clause
"""How many cores this process may use: the one place that counts them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from .errors import InputError


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
