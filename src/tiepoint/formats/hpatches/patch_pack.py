# SPDX-License-Identifier: BSD-3-Clause
"""Pack files: the pixels of all patch images of a dataset in one memory-mapped file.

A pack consists of a start mark, the pixels of each strip, a JSON table and a footer of 64 bytes. Pixels start
at multiples of 65,536 bytes. The table has a hash and a fast checksum for every strip. The footer has offset
and length of the table (two little-endian 8-byte integers), the SHA-256 of the table, and an end mark. If the
end mark is missing, the file is truncated.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ...core.hashing import checksum
from ..file_io import reading, write_bytes

SUFFIX = ".tiepack"
FIRST, LAST = b"tiepoint pack 1\n", b"pack tiepoint 1\n"
_END = struct.Struct("<QQ32s16s")
_ALIGNED = 1 << 16
"""Alignment of the strips in bytes. Every operating system can map memory at multiples of it."""


@dataclass(frozen=True)
class PackedStrip:
    """Entry of a strip in a pack: the offset of its pixels, and properties of its source file."""

    sequence: str
    image: str
    count: int
    content: str
    """SHA-256 of the PNG file. It is part of cache keys, so packing a dataset does not change them."""
    size: int
    ctime_ns: int
    """Time of the PNG file's last status change in ns; 0 if the file changed just before it was packed."""
    pixels: str
    """SHA-256 of the pixels."""
    offset: int = 0

    @property
    def key(self) -> str:
        """Text ``SEQ/IM`` that identifies the strip."""
        return f"{self.sequence}/{self.image}"


@dataclass(frozen=True)
class PatchPack:
    """An open pack file. The table is in memory; pixels are memory-mapped on demand."""

    path: Path
    side: int
    strips: Mapping[str, PackedStrip]
    sums: Mapping[str, str]
    """Checksum of the pixels of each strip, by key."""
    _verified: set[str] = field(default_factory=set, repr=False, compare=False)

    def read(self, key: str) -> NDArray[np.uint8]:
        """Memory-map the patches of a strip, uint8 (count, side, side).

        The array is private: writing to it does not change the file or other arrays.

        Raises:
            FormatError: The pixels do not match their checksum (verified on first access).
        """
        pixels = self._pixels(key)
        if key not in self._verified:
            if checksum(pixels) != self.sums[key]:
                raise FormatError(
                    self.path, f"the pixels of {key} do not match their checksum; pack the dataset again"
                )
            self._verified.add(key)
        return pixels

    def _pixels(self, key: str) -> NDArray[np.uint8]:
        strip = self.strips[key]
        size = strip.count * self.side**2
        with reading(self.path), open(self.path, "rb") as f:
            content = mmap.mmap(f.fileno(), size, access=mmap.ACCESS_COPY, offset=strip.offset)
        pixels = np.frombuffer(content, np.uint8)
        pixels[:: mmap.PAGESIZE].max(initial=0)  # load the pages now: the caller may be reading ahead
        return pixels.reshape(strip.count, self.side, self.side)

    def verify(self) -> Iterator[tuple[str, str | None]]:
        """Yield (key, problem) for each strip. The problem is None if the pixels match their SHA-256."""
        for key, strip in self.strips.items():
            corrupt = hashlib.sha256(self._pixels(key).data).hexdigest() != strip.pixels
            yield key, "the pixels do not match their hash; pack the dataset again" if corrupt else None


def write_pack(path: Path, side: int, strips: Iterable[tuple[PackedStrip, NDArray[np.uint8]]]) -> None:
    """Write a pack file atomically. The `offset` of the given strips is computed here."""

    def chunks() -> Iterator[bytes | memoryview]:
        table: list[PackedStrip] = []
        sums: dict[str, str] = {}
        yield FIRST
        at = len(FIRST)
        for strip, patches in strips:
            pixels = np.ascontiguousarray(patches).reshape(-1)
            gap = -at % _ALIGNED
            yield bytes(gap)
            yield pixels.data
            table.append(replace(strip, offset=at + gap))
            sums[strip.key] = checksum(pixels)
            at += gap + pixels.size
        rows = json.dumps({"side": side, "strips": [astuple(s) for s in table], "sums": sums}).encode()
        yield rows
        yield _END.pack(at, len(rows), hashlib.sha256(rows).digest(), LAST)

    write_bytes(path, chunks())


def open_pack(path: str | Path) -> PatchPack:
    """Open a pack file and read its table.

    Raises:
        FormatError: The file is missing, not a pack, truncated or corrupt.
    """
    path = Path(path)
    with reading(path), open(path, "rb") as f:
        if f.read(len(FIRST)) != FIRST:
            raise FormatError(path, "is not a pack of patches; create one with `data pack`")
        size = f.seek(0, 2)
        f.seek(max(0, size - _END.size))
        end = f.read()
        if len(end) < _END.size or not end.endswith(LAST):
            raise FormatError(path, "is a truncated pack; remove it and pack the dataset again")
        at, length, digest, _ = _END.unpack(end)
        f.seek(min(at, size))
        rows = f.read(min(length, size))
        if at + length + _END.size != size or hashlib.sha256(rows).digest() != digest:
            raise _corrupt(path)
    return _table(path, rows, at)


def _table(path: Path, rows: bytes, end: int) -> PatchPack:
    try:
        table: Any = json.loads(rows)
        side = int(table["side"])
        strips = [PackedStrip(*row) for row in table["strips"]]
        sums = dict(table["sums"])
        keys = {s.key for s in strips}
        valid = keys == sums.keys() and all(f"{s.sequence}/ref" in keys for s in strips)
        valid = valid and all(type(n) is int for s in strips for n in (s.offset, s.count))
        valid = valid and all(0 <= s.offset <= end - s.count * side**2 and s.count > 0 for s in strips)
    except (ValueError, ArithmeticError, RecursionError, KeyError, TypeError, AttributeError) as e:
        raise _corrupt(path) from e
    if side < 1 or not strips or not valid:
        raise _corrupt(path)
    return PatchPack(path, side, {s.key: s for s in strips}, sums)


def _corrupt(path: Path) -> FormatError:
    return FormatError(path, "is a pack with a corrupt table; remove it and pack the dataset again")
