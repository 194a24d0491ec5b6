# SPDX-License-Identifier: BSD-3-Clause
"""Recorded figures of the choice without ground truth, and small photographs made for tests."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
GOLDEN = DATA.parent / "golden" / "choose.json"

needs_golden = pytest.mark.skipif(not GOLDEN.is_file(), reason=f"no recorded figures at {GOLDEN}")

SHIFTS = ((1.0, 0.0, 0.0), (1.05, 0.08, 9.0), (0.96, -0.1, 14.0), (1.1, 0.15, -8.0), (0.92, 0.2, 5.0))
SIZE = (160, 128)


@cache
def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(GOLDEN.read_text())
    return found


def texture(seed: int, size: tuple[int, int] = (256, 224)) -> np.ndarray:
    """Noise at several scales, so that detectors find keypoints, as uint8 RGB."""
    import cv2

    rng = np.random.default_rng(seed)
    total = np.zeros(size[::-1])
    for step in (6, 12, 24):
        small = rng.normal(size=(size[1] // step, size[0] // step))
        total += cv2.resize(small, size, interpolation=cv2.INTER_CUBIC)
    grey = np.clip(128 + 44 * total, 0, 255).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


def view(scene: np.ndarray, number: int) -> np.ndarray:
    """View of a scene, scaled, rotated a little and shifted."""
    import cv2

    scale, angle, shift = SHIFTS[number]
    M = cv2.getRotationMatrix2D((scene.shape[1] / 2, scene.shape[0] / 2), np.degrees(angle), scale)
    M[:, 2] += (SIZE[0] - scene.shape[1]) / 2 + shift, (SIZE[1] - scene.shape[0]) / 2 - shift / 2
    return np.asarray(cv2.warpAffine(scene, M, SIZE))


def write_photos(folder: Path, count: int = 4, seed: int = 1) -> Path:
    """Write views of one scene as ``photo1.png``, ``photo2.png``, …"""
    from tiepoint.formats.image.reader import write_image

    folder.mkdir(parents=True, exist_ok=True)
    scene = texture(seed)
    for k in range(count):
        write_image(folder / f"photo{k + 1}.png", view(scene, k))
    return folder
