# SPDX-License-Identifier: BSD-3-Clause
"""Packs: the pixels of all strips of a patch dataset in one file that is mapped, with hashes of everything.

A pack is a first mark, the pixels of the strips, each starting at a multiple of 65,536 bytes, a table in
JSON, and 64 bytes: where the table starts and how long it is (two little-endian numbers of 8 bytes), its
SHA-256, and a last mark, which a file that was cut off does not have. The table has a hash and a fast
checksum of the pixels of every strip.
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
"""What every system can map from."""


@dataclass(frozen=True)
class PackedStrip:
    """A strip in a pack: where its pixels are, and the file they come from."""

    sequence: str
    image: str
    count: int
    content: str
    """SHA-256 of the PNG file: features are kept under it, packed or not."""
    size: int
    mtime_ns: int
    pixels: str
    """SHA-256 of its pixels."""
    offset: int = 0

    @property
    def key(self) -> str:
        """``SEQ/IM``."""
        return f"{self.sequence}/{self.image}"


@dataclass(frozen=True)
class PatchPack:
    """An open pack: only its table is read, pixels are mapped when they are asked for."""

    path: Path
    side: int
    strips: Mapping[str, PackedStrip]
    sums: Mapping[str, str]
    """Checksums of the pixels by strip."""
    _whole: set[str] = field(default_factory=set, repr=False, compare=False)

    def read(self, key: str) -> NDArray[np.uint8]:
        """Patches of a strip, uint8 (count, side, side).

        Mapped for the caller alone: what is written to the array reaches neither the file nor other readers.

        Raises:
            FormatError: the first time that a strip is read, where its pixels are not what was packed.
        """
        pixels = self._pixels(key)
        if key not in self._whole:
            if checksum(pixels) != self.sums[key]:
                raise FormatError(
                    self.path, f"the pixels of {key} do not have their checksum; pack the dataset again"
                )
            self._whole.add(key)
        return pixels

    def _pixels(self, key: str) -> NDArray[np.uint8]:
        strip = self.strips[key]
        size = strip.count * self.side**2
        with reading(self.path), open(self.path, "rb") as f:
            content = mmap.mmap(f.fileno(), size, access=mmap.ACCESS_COPY, offset=strip.offset)
        pixels = np.frombuffer(content, np.uint8)
        pixels[:: mmap.PAGESIZE].max(initial=0)  # read now: whoever asked may be reading ahead
        return pixels.reshape(strip.count, self.side, self.side)

    def damaged(self) -> Iterator[tuple[str, str | None]]:
        """By strip, what is wrong with its pixels; None where they have their hash."""
        for key, strip in self.strips.items():
            wrong = hashlib.sha256(self._pixels(key).data).hexdigest() != strip.pixels
            yield key, "the pixels do not have their hash; pack the dataset again" if wrong else None


def write_pack(path: Path, side: int, strips: Iterable[tuple[PackedStrip, NDArray[np.uint8]]]) -> None:
    """Write a pack as a whole or not at all; where the pixels of a strip begin is filled in here."""

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
    """The table of a pack.

    Raises:
        FormatError: A missing file, one that is no pack, was cut off or is damaged.
    """
    place = Path(path)
    with reading(place), open(place, "rb") as f:
        if f.read(len(FIRST)) != FIRST:
            raise FormatError(place, "is not a pack of patches (`data pack` makes one)")
        size = f.seek(0, 2)
        f.seek(max(0, size - _END.size))
        end = f.read()
        if len(end) < _END.size or not end.endswith(LAST):
            raise FormatError(place, "is a pack that was cut off; remove it and pack the dataset again")
        at, length, digest, _ = _END.unpack(end)
        f.seek(min(at, size))
        rows = f.read(min(length, size))
        if at + length + _END.size != size or hashlib.sha256(rows).digest() != digest:
            raise _damaged(place)
    return _table(place, rows, at)


def _table(path: Path, rows: bytes, end: int) -> PatchPack:
    try:
        table: Any = json.loads(rows)
        side = int(table["side"])
        strips = [PackedStrip(*row) for row in table["strips"]]
        sums = dict(table["sums"])
        keys = {s.key for s in strips}
        inside = keys == sums.keys() and all(f"{s.sequence}/ref" in keys for s in strips)
        inside = inside and all(type(n) is int for s in strips for n in (s.offset, s.count))
        inside = inside and all(0 <= s.offset <= end - s.count * side**2 and s.count > 0 for s in strips)
    except (ValueError, ArithmeticError, RecursionError, KeyError, TypeError, AttributeError) as e:
        raise _damaged(path) from e
    if side < 1 or not strips or not inside:
        raise _damaged(path)
    return PatchPack(path, side, {s.key: s for s in strips}, sums)


def _damaged(path: Path) -> FormatError:
    return FormatError(
        path, "is a damaged pack: its table does not hold; remove it and pack the dataset again"
    )
