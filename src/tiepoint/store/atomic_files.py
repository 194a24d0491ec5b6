# SPDX-License-Identifier: BSD-3-Clause
"""Write files and folders atomically: temporary file, fsync, rename.

The name of a temporary file contains the machine and the process that writes it. This allows a later process
to remove the temporary files of killed processes.
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
"""Minimum age, in seconds, at which a temporary file of another machine or container is removed."""
_count = itertools.count()
TEMPORARIES = (".tmp-*", "*/.tmp-*", "*/*/.tmp-*")
"""Glob patterns of temporary files and folders in a store folder."""
_NAME = re.compile(rf"\.tmp-{MARK}-\d+")


def _temporary(path: Path) -> Path:
    """Return a new temporary path in the folder of `path`."""
    return path.parent / f".tmp-{process_mark()}-{next(_count)}"


def _sync(path: Path) -> None:
    """Flush a file, or the list of files of a folder, to disk. Windows can flush only open files."""
    folder = path.is_dir()
    if folder and not hasattr(os, "fork"):
        return
    descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _why(error: OSError) -> str:
    """Return the reason of an OS error. Check for a full disk, which NumPy does not report."""
    if error.strerror is None and re.fullmatch(r"\d+ requested and \d+ written", str(error)):
        return os.strerror(errno.ENOSPC)
    return error.strerror or str(error)


@contextlib.contextmanager
def write_errors(path: Path, about: Path | None = None) -> Iterator[None]:
    """Convert OS errors to `StoreError`. With `about`, convert only errors about that path."""
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
def atomic_file(path: Path, *, beside: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path. On success sync it and rename it to `path`; on an error remove it.

    The temporary file is in the folder of `beside`, by default that of `path`. Later processes find it only
    if that is at most two levels below the store folder (`TEMPORARIES`).
    """
    temporary = _temporary(beside or path)
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

    If another process has already created `path`, its folder is retained, because equal names imply equal
    content. With `replace` the new folder replaces an existing one in two renames. A process killed between
    the renames leaves the old folder at `backup_path`.
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
    """Remove a folder or file. It is renamed first, so that no reader sees a partly removed folder."""
    temporary = _temporary(path)
    with write_errors(path), contextlib.suppress(FileNotFoundError):
        os.rename(path, temporary)
        _remove(temporary)


@contextlib.contextmanager
def temporary_folder(root: Path) -> Iterator[Path]:
    """Yield an empty folder below `root`. It is removed at the end, or by the next process after a kill."""
    folder = _temporary(root / "folder")
    try:
        with write_errors(folder):
            folder.mkdir(parents=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_temporaries(root: Path, pids: Collection[int] | None = None) -> int:
    """Remove temporary files of killed processes of this machine. Return the number removed.

    Args:
        root: The store folder. Temporary files are at most two levels below it.
        pids: Ids of ended processes whose files are removed; None for all ended processes.
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
    """Return whether the process that wrote a temporary file has ended."""
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
