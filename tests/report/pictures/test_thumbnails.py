# SPDX-License-Identifier: BSD-3-Clause
"""Thumbnails: their size in bytes for any picture, and the content of small ones."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from tiepoint.report.pictures.thumbnails import crop, in_row, thumbnail


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, (height, width, 3)).astype(np.uint8)


@pytest.mark.parametrize("size", [(1, 1), (65, 65), (160, 700), (1200, 1600)])
def test_thumbnail_noise_of_any_size_has_at_most_15_kb(size: tuple[int, int]) -> None:
    made = thumbnail(noise(*size))
    assert len(made) <= 15_000
    with Image.open(io.BytesIO(made)) as picture:
        assert picture.format == "WEBP"
        assert picture.width <= size[1]
        assert abs(picture.width / picture.height / (size[1] / size[0]) - 1) < 0.05


def test_thumbnail_patch_is_lossless() -> None:
    patch = np.random.default_rng(1).integers(0, 256, (65, 65)).astype(np.uint8)
    with Image.open(io.BytesIO(thumbnail(patch))) as picture:
        assert np.array_equal(np.asarray(picture.convert("L")), patch)


def test_in_row_two_pictures_keep_their_order_and_aspect() -> None:
    row = in_row([np.full((20, 40, 3), 10, np.uint8), np.full((5, 5), 200, np.uint8)], height=10)
    assert row.shape == (10, 20 + 4 + 10, 3)
    assert (row[:, :20] == 10).all()
    assert (row[:, 20:24] == 255).all()
    assert (row[:, 24:] == 200).all()


def test_crop_at_the_border_is_filled_with_grey() -> None:
    made = crop(np.zeros((30, 30), np.uint8), 0, 29, side=5)
    assert made.tolist()[0] == [128, 128, 0, 0, 0]
    assert made.tolist()[4] == [128] * 5
