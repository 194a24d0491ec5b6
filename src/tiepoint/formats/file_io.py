# SPDX-License-Identifier: BSD-3-Clause
"""Read and write files with atomic writes and size limits; convert system errors to `FormatError`."""

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
    ValueError,  # includes UnicodeError and JSONDecodeError
    ArithmeticError,
    RuntimeError,  # includes RecursionError and NotImplementedError
    MemoryError,
    SyntaxError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)
"""Exceptions that decoders raise on corrupt data. Exceptions of programming errors are not included."""

UNPACKED_BYTES = 256 << 20
UNPACKED_RATIO = 32
MAX_UNPACKED_BYTES = 64 << 30


def check_unpacked_size(path: str | Path, file_bytes: int, announced: int) -> None:
    """Raise a `FormatError` if a file would unpack to too many bytes.

    `file_bytes` is the size of the file, and `announced` the unpacked size that its header states. The limit
    is 256 MiB plus 32 times the file size, at most 64 GiB. Call this function before unpacking, because a few
    kilobytes can expand to gigabytes.

    >>> check_unpacked_size("a", 2_000_000, 2_200_000_000)
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: a: would unpack from 2000000 to 2200000000 bytes; the limit is \
332435456, so check or split the file
    """
    limit = min(MAX_UNPACKED_BYTES, UNPACKED_BYTES + UNPACKED_RATIO * file_bytes)
    if announced > limit:
        raise FormatError(
            path,
            f"would unpack from {file_bytes} to {announced} bytes; the limit is {limit}, so check or "
            "split the file",
        )


def error_reason(error: BaseException) -> str:
    r"""Format an error as one printable line of at most 200 characters.

    >>> error_reason(ValueError("a\nb\x1b")), error_reason(EOFError())
    ('a b\\x1b', 'EOFError')
    """
    text = " ".join(str(error).split())
    return printable(text if len(text) <= 200 else text[:199] + "…") or type(error).__name__


@contextlib.contextmanager
def format_errors(path: str | Path, words: str) -> Iterator[None]:
    """Convert exceptions of decoders in this block into a `FormatError` that names the file.

    Errors raised by tiepoint and programming errors (`TypeError`, `KeyError`, …) stay unchanged.

    Args:
        path: The file named in the error.
        words: The problem, such as "is not a readable .npz". The original message is appended in parentheses.

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
_TEMPORARY = re.compile(rf"\..*\.tmp-{MARK}-\d+.*")
_cleaned: set[tuple[Path, int]] = set()


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, with the same suffix, and rename it to `path` on success.

    Missing folders are created. Symbolic links are followed. Devices and pipes are written to directly. If an
    exception is raised, the old file is unchanged. An `OSError` becomes an `InputError`.

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
        _remove_orphans(target.parent)
        stem = target.name.removesuffix(target.suffix)[:40]
        temporary = target.with_name(f".{stem}.tmp-{process_mark()}-{next(_count)}{target.suffix[:40]}")
        temporary.touch(exist_ok=False)
        if target.exists():
            shutil.copymode(target, temporary)
        yield temporary
        os.replace(temporary, target)
        temporary = None
    except OSError as e:
        known = {str(p) for p in (target, temporary, *target.parents)}
        place = "" if e.filename is None or str(e.filename) in known else f"{e.filename}: "
        raise InputError(f"cannot write {path}: {place}{e.strerror or e}") from e
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def write_text(path: str | Path, text: str) -> None:
    """Write text to a file as UTF-8, atomically. Line ends are not converted."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))


def _remove_orphans(folder: Path) -> None:
    """Remove temporary files that killed processes of this machine left in a folder.

    A process cleans each folder only once.
    """
    if (folder, os.getpid()) in _cleaned:
        return
    _cleaned.add((folder, os.getpid()))
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            match = _TEMPORARY.fullmatch(name) if name.startswith(".") else None
            if match is not None and is_orphan(match):
                with contextlib.suppress(OSError):
                    (folder / name).unlink()


INCOMPLETE_MARK = "UNFINISHED.txt"


@contextlib.contextmanager
def mark_incomplete(folder: Path, command: str) -> Iterator[None]:
    """Mark a folder as incomplete while its files are written. The mark remains if the process fails.

    Args:
        folder: Folder to mark. It is created if missing.
        command: The command that writes the folder, such as ``data cut``.
    """
    mark = folder / INCOMPLETE_MARK
    write_text(mark, f"`{command}` is writing this folder or was interrupted. Run it again.\n")
    yield
    with contextlib.suppress(OSError):
        mark.unlink()


def refuse_incomplete(folder: Path) -> None:
    """Raise a `FormatError` if the folder is marked as incomplete.

    >>> refuse_incomplete(Path("nowhere"))
    """
    if (folder / INCOMPLETE_MARK).is_file():
        raise FormatError(
            folder,
            f"is incomplete, because the command named in {INCOMPLETE_MARK} did not finish; run it again",
        )


MAX_FILE_BYTES = 1 << 31
"""Size limit of a file that is read into memory."""
MAX_TEXT_BYTES = 1 << 28
"""Size limit of a text file."""
MAX_LINES = 5_000_000
MAX_LINE_CHARS = 1 << 24
"""Length limit of a line, in bytes."""
_BOM = b"\xef\xbb\xbf"


@contextlib.contextmanager
def reading(path: str | Path) -> Iterator[int]:
    """Yield the size of a file in bytes, and convert system errors in the block to `FormatError`.

    Pipes, devices and folders are refused before they are opened.

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
    """Read a regular file and remove a UTF-8 byte order mark. `most` is the size limit in bytes."""
    data = read_regular_file(path, most=most)
    return data[3:] if data.startswith(_BOM) else data


def map_bytes(path: str | Path) -> NDArray[np.uint8]:
    """Memory-map a file, read-only, as a uint8 array (n,). Return an empty array for an empty file."""
    with reading(path) as length:
        return np.memmap(path, np.uint8, mode="r") if length else np.empty(0, np.uint8)


def read_lines(path: str | Path) -> list[str]:
    """Read the lines of a text file. Strip each line and drop empty lines at the end.

    Line number i of the file is ``lines[i - 1]``. An empty file gives an empty list. A file of more than 256
    MiB or five million lines raises a `FormatError`.
    """
    return lines_of(read_bytes(path, most=MAX_TEXT_BYTES), path)


def check_lines(path: str | Path) -> None:
    """Raise a `FormatError` if a text file has a line of more than 16 MiB. Call before parsing."""
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
                path, f"is longer than the limit of {MAX_LINE_CHARS} bytes; check the line ends", line=line
            )
        at = end + 1


def lines_of(data: bytes, path: str | Path) -> list[str]:
    r"""Split the content of a text file into lines, as `read_lines` does.

    >>> lines_of(b"a \n\nb\n\n", "x.txt")
    ['a', '', 'b']
    """
    _check_lines(data, path)
    if data.count(b"\n") > MAX_LINES:
        raise FormatError(path, f"has more lines than the limit of {MAX_LINES:,}; split the file")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        line = data[: e.start].count(b"\n") + 1
        raise FormatError(path, "is not a text file (not UTF-8); save it as UTF-8", line=line) from e
    lines = [line.strip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def write_bytes(path: str | Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write chunks of bytes to a file, atomically. Missing folders are created."""
    with atomic_path(path) as temporary, temporary.open("wb") as f:
        for chunk in chunks:
            f.write(chunk)


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write lines to a file, each followed by a line feed."""
    write_bytes(path, ((line + "\n").encode() for line in lines))
