# SPDX-License-Identifier: BSD-3-Clause
"""Output streams that replace unencodable characters, escape control characters and handle closed pipes."""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import errno
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from ...core.errors import TiepointError
from ...core.formatting import printable

_PLAIN = {
    "–": "-", "—": "-", "−": "-", "…": "...", "×": "x", "±": "+-", "·": ".", "→": "->", "≤": "<=", "≥": ">=",
    "‘": "'", "’": "'", "“": '"', "”": '"', "█": "#", "°": " deg", "µ": "u", "τ": "tau", "\u00a0": " ",
}  # fmt: skip
_BREAKS = re.compile(r"([\n\t])")
_HANDLER = "tiepoint-plain"


def _replacement(problem: UnicodeError) -> tuple[str, int]:
    """Replace unencodable characters by similar ASCII characters, or else by escapes."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    text = problem.object[problem.start : problem.end]
    return "".join(_PLAIN.get(c) or _ascii(c) for c in text), problem.end


def _ascii(character: str) -> str:
    if "\u2500" <= character <= "\u257f":
        return "-" if character in "─━═╌╍╴╶╸╺" else "|" if character in "│┃║╎╏" else "+"
    return character.encode("ascii", "backslashreplace").decode()


codecs.register_error(_HANDLER, _replacement)


def clean(text: str) -> str:
    r"""Escape non-printable characters, except newlines and tabs.

    >>> clean("a\tb\x1b[2J\n")
    'a\tb\\x1b[2J\n'
    """
    return "".join(p if p in "\n\t" else printable(p) for p in _BREAKS.split(text))


class OutputError(TiepointError):
    """Raised if standard output cannot be written. `quiet` is set if the reader closed the pipe."""

    def __init__(self, cause: OSError) -> None:
        self.quiet = isinstance(cause, BrokenPipeError)
        self.exit_code = 0 if self.quiet else 1
        why = os.strerror(cause.errno) if cause.errno else str(cause)
        super().__init__(f"cannot write to standard output: {why}")


class TolerantStream:
    r"""A text stream that accepts any character. With `careful`, it escapes control characters.

    >>> import io
    >>> ascii = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    >>> out = TolerantStream(ascii)
    >>> _ = out.write("3–5 ± ┃ é \x1b[31m\n")
    >>> out.flush(); ascii.buffer.getvalue()
    b'3-5 +- | \\xe9 \\x1b[31m\n'
    """

    def __init__(self, stream: TextIO, *, careful: bool = True, needed: bool = True) -> None:
        self._stream, self._careful, self._needed = stream, careful, needed
        encoding = (getattr(stream, "encoding", None) or "utf-8").lower()
        self._encoding = None if encoding.replace("_", "-") in ("utf-8", "utf8") else encoding

    def write(self, text: str) -> int:
        """Write text. Replace unencodable characters."""
        if not isinstance(text, str):
            raise TypeError(f"a text stream takes str, found {type(text).__name__}")
        if self._careful and not text.isprintable():
            text = clean(text)
        if self._encoding is None:
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        else:
            text = text.encode(self._encoding, _HANDLER).decode(self._encoding)
        with self._failing():
            return self._stream.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write a list of strings."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the stream."""
        with self._failing():
            self._stream.flush()

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as e:
            if self._needed:
                raise OutputError(e) from e
        except ValueError as e:  # a closed file
            if self._needed and getattr(self._stream, "closed", False):
                raise OutputError(OSError(errno.EBADF, "closed")) from e
            if self._needed:
                raise

    def with_escapes(self) -> TolerantStream:
        """Return this stream without escaping of control characters, for colours and progress bars."""
        return TolerantStream(self._stream, careful=False, needed=self._needed)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # would bypass the escaping
            raise AttributeError(name)
        return getattr(self._stream, name)


@contextlib.contextmanager
def tolerant_streams() -> Iterator[None]:
    """Replace standard output and error by `TolerantStream`s. A missing stream becomes the null device."""
    before = sys.stdout, sys.stderr
    with contextlib.ExitStack() as opened:

        def or_null(stream: TextIO | None) -> TextIO:
            if stream is not None:
                return stream
            return opened.enter_context(open(os.devnull, "w", encoding="utf-8"))

        sys.stdout = cast(TextIO, TolerantStream(or_null(before[0])))
        sys.stderr = cast(TextIO, TolerantStream(or_null(before[1]), needed=False))
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


_result: list[TextIO] = []


def result_stream() -> TextIO:
    """Return the stream for the result of a command: standard output, also within `stdout_for_result`."""
    return _result[-1] if _result else sys.stdout


@contextlib.contextmanager
def stdout_for_result() -> Iterator[None]:
    """Reserve standard output for `result_stream`. All other output goes to standard error.

    This includes the output of C code and of worker processes that start within the block.
    """
    before, saved = sys.stdout, os.dup(1)
    before.flush()
    try:
        is_standard = before.fileno() == 1
    except (OSError, ValueError):  # a stream in memory
        is_standard = False
    with contextlib.ExitStack() as opened:
        if is_standard:
            own = open(saved, "w", encoding=before.encoding, errors=before.errors, closefd=False)  # noqa: SIM115
            opened.callback(own.close)
            _result.append(cast(TextIO, TolerantStream(own)))
        else:
            _result.append(before)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        try:
            yield
        finally:
            _flush_c_streams()
            sys.stdout = before
            _result.pop()
            os.dup2(saved, 1)
    os.close(saved)


def _flush_c_streams() -> None:
    """Flush the buffered output of C code while it still goes to standard error."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)


def discard_pending(stream: TextIO) -> None:
    """Discard buffered output of a broken stream, so that the exit is silent."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def reserve_standard_fds() -> None:
    """Open closed standard file descriptors, so that other files never get descriptors 0 to 2."""
    with contextlib.suppress(OSError):
        while (null := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(null)


def can_ask() -> bool:
    """Return whether standard input is an open terminal."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def escaping(stream: TextIO) -> TextIO:
    """Return a stream for rich that leaves rich's own escape sequences unchanged."""
    return cast(TextIO, stream.with_escapes()) if isinstance(stream, TolerantStream) else stream
