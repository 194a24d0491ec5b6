# SPDX-License-Identifier: BSD-3-Clause
"""JSON that others wrote: bounded in size, values and depth; what is wrong is a `FormatError`."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from ..core.errors import FormatError
from ..core.regular_files import read_regular_file

MAX_JSON_BYTES = 1 << 27
"""Bytes of a file that is read."""
MAX_JSON_VALUES = 8_000_000
"""Values a file may hold: an empty list of two bytes takes sixty in memory."""
MAX_JSON_DEPTH = 100
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(path: str | Path, *, most: int = MAX_JSON_BYTES) -> Any:
    r"""The value of a JSON file.

    NaN and Infinity are read as Python's own writer spells them; a whole number beyond 64 bits becomes a
    floating point number.

    Args:
        path: A file in UTF-8, or UTF-16 or UTF-32 with their mark.
        most: Bytes it may have.

    Raises:
        FormatError: A file that is not plain or too long, that is no JSON (with the line), has a key twice in
            one object, more than eight million values or more than 100 levels, or text that cannot
            be written again (half a surrogate pair).

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.json"
    >>> _ = path.write_text('{"a": [1, 2.5]}')
    >>> read_json(path)
    {'a': [1, 2.5]}
    """
    return parse_json(read_regular_file(path, most=most), path)


def parse_json(data: bytes, path: str | Path) -> Any:
    """The value of JSON text; `path` is named in errors. See `read_json`.

    >>> parse_json(b"[" * 5000 + b"]" * 5000, "x.json")
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: x.json: is not JSON that is read: it has more than 100 levels
    """
    if sum(data.count(mark) for mark in (b",", b"[", b"{")) > MAX_JSON_VALUES:
        raise FormatError(path, f"is not JSON that is read: it has more than {MAX_JSON_VALUES:,} values")
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as e:
        line = data[: e.start].count(b"\n") + 1
        raise FormatError(path, "is not JSON: it is not UTF-8", line=line) from e
    whole = _whole if _LONG_NUMBER.search(data) else None
    try:
        found = json.loads(text.removeprefix("\ufeff"), parse_int=whole, object_pairs_hook=_once)
    except json.JSONDecodeError as e:
        reason = f"is not JSON, it may be truncated ({e.msg}, column {e.colno})"
        raise FormatError(path, reason, line=e.lineno) from e
    except _TwiceError as e:
        raise FormatError(path, f"is not JSON that is read: it has the key {str(e)[:60]!r} twice") from e
    except RecursionError as e:
        raise _too_deep(path) from e
    if _deeper(found, MAX_JSON_DEPTH):
        raise _too_deep(path)
    if _SURROGATE.search(data) and not _writable(found):
        raise FormatError(path, "is not JSON that is read: it has half a surrogate pair (\\ud800 to \\udfff)")
    return found


class _TwiceError(ValueError):
    """A key that an object has twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _TwiceError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return made


def _too_deep(path: str | Path) -> FormatError:
    return FormatError(path, f"is not JSON that is read: it has more than {MAX_JSON_DEPTH} levels")


def _whole(digits: str) -> int | float:
    """A whole number of 64 bits as such, else the nearest floating point number.

    >>> _whole("12"), _whole("1" + "0" * 30), _whole("-" + "9" * 400)
    (12, 1e+30, -inf)
    """
    if len(digits) > 20:
        return float(digits)
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 63 else float(number)


def _deeper(value: Any, most: int) -> bool:
    """Whether lists and objects are nested deeper than `most`, found level by level, without recursion."""
    level = [value] if isinstance(value, list | dict) else []
    for _ in range(most):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, list | dict)
        ]
    return bool(level)


def _writable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
