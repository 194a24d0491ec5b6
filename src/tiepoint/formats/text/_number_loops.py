# SPDX-License-Identifier: BSD-3-Clause
"""Numba functions that parse rectangular tables of decimal numbers for `numbers.parse_table`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.numba_cache import cached_njit

OK, EMPTY_LINE, WRONG_COUNT, BAD_NUMBER, HARD_FULL = 0, 1, 2, 3, 4
_LF, _MINUS, _PLUS, _POINT = 10, 45, 43, 46

_POW10 = 10.0 ** np.arange(23)
"""Powers of ten that float64 represents exactly."""


@cached_njit(nogil=True)
def _blank(c: int) -> bool:
    return c == 32 or c == 9 or c == 13


@cached_njit(nogil=True)
def _special(buf: Any, lo: int, hi: int) -> float:
    """Parse buf[lo:hi] as NaN or infinity, in upper or lower case. Return 0 for other text."""
    n = hi - lo
    if n != 3 and n != 8:
        return 0.0
    a, b, c = buf[lo] | 32, buf[lo + 1] | 32, buf[lo + 2] | 32
    if n == 3 and a == 110 and b == 97 and c == 110:
        return np.nan
    if a == 105 and b == 110 and c == 102:
        if n == 8:
            rest = (105, 110, 105, 116, 121)
            for i in range(5):
                if (buf[lo + 3 + i] | 32) != rest[i]:
                    return 0.0
        return np.inf
    return 0.0


@cached_njit(nogil=True)
def _field_end(buf: Any, at: int, delimiter: int) -> int:
    """Return the end of the field that starts at `at`: the next separator, blank or line feed."""
    while buf[at] != _LF and buf[at] != delimiter and not _blank(buf[at]):
        at += 1
    return at


@cached_njit(nogil=True)
def _scale(value: float, exponent: int) -> float:
    """Return value times 10**exponent (-80 to 44), accurate to a few units in the last place."""
    while exponent > 0:
        step = min(exponent, 22)
        value *= _POW10[step]
        exponent -= step
    while exponent < 0:
        step = min(-exponent, 22)
        value /= _POW10[step]
        exponent += step
    return value


@cached_njit(nogil=True)
def _skip_blanks(buf: Any, at: int, delimiter: int) -> int:
    while _blank(buf[at]) and buf[at] != delimiter:
        at += 1
    return at


@cached_njit(nogil=True)
def _exponent(buf: Any, at: int) -> tuple[int, int, int]:
    """Parse a decimal exponent, limited to 100000. Return its value, and the start and end of its digits."""
    sign = -1 if buf[at] == _MINUS else 1
    if buf[at] == _MINUS or buf[at] == _PLUS:
        at += 1
    begin = at
    power: Any = 0
    while 48 <= buf[at] <= 57:
        power = min(power * 10 + (np.int64(buf[at]) - 48), 100000)
        at += 1
    return sign * power, begin, at


@cached_njit(nogil=True)
def _first_digits(buf: Any, lo: int, hi: int) -> tuple[Any, int]:
    """Return the first 19 significant digits of buf[lo:hi] as an integer, and the number of further digits.

    The further digits are worth less than one unit in the last place.
    """
    mantissa = np.uint64(0)
    taken = dropped = 0
    for i in range(lo, hi):
        if buf[i] == _POINT:
            continue
        if taken < 19:
            mantissa = mantissa * np.uint64(10) + np.uint64(buf[i] - 48)
            if mantissa != np.uint64(0):
                taken += 1
        else:
            dropped += 1
    return mantissa, dropped


@cached_njit(nogil=True)
def read_rows(
    buf: Any, pos: int, delimiter: int, row: int, last: int, out: Any, exact: bool, hard: Any
) -> tuple[int, int, int, int, int, int, int]:
    """Parse rows `row` to `last`, starting at byte `pos`, into `out` (rows, cols).

    A `delimiter` of 0 means blanks. Every row must end with a line feed. A number with digits up to 2^53 and
    a power of ten up to 22 is parsed exactly, with one rounding. Unless `exact`, other numbers may be off by
    a few units in the last place, provided that they still round to the same float32. All remaining numbers
    are listed in `hard` as (row, column, first byte, end), and the caller must parse them. Return (row, pos,
    number of entries in `hard`, status, column, first byte, end).
    """
    cols = out.shape[1]
    scratch = np.empty(1, np.float64)
    bits = scratch.view(np.int64)
    n_hard = 0
    while row < last:
        if hard.shape[0] - n_hard < cols:
            return row, pos, n_hard, HARD_FULL, 0, 0, 0
        at, col = pos, 0
        while True:
            at = _skip_blanks(buf, at, delimiter)
            c = np.int64(buf[at])
            if c == _LF and (delimiter == 0 or col == 0):
                if col == 0:
                    return row, pos, n_hard, EMPTY_LINE, 0, at, at
                break
            lo = at
            negative = c == _MINUS
            if negative or c == _PLUS:
                at += 1
            first = at
            mantissa = np.uint64(0)
            d = np.int64(buf[at]) - 48
            while 0 <= d <= 9:
                mantissa = mantissa * np.uint64(10) + np.uint64(d)
                at += 1
                d = np.int64(buf[at]) - 48
            digits = at - first
            exponent = 0
            if d == _POINT - 48:
                point = at = at + 1
                d = np.int64(buf[at]) - 48
                while 0 <= d <= 9:
                    mantissa = mantissa * np.uint64(10) + np.uint64(d)
                    at += 1
                    d = np.int64(buf[at]) - 48
                exponent = point - at
                digits -= exponent
            after_digits = at
            if digits > 0 and (buf[at] | 32) == 101:
                power, begin, at = _exponent(buf, at + 1)
                exponent += power
                if begin == at:
                    digits = 0
            hi = at
            at = _skip_blanks(buf, at, delimiter)
            over = buf[at] == _LF
            value = 0.0
            easy: Any = True
            if digits == 0 or not (over or buf[at] == delimiter or (delimiter == 0 and at > hi)):
                hi = _field_end(buf, lo, delimiter)
                at = _skip_blanks(buf, hi, delimiter)
                over = buf[at] == _LF
                value = _special(buf, first, hi)
                if value == 0.0 or not (over or delimiter == 0 or buf[at] == delimiter):
                    while buf[at] != _LF and buf[at] != delimiter:
                        at += 1
                    return row, pos, n_hard, BAD_NUMBER, col, lo, at
            elif digits > 19:
                easy = False
                if not exact:
                    mantissa, dropped = _first_digits(buf, first, after_digits)
                    exponent += dropped
            if easy and mantissa != np.uint64(0) and value == 0.0:
                value = np.float64(mantissa)
                if exponent != 0 or mantissa > np.uint64(9007199254740992):
                    easy = mantissa <= np.uint64(9007199254740992) and -22 <= exponent <= 22
                    if easy:
                        value = value * _POW10[exponent] if exponent > 0 else value / _POW10[-exponent]
            if not easy and not exact and -80 <= exponent <= 44:
                value = _scale(np.float64(mantissa), exponent)
                scratch[0] = value
                middle = (bits[0] & 0x1FFFFFFF) - 0x10000000
                easy = (middle > 16 or middle < -16) and 1.2e-38 < value < 3.4e38
            if col == cols:
                return row, pos, n_hard, WRONG_COUNT, col + 1, lo, hi
            if easy:
                out[row, col] = -value if negative else value
            else:
                hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2], hard[n_hard, 3] = row, col, lo, hi
                n_hard += 1
            col += 1
            if over:
                break
            if delimiter != 0:
                at += 1
        if col != cols:
            return row, pos, n_hard, WRONG_COUNT, col, pos, at
        row, pos = row + 1, at + 1
    return row, pos, n_hard, OK, 0, 0, 0


@cached_njit(nogil=True)
def count_rows(buf: Any) -> tuple[int, int, int]:
    """Return the number of lines up to the last non-blank line, and where that line ends and starts."""
    end = buf.size
    while end > 0 and (_blank(buf[end - 1]) or buf[end - 1] == _LF):
        end -= 1
    start = end
    while start > 0 and buf[start - 1] != _LF:
        start -= 1
    lines = 1 if end > 0 else 0
    for i in range(start):
        lines += buf[i] == _LF
    return lines, end, start
