# SPDX-License-Identifier: BSD-3-Clause
"""Atomic files and folders: temporary file, fsync, rename.

The name of a temporary has the machine and the process that writes it, so that those of killed processes can
be removed.
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
from ..core.processes import MARK, is_orphan, process_mark, this_host
from ..formats.keypoints.set_folder import REPLACED

STALE_S = 7 * 86400.0
"""Age in seconds from which a temporary of another machine or container is removed."""
_count = itertools.count()
TEMPORARIES = (".tmp-*", "*/.tmp-*", "*/*/.tmp-*")
"""Patterns of temporaries in a store folder."""
_NAME = re.compile(rf"\.tmp-{MARK}-\d+")


def _temporary(path: Path) -> Path:
    """Return a new name beside `path`."""
    return path.parent / f".tmp-{process_mark()}-{next(_count)}"


def _sync(path: Path) -> None:
    """Sync a file or the names in a folder; Windows syncs only open files."""
    folder = path.is_dir()
    if folder and not hasattr(os, "fork"):
        return
    descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _why(error: OSError) -> str:
    """Return the system's message. NumPy reports a full disk only by counts."""
    if error.strerror is None and re.fullmatch(r"\d+ requested and \d+ written", str(error)):
        return os.strerror(errno.ENOSPC)
    return error.strerror or str(error)


@contextlib.contextmanager
def write_errors(path: Path, about: Path | None = None) -> Iterator[None]:
    """Turn errors of the operating system into a `StoreError`; with `about`, only those about that path."""
    try:
        yield
    except OSError as e:
        if about is not None and e.filename is not None and not Path(str(e.filename)).is_relative_to(about):
            raise
        raise StoreError(f"cannot write {path}: {_why(e)}; choose another `store`") from e


def backup_path(path: Path) -> Path:
    """Return the backup path used while a folder is replaced."""
    return path.with_name(f"{REPLACED}{path.name}")


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path; on success sync and rename it to `path`, else remove it."""
    temporary = _temporary(path)
    try:
        with write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch()
        with write_errors(path, temporary):
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
    """Yield a temporary folder; on success sync its files and rename it to `path`.

    If another process was faster, its folder stays: folders are content-addressed. With `replace` the
    complete folder replaces an existing one; a kill between the two renames leaves the old one at
    `backup_path`.
    """
    temporary = _temporary(path)
    try:
        with write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.mkdir()
        with write_errors(path, temporary):
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
    """Remove a folder or file; it is renamed first, so that no reader finds half of it."""
    temporary = _temporary(path)
    with write_errors(path), contextlib.suppress(FileNotFoundError):
        os.rename(path, temporary)
        _remove(temporary)


@contextlib.contextmanager
def temporary_folder(root: Path) -> Iterator[Path]:
    """Yield an empty folder below `root`; it is removed at the end, or after a kill by the next process."""
    folder = _temporary(root / "folder")
    try:
        with write_errors(folder):
            folder.mkdir(parents=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_temporaries(root: Path, pids: Collection[int] | None = None) -> int:
    """Remove temporaries of killed processes of this machine. Return the number removed.

    Args:
        root: The store folder; temporaries are at most two levels below it.
        pids: Processes that have ended; None for all dead processes.
    """
    removed = 0
    for pattern in TEMPORARIES:
        with contextlib.suppress(OSError):  # a folder may vanish
            for path in list(root.glob(pattern)):
                name = _NAME.fullmatch(path.name)
                if name is not None and _is_left(path, name, pids):
                    _remove(path)
                    removed += 1
    return removed


def _is_left(path: Path, name: re.Match[str], pids: Collection[int] | None) -> bool:
    """Return whether the process of a temporary has ended."""
    if name["host"] == this_host():
        return is_orphan(name) if pids is None else int(name["pid"]) in pids
    newest = max([path.lstat().st_mtime, *(p.lstat().st_mtime for p in path.rglob("*"))])
    return pids is None and time.time() - newest > STALE_S


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
