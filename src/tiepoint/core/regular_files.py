# SPDX-License-Identifier: BSD-3-Clause
"""Files as they may be met: before one is opened it is known to be plain and not longer than expected."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from .errors import FormatError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def regular_file_size(path: str | Path, *, most: int | None = None) -> int:
    """The length of a plain file in bytes.

    Links are followed. Pipes, devices and sockets are refused before they are opened: reading one may never
    end. A file that claims no length (as those of ``/proc``) gives 0.

    Args:
        path: The file.
        most: Bytes it may have; None for any number.

    Raises:
        FormatError: if the file is missing, cannot be looked at, is not plain or is longer than `most`.

    >>> regular_file_size("/dev/zero")
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: /dev/zero: is a device; a plain file is needed
    """
    try:
        facts = os.stat(path)
    except FileNotFoundError as e:
        raise FormatError(path, "the file does not exist") from e
    except (OSError, ValueError) as e:  # a name with a zero byte is a ValueError
        raise FormatError(path, f"cannot be read: {getattr(e, 'strerror', None) or e}") from e
    for is_kind, words in () if stat.S_ISREG(facts.st_mode) else _KINDS:
        if is_kind(facts.st_mode):
            raise FormatError(path, f"is {words}; a plain file is needed")
    if most is not None and facts.st_size > most:
        raise FormatError(path, f"has {facts.st_size} bytes, at most {most} are read")
    return facts.st_size


def exists(path: str | Path) -> bool:
    r"""Whether a file or folder is there; a name that none can have is not.

    >>> exists("x" * 5000), exists("a\0b"), exists(".")
    (False, False, True)
    """
    return _says(path, Path.exists)


def is_folder(path: str | Path) -> bool:
    """Whether a folder is there; a name that none can have is not.

    >>> is_folder("x" * 5000), is_folder(".")
    (False, True)
    """
    return _says(path, Path.is_dir)


def is_file(path: str | Path) -> bool:
    r"""Whether a plain file is there; a name that no file can have (too long, a zero byte) is not.

    >>> is_file("x" * 5000), is_file("a\0b")
    (False, False)
    """
    return _says(path, Path.is_file)


def _says(path: str | Path, asked: Callable[[Path], bool]) -> bool:
    try:
        return asked(Path(path))
    except (OSError, ValueError):
        return False


def read_regular_file(path: str | Path, *, most: int | None = None) -> bytes:
    """The content of a plain file; what `regular_file_size` refuses is refused.

    With `most`, a file that grows meanwhile is cut at the length it had (one that claims none, at 1 MiB).

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a"
    >>> _ = path.write_bytes(b"abc")
    >>> read_regular_file(path, most=3)
    b'abc'
    """
    length = regular_file_size(path, most=most)
    try:
        with open(path, "rb") as file:
            return file.read() if most is None else file.read(min(most, length or 1 << 20))
    except OSError as e:
        raise FormatError(path, f"cannot be read: {e.strerror or e}") from e


def read_content(path: str | Path) -> bytes:
    """The content of a file of our own, as `Path.read_bytes` gives it.

    What cannot be read is an OSError; so is a pipe or a device in its place, which is not opened.

    >>> read_content("/dev/zero")
    Traceback (most recent call last):
    OSError: [Errno 22] it is a device: '/dev/zero'
    """
    mode = os.stat(path).st_mode
    for is_kind, words in () if stat.S_ISREG(mode) else _KINDS[1:]:
        if is_kind(mode):
            raise OSError(errno.EINVAL, f"it is {words}", str(path))
    with open(path, "rb") as file:
        return file.read()
