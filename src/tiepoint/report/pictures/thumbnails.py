# SPDX-License-Identifier: BSD-3-Clause
"""Thumbnails of pictures: WebP of at most 15 kB."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
MAX_THUMBNAIL_BYTES = 15_000
LOSSLESS_PIXELS = 1 << 14
"""Largest number of pixels of a picture that is encoded without loss, such as patches."""
QUALITIES = (80, 65, 50, 35)
SMALLER = 0.8
"""Factor that reduces the size of a picture whose file is too large even at the lowest quality."""
GAP = 4
PAPER = 255
CROP_SIDE = 65


def thumbnail(image: Image, *, most_bytes: int = MAX_THUMBNAIL_BYTES) -> bytes:
    """Encode a picture (h, w) or (h, w, 3) as WebP of at most `most_bytes`.

    The quality is reduced first, then the size.

    >>> noise = np.random.default_rng(0).integers(0, 256, (300, 400, 3)).astype(np.uint8)
    >>> len(thumbnail(noise)) <= MAX_THUMBNAIL_BYTES, thumbnail(noise)[8:12]
    (True, b'WEBP')
    """
    from PIL import Image as Pillow

    picture = Pillow.fromarray(np.ascontiguousarray(image)).convert("RGB")
    if picture.width * picture.height <= LOSSLESS_PIXELS:
        made = _webp(picture, lossless=True)
        if len(made) <= most_bytes:
            return made
    while True:
        for quality in QUALITIES:
            made = _webp(picture, quality=quality)
            if len(made) <= most_bytes:
                return made
        size = (max(1, int(picture.width * SMALLER)), max(1, int(picture.height * SMALLER)))
        picture = picture.resize(size, Pillow.Resampling.BOX)


def _webp(picture: object, **how: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="WEBP", method=4, **how)  # type: ignore[attr-defined]
    return buffer.getvalue()


def thumbnail_uri(image: Image) -> str:
    """Return the thumbnail of a picture as a data URI."""
    return "data:image/webp;base64," + base64.b64encode(thumbnail(image)).decode()


def in_row(images: Sequence[Image], *, height: int) -> Image:
    """Arrange pictures in a row, each `height` pixels high, with white gaps.

    >>> in_row([np.zeros((10, 20), np.uint8), np.zeros((4, 4, 3), np.uint8)], height=20).shape
    (20, 64, 3)
    """
    from PIL import Image as Pillow

    parts = []
    for image in images:
        picture = Pillow.fromarray(np.ascontiguousarray(image)).convert("RGB")
        width = max(1, round(picture.width * height / picture.height))
        how = Pillow.Resampling.BOX if picture.height > height else Pillow.Resampling.NEAREST
        parts.append(np.asarray(picture.resize((width, height), how)))
    gap = np.full((height, GAP, 3), PAPER, np.uint8)
    return np.concatenate([p for part in parts for p in (gap, part)][1:], axis=1)


def crop(image: Image, x: int, y: int, side: int = CROP_SIDE) -> Image:
    """Crop a square around a point. Pixels outside the image are grey."""
    half = side // 2
    padding = ((half, half), (half, half), *(((0, 0),) * (image.ndim - 2)))
    padded = np.pad(image, padding, constant_values=128)
    x, y = min(max(x, 0), image.shape[1] - 1), min(max(y, 0), image.shape[0] - 1)
    return padded[y : y + side, x : x + side]


def no_picture() -> Image:
    """Return the placeholder for a picture that cannot be drawn."""
    return np.full((48, 64, 3), 200, np.uint8)
