# SPDX-License-Identifier: BSD-3-Clause
"""A copy of an SQLite database that cannot be read in place."""

from __future__ import annotations

import shutil
from pathlib import Path

_TRIES = 5


def copy_database(database: Path, folder: Path) -> Path:
    """Copy a database with its journal into a folder; returns the copy.

    The journal comes first: it has the pages as they were, and undoes what the copy of the database has of an
    unfinished change. Where a file has changed meanwhile the copy is made again, a few times.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> _ = (root / "a.db").write_bytes(b"x")
    >>> (root / "to").mkdir()
    >>> copy_database(root / "a.db", root / "to").read_bytes()
    b'x'
    """
    sources = [database.with_name(database.name + end) for end in ("-journal", "-wal", "")]
    for _ in range(_TRIES):
        before = [_stamp(path) for path in sources]
        for path in sources:
            target = folder / path.name
            try:
                shutil.copyfile(path, target)
            except FileNotFoundError:
                target.unlink(missing_ok=True)
                if path == database:
                    raise
        if [_stamp(path) for path in sources] == before:
            break
    return folder / database.name


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size
