# SPDX-License-Identifier: BSD-3-Clause
"""Read untrusted paths safely: only regular files of limited size are opened."""

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
    """Return the size of a regular file in bytes; links are followed.

    Pipes, devices and sockets are rejected before they are opened, because reading one may never end. Files
    in ``/proc`` have size 0.

    Args:
        path: The file.
        most: Largest size in bytes; None for no limit.

    Raises:
        FormatError: The file is missing, inaccessible, not regular or larger than `most`.

    >>> regular_file_size("/dev/zero")
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: /dev/zero: is a device; expected a regular file
    """
    try:
        facts = os.stat(path)
    except FileNotFoundError as e:
        raise FormatError(path, "the file does not exist") from e
    except (OSError, ValueError) as e:  # a name with a zero byte is a ValueError
        raise FormatError(path, f"cannot be read: {getattr(e, 'strerror', None) or e}") from e
    for is_kind, file_type in () if stat.S_ISREG(facts.st_mode) else _KINDS:
        if is_kind(facts.st_mode):
            raise FormatError(path, f"is {file_type}; expected a regular file")
    if most is not None and facts.st_size > most:
        raise FormatError(path, f"has {facts.st_size} bytes; the limit is {most}")
    return facts.st_size


def exists(path: str | Path) -> bool:
    r"""Return whether a file or folder exists. False if the name is invalid.

    >>> exists("x" * 5000), exists("a\0b"), exists(".")
    (False, False, True)
    """
    return _check(path, Path.exists)


def is_folder(path: str | Path) -> bool:
    """Return whether a folder exists. False if the name is invalid.

    >>> is_folder("x" * 5000), is_folder(".")
    (False, True)
    """
    return _check(path, Path.is_dir)


def is_file(path: str | Path) -> bool:
    r"""Return whether a regular file exists. False if the name is invalid (too long, or with a zero byte).

    >>> is_file("x" * 5000), is_file("a\0b")
    (False, False)
    """
    return _check(path, Path.is_file)


def _check(path: str | Path, test: Callable[[Path], bool]) -> bool:
    try:
        return test(Path(path))
    except (OSError, ValueError):
        return False


def read_regular_file(path: str | Path, *, most: int | None = None) -> bytes:
    """Return the content of a regular file. Raise `FormatError` as in `regular_file_size`.

    With `most`, at most the initial file size is read (1 MiB if it was 0), even if the file grows later.

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
    """Return the content of a file that was written by tiepoint.

    Raise OSError if the file cannot be read, or if it is a pipe or a device. Pipes and devices are not
    opened.

    >>> read_content("/dev/zero")
    Traceback (most recent call last):
    OSError: [Errno 22] it is a device: '/dev/zero'
    """
    mode = os.stat(path).st_mode
    for is_kind, file_type in () if stat.S_ISREG(mode) else _KINDS[1:]:
        if is_kind(mode):
            raise OSError(errno.EINVAL, f"it is {file_type}", str(path))
    with open(path, "rb") as file:
        return file.read()
