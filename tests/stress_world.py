# SPDX-License-Identifier: BSD-3-Clause
"""Small images, and methods whose scores under changes are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tiepoint.formats.image.reader import write_image

METHODS = '''
import numpy as np


def grid(image):
    y, x = np.mgrid[4 : image.shape[0] : 6, 4 : image.shape[1] : 6]
    return np.column_stack([x.ravel(), y.ravel()]).astype(float)


class Still:
    """Every point stays where it is: right under blur, noise, gamma and JPEG, wrong under every warp."""

    def match(self, image1, image2):
        points = grid(image1)
        inside = (points < np.array(image2.shape[1::-1]) - 1).all(axis=1)
        return points[inside], points[inside]


class Sharp(Still):
    """The same, but without matches if the second image has no contrast."""

    def match(self, image1, image2):
        one, two = super().match(image1, image2)
        steep = np.abs(np.diff(image2.astype(float), axis=1)).mean()
        return (one, two) if steep > 8 else (one[:0], two[:0])


class Flow:
    kind = "dense"

    def match(self, image1, image2):
        return np.zeros((*image1.shape[:2], 2), np.float32)


class Matrix:
    def match(self, image1, image2):
        return {"H": np.eye(3)}
'''


def write_images(root: Path, count: int = 6, size: tuple[int, int] = (48, 40)) -> Path:
    """Write images of noise with different contrast, and ``mine.py`` beside them. Return their folder."""
    rng = np.random.default_rng(5)
    images = root / "images"
    images.mkdir(parents=True)
    for k in range(count):
        spread = 20 + 15 * k
        image = np.clip(128 + rng.normal(0, spread, (size[1], size[0], 3)), 0, 255)
        write_image(images / f"s{k}.png", image.astype(np.uint8))
    (root / "mine.py").write_text(METHODS)
    return images
