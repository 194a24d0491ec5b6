# SPDX-License-Identifier: BSD-3-Clause
"""The one way out: what is printed fits the encoding, moves no cursor, and ends quietly on a closed pipe."""

from __future__ import annotations

import codecs
import contextlib
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


def _spelled(problem: UnicodeError) -> tuple[str, int]:
    """What an encoding lacks, in its characters: signs that have a plain form, boxes, else escapes."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    text = problem.object[problem.start : problem.end]
    return "".join(_PLAIN.get(c) or _drawn(c) for c in text), problem.end


def _drawn(character: str) -> str:
    if "\u2500" <= character <= "\u257f":
        return "-" if character in "─━═╌╍╴╶╸╺" else "|" if character in "│┃║╎╏" else "+"
    return character.encode("ascii", "backslashreplace").decode()


codecs.register_error(_HANDLER, _spelled)


def clean(text: str) -> str:
    r"""The text with its lines and tabs, and every other character that is not seen spelled out.

    >>> clean("a\tb\x1b[2J\n")
    'a\tb\\x1b[2J\n'
    """
    return "".join(p if p in "\n\t" else printable(p) for p in _BREAKS.split(text))


class OutputError(TiepointError):
    """Standard output takes no more; `quiet` where its reader has gone, which is no mistake."""

    def __init__(self, cause: OSError) -> None:
        self.quiet = isinstance(cause, BrokenPipeError)
        self.exit_code = 0 if self.quiet else 1
        why = os.strerror(cause.errno) if cause.errno else str(cause)
        super().__init__(f"cannot write to standard output: {why}")


class TolerantStream:
    r"""A stream that takes any text; `careful` ones spell out control characters.

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
        """Write the text, as far as the stream can show it."""
        if not isinstance(text, str):
            raise TypeError(f"text is written here, not {type(text).__name__}")
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
        """Write several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Hand over what was written."""
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
        """The same stream for what makes colours and bars itself."""
        return TolerantStream(self._stream, careful=False, needed=self._needed)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # the way around
            raise AttributeError(name)
        return getattr(self._stream, name)


@contextlib.contextmanager
def tolerant_streams() -> Iterator[None]:
    """Standard output and error are tolerant; a missing one is nowhere."""
    before = sys.stdout, sys.stderr
    with contextlib.ExitStack() as opened:

        def there(stream: TextIO | None) -> TextIO:
            if stream is not None:
                return stream
            return opened.enter_context(open(os.devnull, "w", encoding="utf-8"))

        sys.stdout = cast(TextIO, TolerantStream(there(before[0])))
        sys.stderr = cast(TextIO, TolerantStream(there(before[1]), needed=False))
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def discard_pending(stream: TextIO) -> None:
    """What is still held for a stream that takes no more goes nowhere, so that ending is quiet."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        place = os.open(os.devnull, os.O_WRONLY)
        os.dup2(place, stream.fileno())
        os.close(place)


def reserve_standard_fds() -> None:
    """Files opened later never take the numbers of a closed standard input, output or error."""
    with contextlib.suppress(OSError):
        while (place := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(place)


def can_ask() -> bool:
    """Whether somebody can answer a question: standard input is a terminal, and not closed."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def escaping(stream: TextIO) -> TextIO:
    """A stream for rich, which makes its own escapes."""
    return cast(TextIO, stream.with_escapes()) if isinstance(stream, TolerantStream) else stream
