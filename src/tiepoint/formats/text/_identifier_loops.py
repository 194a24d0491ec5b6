# SPDX-License-Identifier: BSD-3-Clause
"""Numba functions that parse and write rows of identifiers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.numba_cache import cached_njit

WORD, NUMBER, IMAGE, PATCH, LABEL = 0, 1, 2, 3, 4
OK, EMPTY_LINE, TOO_FEW, TOO_MANY, BAD_FIELD, TABLE_FULL = 0, 1, 2, 3, 4, 5

_COMMA, _LF, _DOT = 44, 10, 46


@cached_njit(nogil=True)
def _blank(c: int) -> bool:
    return c == 32 or c == 9 or c == 13


@cached_njit(nogil=True)
def _find_name(buf: Any, lo: int, hi: int, slots: Any, starts: Any, ends: Any, n_names: int) -> int:
    """Return the index of the name buf[lo:hi] in the hash table; add a new name. -1 if the table is full."""
    h = np.uint64(14695981039346656037)
    for i in range(lo, hi):
        h = (h ^ np.uint64(buf[i])) * np.uint64(1099511628211)
    mask = np.uint64(slots.size - 1)
    slot = (h ^ (h >> np.uint64(32))) & mask
    while True:
        code = slots[slot]
        if code < 0:
            if n_names == starts.size:
                return -1
            slots[slot] = n_names
            starts[n_names] = lo
            ends[n_names] = hi
            return n_names
        if ends[code] - starts[code] == hi - lo:
            same = True
            for i in range(hi - lo):
                if buf[starts[code] + i] != buf[lo + i]:
                    same = False
                    break
            if same:
                return int(code)
        slot = (slot + np.uint64(1)) & mask


@cached_njit(nogil=True)
def _parse_number(buf: Any, lo: int, hi: int) -> int:
    """Parse an integer of 1 to 18 digits. Return -1 if the text is not one."""
    if hi <= lo or hi - lo > 18:
        return -1
    value = 0
    for i in range(lo, hi):
        c = buf[i]
        if c < 48 or c > 57:
            return -1
        value = value * 10 + (c - 48)
    return value


@cached_njit(nogil=True)
def _dots(buf: Any, lo: int, hi: int) -> int:
    """Return the number of dots in the name buf[lo:hi]. -1 if it contains blanks or an empty part."""
    if hi <= lo or buf[lo] == _DOT or buf[hi - 1] == _DOT:
        return -1
    dots = 0
    for i in range(lo, hi):
        if _blank(buf[i]):
            return -1
        if buf[i] == _DOT:
            if buf[i - 1] == _DOT:
                return -1
            dots += 1
    return dots


@cached_njit(nogil=True)
def scan(
    buf: Any, pattern: Any, repeat: bool, names: Any, numbers: Any, offsets: Any, slots: Any, starts: Any,
    ends: Any,
) -> tuple[int, int, int, int, int, int]:  # fmt: skip
    """Parse rows of fields that follow `pattern`.

    Each field has one entry in `names` and `numbers`. Row r has the fields offsets[r]:offsets[r+1]. `repeat`
    allows more fields of the last type. `slots`, `starts` and `ends` are the table of distinct names.

    Return (rows, distinct names, status, column of the problem, its first byte, its end).
    """
    n = buf.size
    n_names = field = row = pos = 0
    while pos < n:
        eol = pos
        while eol < n and buf[eol] != _LF:
            eol += 1
        lo = pos
        while lo < eol and _blank(buf[lo]):
            lo += 1
        if lo == eol:
            rest = eol
            while rest < n and (_blank(buf[rest]) or buf[rest] == _LF):
                rest += 1
            if rest == n:
                break
            return row, n_names, EMPTY_LINE, 0, pos, eol
        col = 0
        start = pos
        while start <= eol:
            end = start
            while end < eol and buf[end] != _COMMA:
                end += 1
            a, b = start, end
            while a < b and _blank(buf[a]):
                a += 1
            while b > a and _blank(buf[b - 1]):
                b -= 1
            if col >= pattern.size and not repeat:
                return row, n_names, TOO_MANY, col, a, b
            kind = pattern[min(col, pattern.size - 1)]
            name_end = b
            number = 0
            if kind in (NUMBER, LABEL):
                name_end = a
                number = _parse_number(buf, a, b)
                if number < 0 or (kind == LABEL and number > 1):
                    return row, n_names, BAD_FIELD, col, a, b
            elif kind == PATCH:
                name_end = b
                while name_end > a and buf[name_end - 1] != _DOT:
                    name_end -= 1
                number = _parse_number(buf, name_end, b)
                name_end -= 1
                if number < 0 or _dots(buf, a, name_end) != 1:
                    return row, n_names, BAD_FIELD, col, a, b
            elif kind == IMAGE:
                if _dots(buf, a, b) != 1:
                    return row, n_names, BAD_FIELD, col, a, b
            elif _dots(buf, a, b) != 0:
                return row, n_names, BAD_FIELD, col, a, b
            code = 0
            if name_end > a:
                code = _find_name(buf, a, name_end, slots, starts, ends, n_names)
                if code < 0:
                    return row, n_names, TABLE_FULL, col, a, b
                if code == n_names:
                    n_names += 1
            names[field] = code
            numbers[field] = number
            field += 1
            col += 1
            start = end + 1
        if col < pattern.size:
            return row, n_names, TOO_FEW, col, pos, eol
        row += 1
        offsets[row] = field
        pos = eol + 1
    return row, n_names, OK, 0, 0, 0


@cached_njit(nogil=True)
def write_rows(columns: Any, is_name: Any, text: Any, starts: Any, out: Any, first: int, last: int) -> int:
    """Write rows first..last of `columns` (c, n) into `out` as text. Return the number of bytes written.

    In columns with `is_name`, a value is the number of a name, text[starts[value]:starts[value+1]]. `out`
    must have enough space.
    """
    pos = 0
    n_columns = columns.shape[0]
    digits = np.empty(20, np.uint8)
    for row in range(first, last):
        for c in range(n_columns):
            value = columns[c, row]
            if is_name[c]:
                for i in range(starts[value], starts[value + 1]):
                    out[pos] = text[i]
                    pos += 1
            else:
                k = 0
                while True:
                    digits[k] = 48 + value % 10
                    value //= 10
                    k += 1
                    if value == 0:
                        break
                while k > 0:
                    k -= 1
                    out[pos] = digits[k]
                    pos += 1
            out[pos] = 44 if c + 1 < n_columns else 10
            pos += 1
    return pos
