# SPDX-License-Identifier: BSD-3-Clause
"""Checksums of blocks see what disks do; sealed JSON is what it was."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.hashing import BLOCK, add_checksum, block_sums, checksum, verify_checksum

LENGTHS = [1, 7, 8, 4095, 4096, 4097, 12_345, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 5000]


@pytest.mark.parametrize("length", LENGTHS)
def test_any_flipped_bit_changes_the_sum_of_its_block_alone(length: int) -> None:
    rng = np.random.default_rng(length)
    data = rng.integers(0, 256, length, np.uint8)
    before = block_sums(data)
    assert len(before) == -(-length // BLOCK)
    for at in {0, length - 1, length // 2, *rng.integers(0, length, 20).tolist()}:
        data[at] ^= 1 << int(rng.integers(8))
        after = block_sums(data)
        assert [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b] == [at // BLOCK]
        assert checksum(data) != checksum(b"")
        before = after


def test_lost_and_misplaced_parts_are_seen() -> None:
    data = np.random.default_rng(0).integers(0, 256, 3 * BLOCK + 77, np.uint8)
    whole = checksum(data)
    for size in (512, 4096, BLOCK):
        for start in (0, size, 5 * size if size < BLOCK else size):
            lost = data.copy()
            lost[start : start + size] = 0
            swapped = data.copy()
            swapped[start : start + size] = data[start + size : start + 2 * size]
            swapped[start + size : start + 2 * size] = data[start : start + size]
            assert len({whole, checksum(lost), checksum(swapped), checksum(data[: start + size])}) == 4


def test_two_flips_of_one_bit_in_opposite_directions_are_seen() -> None:
    data = np.zeros(BLOCK, np.uint8)
    data[800] = 16
    before = checksum(data)
    for other in (808, 800 + 4096, 800 + 8 * 4096 + 64):
        moved = np.zeros(BLOCK, np.uint8)
        moved[other] = 16
        assert checksum(moved) != before


def test_zeros_of_different_lengths_differ() -> None:
    assert len({checksum(bytes(n)) for n in LENGTHS}) == len(LENGTHS)


@pytest.mark.parametrize("indent", [None, 1])
def test_no_flipped_bit_of_sealed_json_goes_unseen(indent: int | None) -> None:
    plain = {"a": [1, 2.5, None], "ü": "seal", "seal_": {"seal": 1}}
    text = add_checksum(plain, indent).encode()
    assert verify_checksum(text) == plain
    for at in range(len(text)):
        for bit in range(8):
            damaged = bytearray(text)
            damaged[at] ^= 1 << bit
            with pytest.raises(ValueError):
                verify_checksum(bytes(damaged))
    with pytest.raises(ValueError, match="no checksum"):
        verify_checksum(b'{"a": 1}')
    with pytest.raises(ValueError, match="nested"):
        verify_checksum(b"[" * 100_000)
    with pytest.raises(ValueError, match="not a JSON object"):
        verify_checksum(b"[]")
