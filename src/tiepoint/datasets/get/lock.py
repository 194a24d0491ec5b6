# SPDX-License-Identifier: BSD-3-Clause
"""One process at a time in a folder: a lock that the system takes back when its owner ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...model.errors import InputError
from .part import refusal

fcntl: Any = None
msvcrt: Any = None
with contextlib.suppress(ImportError):  # POSIX
    import fcntl
with contextlib.suppress(ImportError):  # Windows
    import msvcrt


@contextlib.contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file; where another process has it, that is an error and nobody waits.

    The file stays: removing it could take the lock of the next one from under it.
    """
    with refusal(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            elif msvcrt is not None:
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as e:
            raise InputError(
                f"another process is getting {what} into {path.parent.parent}; wait for it, "
                "or choose another `to`"
            ) from e
        yield
    finally:
        os.close(handle)
