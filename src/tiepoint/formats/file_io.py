# SPDX-License-Identifier: BSD-3-Clause
"""Bytes in and out of files: errors in words, whole files or nothing on writing."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core.errors import FormatError
from ..core.regular_files import read_regular_file, regular_file_size
from .whole_file import atomic_path

MAX_FILE_BYTES = 1 << 31
"""Bytes of a file that is read as a whole."""
MAX_TEXT_BYTES = 1 << 28
"""Bytes of a file that is read as lines."""
MAX_LINES = 5_000_000
MAX_LINE_CHARS = 1 << 24
"""Bytes of a line."""
_BOM = b"\xef\xbb\xbf"


@contextlib.contextmanager
def reading(path: str | Path) -> Iterator[int]:
    """What the system says about a file that cannot be opened or read, as a `FormatError`; yields its length.

    Pipes, devices and folders are refused before anything is opened.

    >>> with reading("nowhere.flo"):
    ...     open("nowhere.flo")
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: nowhere.flo: the file does not exist
    """
    length = regular_file_size(path)
    try:
        yield length
    except FileNotFoundError as e:
        raise FormatError(path, "the file does not exist") from e
    except OSError as e:
        raise FormatError(path, f"cannot be read: {e.strerror or e}") from e


def read_bytes(path: str | Path, *, most: int = MAX_FILE_BYTES) -> bytes:
    """The content of a plain file of at most `most` bytes, without its UTF-8 mark; else a `FormatError`."""
    data = read_regular_file(path, most=most)
    return data[3:] if data.startswith(_BOM) else data


def map_bytes(path: str | Path) -> NDArray[np.uint8]:
    """The content of a file as a read-only memory map (n,); an empty file gives an empty array."""
    with reading(path) as length:
        return np.memmap(path, np.uint8, mode="r") if length else np.empty(0, np.uint8)


def read_lines(path: str | Path) -> list[str]:
    """Lines of a small text file, blanks at both ends removed, empty lines at the end left out.

    Line i is ``lines[i - 1]``. An empty file gives an empty list. More than 256 MiB or five million lines are
    a `FormatError`.
    """
    return lines_of(read_bytes(path, most=MAX_TEXT_BYTES), path)


def check_lines(path: str | Path) -> None:
    """Refuse a text file with a line of more than 16 MiB, before its fields are made."""
    if regular_file_size(path) <= MAX_LINE_CHARS:
        return
    with (
        reading(path),
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        _check_lines(data, path)


def _check_lines(data: bytes | mmap.mmap, path: str | Path) -> None:
    at = 0
    while len(data) - at > MAX_LINE_CHARS:
        end = data.rfind(b"\n", at, at + MAX_LINE_CHARS + 1)
        if end < 0:
            line = data[:at].count(b"\n") + 1
            raise FormatError(
                path, f"is longer than {MAX_LINE_CHARS} bytes, as no line of a table is", line=line
            )
        at = end + 1


def lines_of(data: bytes, path: str | Path) -> list[str]:
    r"""The lines of what was read from `path`, as `read_lines` gives them.

    >>> lines_of(b"a \n\nb\n\n", "x.txt")
    ['a', '', 'b']
    """
    _check_lines(data, path)
    if data.count(b"\n") > MAX_LINES:
        raise FormatError(path, f"has more than {MAX_LINES:,} lines")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        line = data[: e.start].count(b"\n") + 1
        raise FormatError(path, "is not a text file (not UTF-8)", line=line) from e
    lines = [line.strip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def write_bytes(path: str | Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write a file as a whole: to a temporary name beside it, then rename. Makes missing folders."""
    with atomic_path(path) as temporary, temporary.open("wb") as f:
        for chunk in chunks:
            f.write(chunk)


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write lines, each ended by a line feed."""
    write_bytes(path, ((line + "\n").encode() for line in lines))
