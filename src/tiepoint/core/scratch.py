# SPDX-License-Identifier: BSD-3-Clause
"""Folders for temporary files, and names in shared memory, that tell whose they are.

A killed process removes nothing. What it leaves bears its id and the time of its start, so that a later
process of the same machine and user sees that nobody needs it any more and removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from multiprocessing import process
from pathlib import Path

from .processes import MARK, is_orphan, process_mark

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
