# SPDX-License-Identifier: BSD-3-Clause
"""Methods with a known score: `constant` and `random` must score chance, `oracle` must score 1."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.hashing import hash_bytes
from ..core.units import Item

PATCH_DIMENSION = 128


class ConstantPatches:
    """The same vector of ones for every patch: all distances are ties, so the score is chance.

    >>> ConstantPatches().describe(np.zeros((2, 65, 65), np.uint8)).shape
    (2, 128)
    """

    name = "constant"
    distance = "l2"

    def describe(self, patches: NDArray[Any]) -> NDArray[np.float32]:
        """Ones, (n, 128); as wide as SIFT so that timings compare."""
        return np.ones((len(patches), PATCH_DIMENSION), np.float32)


class RandomPatches:
    """Gaussian noise. The seed is the name and content of the patch-image, not of the single patch.

    A patch that occurs twice with the same pixels (an easy patch cut without change) would otherwise get
    the same noise twice and be found: chance needs independence between images.
    """

    name = "random"
    distance = "l2"

    def lookup_item(self, item: Item, rows: int) -> NDArray[np.float32]:
        """Noise for `rows` patches of an item, (rows, 128)."""
        seed = int(hash_bytes(f"random:{item.key}:{item.content}".encode())[:32], 16)
        noise = np.random.Generator(np.random.PCG64(seed)).standard_normal((rows, PATCH_DIMENSION))
        return noise.astype(np.float32)


class OraclePatches:
    """Knows which patch it is given: equal for the same patch of a sequence in all its images.

    Half of the 128 coordinates are hashed signs of the sequence, 16 times as large as the other half, the
    hashed signs of (sequence, index). Corresponding patches are at distance 0, other patches of the sequence
    at most at 16, those of other sequences at least at 32: right by patch and right by sequence.
    """

    name = "oracle"
    distance = "l2"

    def lookup_item(self, item: Item, rows: int) -> NDArray[np.float32]:
        """Codes for the `rows` patches of ``SEQ/IM``, (rows, 128)."""
        sequence = item.key.partition("/")[0]
        place = np.broadcast_to(_signs(f"{sequence}"), (rows, PATCH_DIMENSION // 2)) * np.float32(16)
        patch = [_signs(f"{sequence}\0{i}") for i in range(rows)]
        return np.concatenate([place, np.reshape(patch, (rows, PATCH_DIMENSION // 2))], axis=1).astype(
            np.float32
        )


def _signs(text: str) -> NDArray[np.float32]:
    """64 signs hashed from a text."""
    digest = hashlib.blake2b(text.encode(), digest_size=PATCH_DIMENSION // 16).digest()
    return np.unpackbits(np.frombuffer(digest, np.uint8)).astype(np.float32) * 2 - 1
