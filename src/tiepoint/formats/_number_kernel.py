# SPDX-License-Identifier: BSD-3-Clause
"""Compiled reader of rectangular tables of decimal numbers (used by `number_table`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

OK, EMPTY_LINE, WRONG_COUNT, BAD_NUMBER, HARD_FULL = 0, 1, 2, 3, 4
_LF, _MINUS, _PLUS, _POINT = 10, 45, 43, 46

_POW10 = 10.0 ** np.arange(23)
"""Powers of ten that a float64 holds exactly."""


@njit(cache=True, nogil=True)
def _blank(c: int) -> bool:
    return c == 32 or c == 9 or c == 13


@njit(cache=True, nogil=True)
def _special(buf: Any, lo: int, hi: int) -> float:
    """Nan or infinity (in any case of letters), 0 if the text is neither."""
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


@njit(cache=True, nogil=True)
def _decimal(buf: Any, lo: int, hi: int) -> Any:
    """(digits as an integer of at most 19 places, power of ten, 1 well-formed / 0 not) without the sign."""
    mantissa = np.uint64(0)
    exponent = 0
    kept = 0
    seen = False
    i = lo
    while i < hi and 48 <= buf[i] <= 57:
        seen = True
        if kept < 19:
            mantissa = mantissa * np.uint64(10) + np.uint64(buf[i] - 48)
            if mantissa != 0:
                kept += 1
        else:
            exponent += 1
        i += 1
    if i < hi and buf[i] == _POINT:
        i += 1
        while i < hi and 48 <= buf[i] <= 57:
            seen = True
            if kept < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(buf[i] - 48)
                exponent -= 1
                if mantissa != 0:
                    kept += 1
            i += 1
    if not seen:
        return 0, 0, 0
    if i < hi and (buf[i] | 32) == 101:
        i += 1
        sign = 1
        if i < hi and (buf[i] == _MINUS or buf[i] == _PLUS):
            sign = -1 if buf[i] == _MINUS else 1
            i += 1
        power = 0
        if i == hi:
            return 0, 0, 0
        while i < hi and 48 <= buf[i] <= 57:
            power = min(power * 10 + (buf[i] - 48), 100000)
            i += 1
        exponent += sign * power
    return np.int64(mantissa), exponent, 1 if i == hi else 0


@njit(cache=True, nogil=True)
def read_rows(
    buf: Any, pos: int, delimiter: int, row: int, out: Any, exact: bool, hard: Any
) -> tuple[int, int, int, int, int, int, int]:
    """Parse rows into `out` (rows, cols) from byte `pos` and row `row` on; `delimiter` 0 means blanks.

    A number goes through a float64 that is either right (at most 2^53 in its digits and a power of ten up
    to 22: one rounding), or, unless `exact`, within a few units of the last place and far enough from the
    middle of two float32 that both round to the same float32. All others are left in `hard` as (row, column,
    first byte, end) for an exact reader. Returns (row, pos, hard ones, status, column, first byte, end).
    """
    n = buf.size
    rows, cols = out.shape
    scratch = np.empty(1, np.float64)
    bits = scratch.view(np.int64)
    n_hard = 0
    while row < rows:
        if hard.shape[0] - n_hard < cols:
            return row, pos, n_hard, HARD_FULL, 0, 0, 0
        col = 0
        at = pos
        while True:
            while at < n and _blank(buf[at]) and buf[at] != delimiter:
                at += 1
            lo = at
            while at < n and buf[at] != _LF and buf[at] != delimiter and not _blank(buf[at]):
                at += 1
            hi = at
            while at < n and _blank(buf[at]) and buf[at] != delimiter:
                at += 1
            over = at >= n or buf[at] == _LF
            if hi == lo and over and (delimiter == 0 or col == 0):
                if col == 0:
                    return row, pos, n_hard, EMPTY_LINE, 0, lo, hi
                break
            if not over and delimiter != 0 and buf[at] != delimiter:
                while at < n and buf[at] != _LF and buf[at] != delimiter:
                    at += 1
                return row, pos, n_hard, BAD_NUMBER, col, lo, at
            if col == cols:
                return row, pos, n_hard, WRONG_COUNT, col + 1, lo, hi
            a = lo
            negative = False
            if a < hi and (buf[a] == _MINUS or buf[a] == _PLUS):
                negative = buf[a] == _MINUS
                a += 1
            mantissa, exponent, good = _decimal(buf, a, hi)
            value = 0.0
            easy = True
            if good == 0:
                value = _special(buf, a, hi)
                if value == 0.0:
                    return row, pos, n_hard, BAD_NUMBER, col, lo, hi
            elif mantissa != 0:
                value = float(np.uint64(mantissa))
                easy = 0 <= mantissa <= 9007199254740992 and -22 <= exponent <= 22
                if easy:
                    value = value * _POW10[exponent] if exponent >= 0 else value / _POW10[-exponent]
                elif not exact and -80 <= exponent <= 44:
                    left = exponent
                    while left > 0:
                        step = min(left, 22)
                        value *= _POW10[step]
                        left -= step
                    while left < 0:
                        step = min(-left, 22)
                        value /= _POW10[step]
                        left += step
                    scratch[0] = value
                    middle = (bits[0] & 0x1FFFFFFF) - 0x10000000
                    easy = (middle > 16 or middle < -16) and 1.2e-38 < value < 3.4e38
            if easy:
                out[row, col] = -value if negative else value
            else:
                hard[n_hard, 0] = row
                hard[n_hard, 1] = col
                hard[n_hard, 2] = lo
                hard[n_hard, 3] = hi
                n_hard += 1
            col += 1
            if over:
                break
            if delimiter != 0:
                at += 1
        if col != cols:
            return row, pos, n_hard, WRONG_COUNT, col, pos, at
        row += 1
        pos = at + 1
    return row, pos, n_hard, OK, 0, 0, 0


@njit(cache=True, nogil=True)
def count_rows(buf: Any) -> tuple[int, int]:
    """(lines up to the last one that is not blank, its end)."""
    end = buf.size
    while end > 0 and (_blank(buf[end - 1]) or buf[end - 1] == _LF):
        end -= 1
    lines = 1 if end > 0 else 0
    for i in range(end):
        if buf[i] == _LF:
            lines += 1
    return lines, end
