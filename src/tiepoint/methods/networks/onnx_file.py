# SPDX-License-Identifier: BSD-3-Clause
"""Files that an ONNX model keeps its weights in, found without a library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...core.hashing import hash_file
from ...core.regular_files import read_regular_file

MAX_ONNX_BYTES = 2 << 30
"""Bytes of a model; protobuf has no longer messages."""
_LOCATION = b"location"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def weight_hashes(file: Path) -> dict[str, str]:
    """Hashes of an ONNX file and of the files beside it that hold its weights, by their names."""
    names = {
        n: file.parent / n
        for n in sorted(set(external_locations(read_regular_file(file, most=MAX_ONNX_BYTES))))
    }
    there = {name: hash_file(path) for name, path in names.items() if path.is_file()}
    return {file.name: hash_file(file), **there}


def external_locations(model: bytes) -> Iterator[str]:
    r"""Names of the files that tensors of a serialised model are kept in.

    The model is read as protobuf without the onnx package. Every tensor, wherever it stands in the graph or
    its subgraphs, keeps entries (key, value) as strings; the one with the key ``location`` names a file.

    >>> entry = b"\x0a\x08location\x12\x05w.bin"
    >>> list(external_locations(b"\x6a" + bytes([len(entry)]) + entry))
    ['w.bin']
    """
    if _LOCATION not in model:
        return
    view = memoryview(model)
    waiting = [(0, len(model))]
    while waiting:
        fields = list(_fields(view, *waiting.pop()))
        inner = [(number, a, b) for number, a, b in fields if b > a]
        strings = {number: bytes(view[a:b]) for number, a, b in inner if b - a <= 4096}
        if strings.get(1) == _LOCATION and 2 in strings and len(fields) == 2:
            yield strings[2].decode("utf-8", "replace")
        elif inner:
            waiting += [(a, b) for _, a, b in inner if model.find(_LOCATION, a, b) >= 0]


def _fields(view: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Fields of a message that hold bytes: number, begin, end. Nothing where it is not a message."""
    found: list[tuple[int, int, int]] = []
    try:
        while at < end:
            tag, at = _varint(view, at, end)
            number, kind = tag >> 3, tag & 7
            if kind == _VARINT:
                _, at = _varint(view, at, end)
            elif kind == _BYTES:
                length, at = _varint(view, at, end)
                found.append((number, at, at + length))
                at += length
            elif kind in (_FIXED64, _FIXED32):
                at += 8 if kind == _FIXED64 else 4
            else:
                return
            if number == 0 or at > end:
                return
    except ValueError:
        return
    yield from found


def _varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = view[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError("the message ends within a number")
