# SPDX-License-Identifier: BSD-3-Clause
"""Files that are either whole or absent: temporary file, fsync, rename."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..model.errors import StoreError


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def unwritable(path: Path) -> Iterator[None]:
    """Turns the operating system's refusal to write into a sentence."""
    try:
        yield
    except OSError as e:
        raise StoreError(f"cannot write {path}: {e.strerror or e}; choose another place with --store") from e


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yields a temporary path; on success it is synced and renamed to `path`, on failure removed."""
    with unwritable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
        os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with unwritable(path):
            _sync(temporary)
            os.replace(temporary, path)
            _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yields a temporary folder; on success its files are synced and it is renamed to `path`.

    Where another process was faster, its folder stays: folders are content-addressed and equal.
    """
    with unwritable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".tmp-", dir=path.parent))
    try:
        yield temporary
        with unwritable(path):
            for file in temporary.iterdir():
                _sync(file)
            try:
                os.rename(temporary, path)
            except OSError:
                if not path.is_dir():
                    raise
            _sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
