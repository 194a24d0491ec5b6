# SPDX-License-Identifier: BSD-3-Clause
"""Numba functions of the PNG reader: concatenate data chunks and undo row filters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.numba_cache import cached_njit

Bytes = NDArray[Any]
_POLYNOMIAL = 0xEDB88320


def _crc_tables() -> NDArray[np.uint32]:
    """Return lookup tables (8, 256) that compute zlib's CRC-32 eight bytes at a time."""
    tables = np.zeros((8, 256), np.uint32)
    tables[0] = np.arange(256)
    for _ in range(8):
        tables[0] = (tables[0] >> 1) ^ np.where(tables[0] & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    for k in range(1, 8):
        tables[k] = (tables[k - 1] >> 8) ^ tables[0][tables[k - 1] & 255]
    return tables


_TABLES = _crc_tables()


@cached_njit(nogil=True)
def _number(data: Bytes, at: int) -> Any:
    high = np.int64(data[at]) << 24 | np.int64(data[at + 1]) << 16
    return high | np.int64(data[at + 2]) << 8 | np.int64(data[at + 3])


@cached_njit(nogil=True)
def _checksum(data: Bytes, begin: int, end: int, tables: Bytes) -> Any:
    crc = np.uint32(0xFFFFFFFF)
    i = begin
    while i + 8 <= end:
        low = np.uint32(data[i]) | np.uint32(data[i + 1]) << np.uint32(8)
        low |= np.uint32(data[i + 2]) << np.uint32(16) | np.uint32(data[i + 3]) << np.uint32(24)
        low ^= crc
        crc = tables[7, low & 255] ^ tables[6, (low >> 8) & 255] ^ tables[5, (low >> 16) & 255]
        crc ^= tables[4, low >> 24] ^ tables[3, data[i + 4]] ^ tables[2, data[i + 5]]
        crc ^= tables[1, data[i + 6]] ^ tables[0, data[i + 7]]
        i += 8
    while i < end:
        crc = (crc >> np.uint32(8)) ^ tables[0, (crc ^ data[i]) & 255]
        i += 1
    return np.int64(crc ^ np.uint32(0xFFFFFFFF))


@cached_njit(nogil=True)
def _gather(data: Bytes, out: Bytes, tables: Bytes) -> int:
    at, size = 8, 0
    while at + 12 <= data.size:
        length = _number(data, at)
        end = at + 12 + length
        if end > data.size or _checksum(data, at + 4, end - 4, tables) != _number(data, end - 4):
            return -1
        kind = _number(data, at + 4)
        if kind == 0x49444154:  # IDAT
            for i in range(length):  # assigning a slice takes five times as long to compile
                out[size + i] = data[at + 8 + i]
            size += length
        elif kind == 0x49454E44:  # IEND
            return size
        at = end
    return -1


def gather_data(data: bytes, out: NDArray[np.uint8]) -> int:
    """Copy the content of all IDAT chunks of a PNG file to `out`. Return its total length.

    Return -1 if a chunk is truncated or its checksum is wrong. One call processes all chunks, because
    acquiring the interpreter lock for each chunk would cost several threads more time than the checksums.

    >>> import zlib
    >>> body = b"IDATxyz"
    >>> chunk = (3).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    >>> end = bytes(4) + b"IEND" + zlib.crc32(b"IEND").to_bytes(4, "big")
    >>> out = np.empty(99, np.uint8)
    >>> gather_data(b"12345678" + chunk + end, out), out[:3].tobytes(), gather_data(chunk, out)
    (3, b'xyz', -1)
    """
    return int(_gather(np.frombuffer(data, np.uint8), out, _TABLES))


@cached_njit(nogil=True)
def _paeth(left: int, above: int, corner: int) -> int:
    # The value nearest to left + above - corner, without absolute values: `low` if the sum is below both,
    # `high` if it is above both, else the corner.
    bound = 3 * corner - (left + above)
    low, high = min(left, above), max(left, above)
    nearest = low if high <= bound else corner
    return high if bound <= low else nearest


@cached_njit(nogil=True)
def _add_left(given: Bytes, own: Bytes, step: int) -> None:
    if step == 1:  # keep the sum in a register
        total = np.uint8(0)
        for i in range(own.size):
            total = np.uint8(total + given[i])
            own[i] = total
        return
    for i in range(min(step, own.size)):
        own[i] = given[i]
    for i in range(step, own.size):
        own[i] = np.uint8(given[i] + own[i - step])


@cached_njit(nogil=True)
def _add_above(given: Bytes, above: Bytes, own: Bytes) -> None:
    for i in range(own.size):
        own[i] = np.uint8(given[i] + above[i])


@cached_njit(nogil=True)
def _add_mean(given: Bytes, above: Bytes, own: Bytes, step: int) -> None:
    for i in range(own.size):
        left = np.int32(own[i - step]) if i >= step else np.int32(0)
        own[i] = (given[i] + (left + np.int32(above[i])) // 2) & 255


@cached_njit(nogil=True)
def _add_paeth(given: Bytes, above: Bytes, own: Bytes, step: int) -> None:
    for i in range(min(step, own.size)):
        own[i] = np.uint8(given[i] + above[i])
    for k in range(min(step, own.size)):
        left, corner = np.int32(own[k]), np.int32(above[k])
        for i in range(k + step, own.size, step):
            over = np.int32(above[i])
            left = np.int32((np.int32(given[i]) + _paeth(left, over, corner)) & 255)
            own[i] = left
            corner = over


@cached_njit(nogil=True)
def _add_paeth_twice(given: Bytes, below: Bytes, above: Bytes, own: Bytes, next_own: Bytes) -> None:
    """Undo the Paeth filter of two rows of 1-byte pixels in one loop.

    The second row is processed one byte behind the first, so the CPU can work on both rows in parallel.
    """
    left, corner, lower, lower_corner = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    for i in range(own.size):
        over, value = np.int32(above[i]), left
        left = np.int32((np.int32(given[i]) + _paeth(left, over, corner)) & 255)
        own[i], corner = left, over
        if i:
            lower = np.int32((np.int32(below[i - 1]) + _paeth(lower, value, lower_corner)) & 255)
            next_own[i - 1], lower_corner = lower, value
    next_own[-1] = np.int32((np.int32(below[-1]) + _paeth(lower, left, lower_corner)) & 255)


@cached_njit(nogil=True)
def _undo(rows: Bytes, out: Bytes, step: int) -> None:
    zeros = np.zeros(out.shape[1], np.uint8)
    y = 0
    while y < rows.shape[0]:
        kind, given, own = rows[y, 0], rows[y][1:], out[y]
        above = out[y - 1] if y else zeros
        if kind == 0:
            for i in range(own.size):
                own[i] = given[i]
        elif kind == 1:
            _add_left(given, own, step)
        elif kind == 2:
            _add_above(given, above, own)
        elif kind == 3:
            _add_mean(given, above, own, step)
        elif step == 1 and y + 1 < rows.shape[0] and rows[y + 1, 0] == 4:
            _add_paeth_twice(given, rows[y + 1][1:], above, own, out[y + 1])
            y += 1
        else:
            _add_paeth(given, above, own, step)
        y += 1


def undo_filters(rows: Bytes, out: Bytes, pixel_bytes: int) -> None:
    """Undo the PNG filters of rows (h, 1 + n) and write the bytes to `out` (h, n).

    The first byte of each row is its filter type, 0 to 4.

    >>> out = np.empty((1, 3), np.uint8)
    >>> undo_filters(np.array([[1, 1, 0, 4]], np.uint8), out, 1)
    >>> out.tolist()
    [[1, 1, 5]]
    """
    _undo(rows, out, pixel_bytes)
