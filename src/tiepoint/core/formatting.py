# SPDX-License-Identifier: BSD-3-Clause
"""Check and escape untrusted names; parse and format sizes, ages and counts."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from .errors import InputError

MAX_NAME_BYTES = 200
"""Maximum length of a name in a path. File systems allow 255 bytes, and suffixes are added."""
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def printable(text: str) -> str:
    r"""Escape non-printable characters.

    Non-printable are control characters, direction marks, lone surrogates and line separators.

    >>> printable("a\x1b[31mb\n\u202ec"), printable("żółć 漢字")
    ('a\\x1b[31mb\\n\\u202ec', 'żółć 漢字')
    """
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) in _UNSEEN else c for c in text
    )


def storable_text(text: str) -> str:
    r"""Return text that can be encoded as UTF-8. Escape undecodable bytes of a file name.

    >>> storable_text("caf\udce9")
    'caf\\udce9'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def path_part(name: str, what: str) -> str:
    r"""Check that a name can be one part of a path on every system, and return it.

    Args:
        name: The name.
        what: The kind of name, for the error.

    Raises:
        InputError: The name is empty, ``.`` or ``..``, has a slash, a backslash, a drive letter or a
            non-printable character, ends in a dot or blank, or has more than 200 bytes.

    >>> path_part("v_bird", "the scene")
    'v_bird'
    >>> path_part("../../x", "the scene")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: the scene '../../x' cannot be part of a path: it has a slash; rename it
    """
    reason = None
    if not name.strip(". "):
        reason = "it is empty or dots"
    elif "/" in name or "\\" in name:
        reason = "it has a slash"
    elif name[1:2] == ":":
        reason = "it begins with a drive"
    elif any(unicodedata.category(c) in _UNSEEN for c in name):
        reason = "it has non-printable characters"
    elif name[-1] in ". ":
        reason = "it ends in a dot or blank"
    elif len(name.encode("utf-8")) > MAX_NAME_BYTES:
        reason = f"it has more than {MAX_NAME_BYTES} bytes"
    if reason is None:
        return name
    cut = name if len(name) <= 60 else name[:57] + "…"
    raise InputError(f"{what} '{printable(cut)}' cannot be part of a path: {reason}; rename it")


def method_name(name: str) -> str:
    r"""Check a method name that a user chose, and return it. Raise `InputError` if it is not allowed.

    Names in imported results are not checked.

    >>> method_name("my net (v2)")
    'my net (v2)'
    >>> method_name("a\nb")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: 'a\nb' cannot be the name of a method; use 1 to 200 printable bytes
    """
    if name.strip() and printable(name) == name and len(name.encode()) <= MAX_NAME_BYTES:
        return name
    raise InputError(
        f"'{printable(name[:60])}' cannot be the name of a method; use 1 to {MAX_NAME_BYTES} printable bytes"
    )


def path_below(folder: str | Path, *names: str, what: str, ending: str = "") -> Path:
    """Build the path of a file below a folder from untrusted names, and return it.

    Args:
        folder: The folder; it may be a link itself.
        names: Parts of the path (see `path_part`); the last is the file name.
        what: The kind of name, for the error.
        ending: Suffix of the file name.

    Raises:
        InputError: A name cannot be part of a path, or a link below the folder leads out of it.

    >>> path_below("out", "v_bird", "1", what="the image", ending=".csv").as_posix()
    'out/v_bird/1.csv'
    """
    root = Path(folder)
    path = root.joinpath(*(path_part(name, what) for name in names[:-1]), path_part(names[-1], what) + ending)
    inner = path.parent
    while inner != root and not inner.is_symlink():
        inner = inner.parent
    if inner != root and not inner.resolve().is_relative_to(root.resolve()):
        raise InputError(
            f"{printable(str(inner))} is a link to a place outside {printable(str(root))}; remove the link"
        )
    return path


MAX_CONTENT = 6
"""Number of entries of a folder in a message."""


def found_in(path: Path) -> str:
    """Describe the content of a path for an error message: ``found a.png, b/ and 3 more``."""
    if not path.exists():
        return "it does not exist"
    if not path.is_dir():
        return f"it is a file of {count_text(path.stat().st_size, 'byte')}"
    names = sorted(printable(p.name) + "/" * p.is_dir() for p in path.iterdir())
    return f"found {first_few(names, MAX_CONTENT)}" if names else "the folder is empty"


_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_AGES = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365 * 86400.0}
_AMOUNT = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)\s*")


def count_text(count: int, one: str, several: str | None = None) -> str:
    """Return a count with its noun. `several` is the plural; the default appends an s to the noun.

    >>> count_text(1, "run"), count_text(1234, "pair"), count_text(2, "entry", "entries")
    ('1 run', '1,234 pairs', '2 entries')
    """
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def first_few(names: Sequence[str], shown: int = 4, *, count: bool = True) -> str:
    """Return the first names of a list as text and, with `count`, the number of omitted names.

    >>> first_few(["a", "b", "c"], 2), first_few(["a", "b", "c"], 2, count=False)
    ('a, b and 1 more', 'a, b, …')
    """
    more = len(names) - shown
    rest = f" and {more} more" if count else ", …"
    return ", ".join(names[:shown]) + (rest if more > 0 else "")


def size_bytes(text: str) -> int:
    """Parse a size with a unit (B, kB to TB, or KiB to TiB) and return it in bytes.

    >>> size_bytes("20GB"), size_bytes("1.5 MiB"), size_bytes("0b")
    (20000000000, 1572864, 0)
    >>> size_bytes("20")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: '20' is not a size; write number and unit, such as 20GB or 1.5GiB
    """
    found = _AMOUNT.fullmatch(text)
    unit = None if found is None else _SIZES.get(found[2].lower())
    if found is None or unit is None:
        raise InputError(f"'{printable(text)}' is not a size; write number and unit, such as 20GB or 1.5GiB")
    return math.floor(float(found[1]) * unit)


def age_s(text: str) -> float:
    """Parse an age (a number with s, min, h, d, w or y) and return it in seconds.

    >>> age_s("12h"), age_s("30d")
    (43200.0, 2592000.0)
    >>> age_s("soon")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: 'soon' is not an age; write number and unit, such as 30d or 12h
    """
    found = _AMOUNT.fullmatch(text)
    unit = None if found is None else _AGES.get(found[2].lower())
    if found is None or unit is None:
        raise InputError(f"'{printable(text)}' is not an age; write number and unit, such as 30d or 12h")
    return float(found[1]) * unit


def format_bytes(size: float, form: str = ".1f") -> str:
    """Return a size as text, in powers of 1000; `form` is the number format.

    >>> format_bytes(0), format_bytes(999), format_bytes(1_234_567), format_bytes(20e9)
    ('0 B', '999 B', '1.2 MB', '20.0 GB')
    >>> format_bytes(1_279_545_572, ".3g"), format_bytes(40_000, ".3g")
    ('1.28 GB', '40 kB')
    """
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:{form}} {name}"
    return f"{size:.0f} B"


def format_seconds(seconds: float) -> str:
    """Return a duration as text.

    >>> format_seconds(0.25), format_seconds(90), format_seconds(7300), format_seconds(40 * 86400)
    ('0.2 s', '1.5 min', '2.0 h', '40.0 d')
    """
    for unit, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.1f} s"
