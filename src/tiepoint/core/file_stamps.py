# SPDX-License-Identifier: BSD-3-Clause
"""Stamps of files (size, times, inode), which detect most changes without reading the files.

Programs can reset size and modification time (``cp -p``, ``rsync -a``, ``os.utime``). They cannot reset the
time of the last status change (ctime) that a local file system of Linux or macOS records.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

FileStamp = tuple[int, int, int, int, int]
"""Device, inode, size, modification time and status change time (both in ns)."""
SETTLED_NS = 2_000_000_000
"""Minimum age of the last change. A second change within one clock tick would leave the stamp unchanged."""
MOUNTS = Path("/proc/self/mountinfo")
_COARSE_NS = 1_000_000
_SHARED = (
    "9p", "afs", "beegfs", "ceph", "cifs", "drvfs", "fuse", "glusterfs", "gpfs", "lustre", "nfs", "orangefs",
    "prl_fs", "pvfs", "smb", "vboxsf", "virtiofs", "vmhgfs",
)  # fmt: skip
_is_shared: dict[int, bool] = {}


def file_stamp(found: os.stat_result) -> FileStamp:
    """Return the stamp of a file from its `os.stat` result."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def is_settled(stamp: FileStamp) -> bool:
    """Return whether the last change is old enough that a later change gives another stamp.

    >>> now = time.time_ns()
    >>> is_settled((1, 2, 3, 0, now)), is_settled((1, 2, 3, 0, now - 3_000_000_000))
    (False, True)
    """
    return time.time_ns() - stamp[4] > SETTLED_NS


def has_reliable_ctime(stamp: FileStamp) -> bool:
    """Return whether every change of the file changes its ctime.

    False on Windows, where ctime is the time of creation, on file systems with a resolution of 1 ms or
    coarser, and on network file systems. Network file systems are recognised on Linux only.
    """
    return os.name == "posix" and stamp[4] % _COARSE_NS != 0 and not _on_network(stamp[0])


def settled_stamp(path: str | Path) -> FileStamp | None:
    """Return a stamp that every later change of the file alters. None if no stamp is reliable.

    Raises:
        OSError: The file is missing or inaccessible.
    """
    stamp = file_stamp(os.stat(path))
    return stamp if is_settled(stamp) and has_reliable_ctime(stamp) else None


def _on_network(device: int) -> bool:
    if device not in _is_shared:
        try:
            lines = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        for line in lines:
            mount, _, source = line.partition(" - ")
            major, _, minor = mount.split()[2].partition(":")
            _is_shared[os.makedev(int(major), int(minor))] = source.startswith(_SHARED)
        _is_shared.setdefault(device, False)
    return _is_shared[device]
