# SPDX-License-Identifier: BSD-3-Clause
"""A folder of many files that is being written has a mark; one that was cut short keeps it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ..core.errors import FormatError
from .file_io import write_text

MARK = "UNFINISHED.txt"


@contextlib.contextmanager
def mark_incomplete(folder: Path, what: str) -> Iterator[None]:
    """Mark a folder while its files are written; where that fails or the process is killed, the mark stays.

    Args:
        folder: It is made if it is missing.
        what: What writes it, as a user would say: ``data cut``.
    """
    write_text(
        folder / MARK,
        f"`{what}` is writing this folder, or was stopped before it had written all of it. Run it again.\n",
    )
    yield
    with contextlib.suppress(OSError):
        (folder / MARK).unlink()


def refuse_incomplete(folder: Path) -> None:
    """Raise a `FormatError` for a folder whose writing was cut short.

    >>> refuse_incomplete(Path("nowhere"))
    """
    if (folder / MARK).is_file():
        raise FormatError(
            folder,
            "is being written, or its writing was stopped before all was there; run what wrote it again "
            f"({MARK} names it)",
        )
