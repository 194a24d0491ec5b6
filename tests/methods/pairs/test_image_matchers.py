# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2", reason="tracks are OpenCV's")

from tiepoint.methods.pairs.image_matchers import Klt


def texture() -> np.ndarray:
    draw = np.random.default_rng(0)
    coarse = draw.integers(0, 256, (40, 50)).repeat(6, 0).repeat(6, 1)
    smooth = sum(np.roll(coarse, (i, j), (0, 1)) for i in range(4) for j in range(4)) / 16
    return np.repeat(smooth.astype(np.uint8)[:, :, None], 3, axis=2)


def test_a_shift_is_found_even_where_sizes_differ() -> None:
    image = texture()
    moved = np.ascontiguousarray(image[30:230, 25:])
    points0, points1, confidence = Klt().match(image, moved)
    assert len(points0) > 100
    away = np.linalg.norm(points1 - (points0 - [25, 30]), axis=1)
    assert np.median(away) < 0.05
    assert (away < 1).mean() > 0.95
    assert ((confidence > 0) & (confidence <= 1)).all()
    assert (points1 <= [moved.shape[1] - 1, moved.shape[0] - 1]).all()


def test_an_image_without_corners_gives_no_match() -> None:
    plain = np.full((50, 60, 3), 90, np.uint8)
    assert [len(part) for part in Klt().match(plain, plain)] == [0, 0, 0]
