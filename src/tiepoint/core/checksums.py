# SPDX-License-Identifier: BSD-3-Clause
"""Fast checksums against damage by disks and memory, not against people: for those there are hashes.

Data are held against XXH3-64 of every block, which reads faster than memory delivers; short JSON texts end
with a BLAKE2 hash of themselves.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import numpy as np
import xxhash

BLOCK = 1 << 20
"""Bytes that share a checksum."""
_SEAL = '"seal": "'
_END = len(_SEAL) + 16 + len('"}')


def block_sums(data: Any) -> list[str]:
    """Checksums of the blocks of a buffer, the last of which may be short; 16 hexadecimal digits each.

    >>> whole = bytes(range(256)) * 5000
    >>> len(block_sums(whole)), block_sums(whole) == block_sums(bytearray(whole))
    (2, True)
    >>> block_sums(whole)[0] == block_sums(whole.replace(b"a", b"b", 1))[0]
    False
    """
    flat = np.frombuffer(data, np.uint8).data
    return [xxhash.xxh3_64_hexdigest(flat[at : at + BLOCK]) for at in range(0, len(flat), BLOCK)]


def checksum(data: Any) -> str:
    """One checksum of a whole buffer.

    >>> checksum(b""), checksum(b"abc") == checksum(b"abd")
    ('2d06800538d394c2', False)
    """
    return xxhash.xxh3_64_hexdigest(np.frombuffer(data, np.uint8).data)


def add_checksum(plain: dict[str, Any], indent: int | None = None) -> str:
    """JSON of plain values whose last member is a checksum of all text before it.

    >>> add_checksum({"a": 1})
    '{"a": 1, "seal": "988a6fd20ef48257"}'
    """
    text = json.dumps({**plain, "seal": ""}, indent=indent, default=str)
    text = text[: text.rindex(_SEAL)]
    return f'{text}{_SEAL}{_seal(text.encode())}"}}'


def verify_checksum(data: bytes) -> tuple[dict[str, Any], bool]:
    """The plain values of sealed JSON, and whether it was sealed: what older versions wrote is not.

    Raises:
        ValueError: no JSON object, or one whose seal does not fit.

    >>> verify_checksum(add_checksum({"a": 1}).encode()), verify_checksum(b'{"a": 1}')
    (({'a': 1}, True), ({'a': 1}, False))
    >>> verify_checksum(add_checksum({"a": 1}).replace("1", "3", 1).encode())
    Traceback (most recent call last):
    ValueError: its content does not have its checksum
    """
    body, end = data[:-_END], data[-_END:]
    if end.startswith(_SEAL.encode()) and end != f'{_SEAL}{_seal(body)}"}}'.encode():
        raise ValueError("its content does not have its checksum")
    try:
        plain = json.loads(data)
    except RecursionError as e:
        raise ValueError("it is nested too deeply") from e
    if not isinstance(plain, dict):
        raise ValueError("it holds no JSON object")
    found = plain.pop("seal", None)
    if found is not None and not end.startswith(_SEAL.encode()):
        raise ValueError("its checksum is not where it belongs")
    return plain, found is not None


def _seal(body: bytes) -> str:
    return blake2b(body, digest_size=8).hexdigest()
