# SPDX-License-Identifier: BSD-3-Clause
"""Counts, sizes and ages as people write them: 1 run, 20GB, 500 MB, 30d, 12h."""

from __future__ import annotations

import math
import re

from .errors import InputError
from .formatting import printable

_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_AGES = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365 * 86400.0}
_AMOUNT = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)\s*")


def count_text(count: int, one: str, several: str | None = None) -> str:
    """How many of something, in words: the plural is the word with an s, or `several`.

    >>> count_text(1, "run"), count_text(0, "run"), count_text(1234, "pair"), count_text(2, "entry", "entries")
    ('1 run', '0 runs', '1,234 pairs', '2 entries')
    """
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def size_bytes(text: str) -> int:
    """A size in bytes: a number with B, kB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (of 1024).

    >>> size_bytes("20GB"), size_bytes("1.5 MiB"), size_bytes("0b")
    (20000000000, 1572864, 0)
    >>> size_bytes("20")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: '20' is not a size; write a number and a unit, as 20GB, 500MB or 1.5GiB
    """
    found = _AMOUNT.fullmatch(text)
    unit = None if found is None else _SIZES.get(found[2].lower())
    if found is None or unit is None:
        raise InputError(
            f"'{printable(text)}' is not a size; write a number and a unit, as 20GB, 500MB or 1.5GiB"
        )
    return math.floor(float(found[1]) * unit)


def age_s(text: str) -> float:
    """An age in seconds: a number with s, min, h, d, w or y.

    >>> age_s("12h"), age_s("30d")
    (43200.0, 2592000.0)
    >>> age_s("soon")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: 'soon' is not an age; write a number and a unit, as 30d, 12h or 2w
    """
    found = _AMOUNT.fullmatch(text)
    unit = None if found is None else _AGES.get(found[2].lower())
    if found is None or unit is None:
        raise InputError(f"'{printable(text)}' is not an age; write a number and a unit, as 30d, 12h or 2w")
    return float(found[1]) * unit


def format_bytes(size: float, form: str = ".1f") -> str:
    """A size for people, in powers of 1000; `form` says with how many digits.

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
    """A duration for people.

    >>> format_seconds(0.25), format_seconds(90), format_seconds(7300), format_seconds(40 * 86400)
    ('0.2 s', '1.5 min', '2.0 h', '40.0 d')
    """
    for unit, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.1f} s"
