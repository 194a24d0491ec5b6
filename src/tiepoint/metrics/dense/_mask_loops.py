# SPDX-License-Identifier: BSD-3-Clause
"""Counting pixels of masks in one pass. Loops only; `masks.py` has the definitions."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ...model.compiled import cached_njit

Bytes = NDArray[Any]


@cached_njit(nogil=True)
def count_bits(a: Bytes, b: Bytes) -> tuple[int, int, int]:
    """Bytes of two lines with a common bit, with any bit, and with a differing bit."""
    both = either = differing = 0
    for i in range(a.size):
        both += 1 if a[i] & b[i] else 0
        either += 1 if a[i] | b[i] else 0
        differing += 1 if a[i] ^ b[i] else 0
    return both, either, differing


@cached_njit(nogil=True)
def count_pixels(a: Bytes, b: Bytes) -> tuple[int, int, int]:
    """The same for foreground, which is any value but zero."""
    both = either = differing = 0
    for i in range(a.size):
        one, two = a[i] != 0, b[i] != 0
        both += 1 if one & two else 0
        either += 1 if one | two else 0
        differing += 1 if one != two else 0
    return both, either, differing


@cached_njit(nogil=True)
def count_between(a: Bytes) -> int:
    """Bytes that are neither 0 nor 255."""
    found = 0
    for i in range(a.size):
        found += 1 if (a[i] != 0) & (a[i] != 255) else 0
    return found
