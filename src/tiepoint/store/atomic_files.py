# SPDX-License-Identifier: BSD-3-Clause
"""Files that are either whole or absent: temporary file, fsync, rename.

A temporary is named after the machine and the process that writes it. What a process leaves behind because it
was killed can so be told from what another one is just writing, and removed.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from ..core.errors import StoreError
from ..core.processes import is_alive, started_at, this_host
from ..formats.keypoints.set_folder import REPLACED

_CLOCK_S = 60.0
"""Seconds by which the clocks of a file server and this machine may differ."""
STALE_S = 7 * 86400.0
"""Seconds after which a temporary of another machine, or of a container that is gone, is taken for left."""
_count = itertools.count()
TEMPORARIES = (".tmp-*", "*/.tmp-*", "*/*/.tmp-*")
"""Where temporaries lie in a store's folder."""
_NAME = re.compile(r"\.tmp-(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-\d+")


def _temporary(path: Path) -> Path:
    """A name beside `path` that no other call gives."""
    return path.parent / f".tmp-{this_host()}-{os.getpid()}-{next(_count)}"


def _sync(path: Path) -> None:
    """Bring a file or the names in a folder to the disk; Windows syncs open files only, and no folders."""
    folder = path.is_dir()
    if folder and not hasattr(os, "fork"):
        return
    descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _why(error: OSError) -> str:
    """What the system says; NumPy only counts what it could not write."""
    if error.strerror is None and re.fullmatch(r"\d+ requested and \d+ written", str(error)):
        return os.strerror(errno.ENOSPC)
    return error.strerror or str(error)


@contextlib.contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turns the operating system's refusal to write into a sentence."""
    try:
        yield
    except OSError as e:
        raise StoreError(f"cannot write {path}: {_why(e)}; choose another `store`") from e


@contextlib.contextmanager
def _filling(temporary: Path, path: Path) -> Iterator[None]:
    """`write_errors`, but for errors about the temporary alone: a full disk is met while it is written."""
    try:
        yield
    except OSError as e:
        if e.filename is not None and not Path(str(e.filename)).is_relative_to(temporary):
            raise
        raise StoreError(f"cannot write {path}: {_why(e)}; choose another `store`") from e


def backup_path(path: Path) -> Path:
    """Where a folder lies while another one takes its place."""
    return path.with_name(f"{REPLACED}{path.name}")


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yields a temporary path; on success it is synced and renamed to `path`, on failure removed."""
    temporary = _temporary(path)
    try:
        with write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch()
        with _filling(temporary, path):
            yield temporary
        with write_errors(path):
            _sync(temporary)
            os.replace(temporary, path)
            _sync(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yields a temporary folder; on success its files are synced and it is renamed to `path`.

    Where another process was faster, its folder stays: folders are content-addressed and equal. With
    `replace` a folder that is there makes way, and only when the new one is whole; a kill between the two
    renames leaves it as `backup_path`.
    """
    temporary = _temporary(path)
    try:
        with write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.mkdir()
        with _filling(temporary, path):
            yield temporary
        with write_errors(path):
            for file in temporary.iterdir():
                _sync(file)
            if replace and path.is_dir():
                shutil.rmtree(backup_path(path), ignore_errors=True)
                os.rename(path, backup_path(path))
            try:
                os.rename(temporary, path)
            except OSError:
                if not path.is_dir():
                    raise
            _sync(path.parent)
            if replace:
                shutil.rmtree(backup_path(path), ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_atomically(path: Path) -> None:
    """Remove a folder or file at once: it is renamed first, so that nobody finds half of it."""
    temporary = _temporary(path)
    with write_errors(path), contextlib.suppress(FileNotFoundError):
        os.rename(path, temporary)
        _remove(temporary)


@contextlib.contextmanager
def temporary_folder(root: Path) -> Iterator[Path]:
    """Yields an empty folder below `root` that is removed at the end, or after a kill by the next process."""
    folder = _temporary(root / "folder")
    try:
        with write_errors(folder):
            folder.mkdir(parents=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_temporaries(root: Path, pids: Collection[int] | None = None) -> int:
    """Remove what killed processes of this machine left in a store's folder; returns how many.

    Args:
        root: The folder; temporaries lie at most two levels below it.
        pids: Processes that have ended; None takes every process that is no longer there.
    """
    removed = 0
    for pattern in TEMPORARIES:
        with contextlib.suppress(OSError):  # a folder may vanish while it is looked at
            for path in list(root.glob(pattern)):
                name = _NAME.fullmatch(path.name)
                if name is not None and _is_left(path, name["host"], int(name["pid"]), pids):
                    _remove(path)
                    removed += 1
    return removed


def _is_left(path: Path, host: str, pid: int, pids: Collection[int] | None) -> bool:
    """Whether the process that made a temporary has ended; numbers of processes are used again."""
    made = max([path.lstat().st_mtime, *(p.lstat().st_mtime for p in path.rglob("*"))])
    if host != this_host():
        return pids is None and time.time() - made > STALE_S
    if pids is not None:
        return pid in pids
    return not is_alive(pid) or (_started(pid) or 0.0) > made + _CLOCK_S


def _started(pid: int) -> float | None:
    """When a process started, in seconds since 1970; None where the system does not tell."""
    ticks = started_at(pid)
    if ticks is None:
        return None
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        booted = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        return booted + ticks / os.sysconf("SC_CLK_TCK")
    return None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
