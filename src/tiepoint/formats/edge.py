# SPDX-License-Identifier: BSD-3-Clause
"""The edge of every reader of files from outside: what is read, or one sentence about the file."""

from __future__ import annotations

import contextlib
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from ..core.errors import FormatError
from ..core.formatting import printable
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
