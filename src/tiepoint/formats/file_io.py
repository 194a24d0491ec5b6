# SPDX-License-Identifier: BSD-3-Clause
"""Bytes in and out of files: errors in words, whole files or nothing on writing."""

from __future__ import annotations

import contextlib
import itertools
import lzma
import mmap
import os
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core.errors import FormatError, InputError
from ..core.formatting import printable
from ..core.processes import MARK, is_orphan, process_mark
from ..core.regular_files import read_regular_file, regular_file_size
from .sniff import explain_wrong_type

DAMAGED: tuple[type[Exception], ...] = (
    OSError,
    EOFError,
    ValueError,  # with UnicodeError and what JSON raises
    ArithmeticError,
    RuntimeError,  # with RecursionError and NotImplementedError
    MemoryError,
    SyntaxError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)
"""What decoders raise about damaged data. Errors of programming are not among them."""

UNPACKED_BYTES = 256 << 20
UNPACKED_TIMES = 32
UNPACKED_MOST = 64 << 30


def check_unpacked_size(path: str | Path, file_bytes: int, announced: int) -> None:
    """Refuse what would unpack to more than a file of that length may.

    That is 256 MiB, and 32 times its length more, at most 64 GiB. Known before anything is unpacked: a few
    kilobytes can announce, and give, gigabytes.

    Raises:
        FormatError: with both numbers.

    >>> check_unpacked_size("a", 2_000_000, 2_200_000_000)
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: a: would unpack from 2000000 to 2200000000 bytes, at most 332435456
    """
    most = min(UNPACKED_MOST, UNPACKED_BYTES + UNPACKED_TIMES * file_bytes)
    if announced > most:
        raise FormatError(path, f"would unpack from {file_bytes} to {announced} bytes, at most {most}")


def error_reason(error: BaseException) -> str:
    r"""What an error says, in one line that can be shown anywhere.

    >>> error_reason(ValueError("a\nb\x1b")), error_reason(EOFError())
    ('a b\\x1b', 'EOFError')
    """
    text = " ".join(str(error).split())
    return printable(text if len(text) <= 200 else text[:199] + "…") or type(error).__name__


@contextlib.contextmanager
def format_errors(path: str | Path, words: str) -> Iterator[None]:
    """Turn whatever decoders raise about damaged data into a `FormatError` that names the file.

    Errors of ours pass as they are, and so do those of programming (`TypeError`, `KeyError`, …).

    Args:
        path: The file.
        words: What is wrong then, as "is not a readable .npz"; the reason is added in brackets.

    >>> with format_errors("a.npz", "is not a readable .npz"):
    ...     raise zipfile.BadZipFile("no end")
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: a.npz: is not a readable .npz (no end)
    """
    try:
        yield
    except FileNotFoundError as e:
        raise FormatError(path, "the file does not exist") from e
    except DAMAGED as e:
        raise FormatError(path, explain_wrong_type(path, f"{words} ({error_reason(e)})")) from e


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
