# SPDX-License-Identifier: BSD-3-Clause
"""Files that are either whole or as they were: written beside, then renamed.

Neither a full disk nor a kill leaves half a file under its name, or takes the one that was there.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..core.errors import InputError
from ..core.processes import MARK, is_orphan, process_mark

_count = itertools.count()
_LEFT = re.compile(rf"\..*\.tmp-{MARK}-\d+.*")


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yields a new name beside `path`, with the same ending; what was written there is then renamed to it.

    Missing folders are made. A link is followed, a device or pipe written to directly. Where an exception is
    raised nothing stays but what was there; one of the system about the file becomes an `InputError`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "folder" / "a.txt"
    >>> with atomic_path(path) as temporary:
    ...     _ = temporary.write_text("text")
    >>> path.read_text(), [p.name for p in path.parent.iterdir()]
    ('text', ['a.txt'])
    """
    temporary = None
    target = Path(path)
    try:
        if target.is_symlink():
            target = target.resolve()
        if target.exists() and not target.is_file():
            yield target
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_left(target.parent)
        temporary = _beside(target)
        temporary.touch(exist_ok=False)
        if target.exists():
            shutil.copymode(target, temporary)
        yield temporary
        os.replace(temporary, target)
        temporary = None
    except OSError as e:
        known = {str(p) for p in (target, temporary, *target.parents)}
        where = "" if e.filename is None or str(e.filename) in known else f"{e.filename}: "
        raise InputError(f"cannot write {path}: {where}{e.strerror or e}") from e
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def write_text(path: str | Path, text: str) -> None:
    """Write a text as UTF-8 with its line ends as they are; see `atomic_path`."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))


def _beside(target: Path) -> Path:
    name = target.name[: -len(target.suffix)] if target.suffix else target.name
    return target.with_name(f".{name[:40]}.tmp-{process_mark()}-{next(_count)}{target.suffix[:40]}")


def _remove_left(folder: Path) -> None:
    """Remove what killed processes of this machine were writing in a folder."""
    if (folder, os.getpid()) in _looked:
        return
    _looked.add((folder, os.getpid()))
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            found = _LEFT.fullmatch(name) if name.startswith(".") else None
            if found is not None and is_orphan(found):
                with contextlib.suppress(OSError):
                    (folder / name).unlink()


_looked: set[tuple[Path, int]] = set()
