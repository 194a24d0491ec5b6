# SPDX-License-Identifier: BSD-3-Clause
"""Fast checksums against damage by disks and memory, not against people: for those there are hashes.

A block is taken as rows of 512 words of 64 bits. Its checksum is a short hash of the sums of its rows and of
its columns, so that no flipped bit, zeroed sector or misplaced page goes unseen, at more than memory speed.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import numpy as np

BLOCK = 1 << 20
"""Bytes that share a checksum."""
_ROW = 4096
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
    flat = np.frombuffer(data, np.uint8)
    return [_block_sum(flat[at : at + BLOCK]) for at in range(0, len(flat), BLOCK)]


def sum_of(data: Any) -> str:
    """One checksum of a whole buffer.

    >>> sum_of(b""), sum_of(b"abc") == sum_of(b"abd")
    ('e4a6a0577479b2b4', False)
    """
    return blake2b("".join(block_sums(data)).encode(), digest_size=8).hexdigest()


def _block_sum(block: np.ndarray[Any, Any]) -> str:
    whole = len(block) // _ROW * _ROW
    digest = blake2b(len(block).to_bytes(8, "little"), digest_size=8)
    digest.update(block[whole:].data)
    if whole:
        words = block[:whole].view("<u8").reshape(-1, _ROW // 8)
        digest.update(np.add.reduce(words, axis=1).data)
        digest.update(np.add.reduce(words, axis=0).data)
    return digest.hexdigest()


def sealed(plain: dict[str, Any], indent: int | None = None) -> str:
    """JSON of plain values whose last member is a checksum of all text before it.

    >>> sealed({"a": 1})
    '{"a": 1, "seal": "988a6fd20ef48257"}'
    """
    text = json.dumps({**plain, "seal": ""}, indent=indent, default=str)
    text = text[: text.rindex(_SEAL)]
    return f'{text}{_SEAL}{_seal(text.encode())}"}}'


def unsealed(data: bytes) -> tuple[dict[str, Any], bool]:
    """The plain values of sealed JSON, and whether it was sealed: what older versions wrote is not.

    Raises:
        ValueError: no JSON object, or one whose seal does not fit.

    >>> unsealed(sealed({"a": 1}).encode()), unsealed(b'{"a": 1}')
    (({'a': 1}, True), ({'a': 1}, False))
    >>> unsealed(sealed({"a": 1}).replace("1", "3", 1).encode())
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
