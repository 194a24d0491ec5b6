# SPDX-License-Identifier: BSD-3-Clause
"""How large an image may be, known from its header before a pixel is decoded."""

from __future__ import annotations

from pathlib import Path

from ...core.errors import FormatError

PIXELS = 64_000_000
"""Pixels any file may announce, of up to three bytes each."""
PIXELS_A_BYTE = 8
"""Pixels that every byte of a file allows beyond these: real images have a byte for one or two."""
MAX_PIXELS = 178_956_970
"""Pixels no image may exceed: at these Pillow refuses, too."""
BAND = 1 << 22
"""Pixels that are converted at a time, so that a large image is in memory once and not five times."""


def check_pixels(path: str | Path, size: tuple[int, int], file_bytes: int, pixel_bytes: int = 3) -> None:
    """Refuse an image of more pixels than a file of that length may have.

    Those are 64 million and 8 for every byte of the file, of three bytes each (fewer where a pixel has more),
    at most 178,956,970. A photograph of 100 million pixels has tens of megabytes; a third of a megabyte can
    announce, and give, as many blank ones as fill the memory.

    >>> check_pixels("a.png", (10_000, 10_000), 9_000_000)
    >>> check_pixels("a", (10_000, 10_000), 300_000)
    Traceback (most recent call last):
    tiepoint.core.errors.FormatError: a: has 10000 x 10000 pixels in 300000 bytes, at most 66400000 are read
    """
    width, height = size
    most = min(MAX_PIXELS, (PIXELS + PIXELS_A_BYTE * file_bytes) * 3 // max(3, pixel_bytes))
    if width * height > most:
        raise FormatError(
            path, f"has {width} x {height} pixels in {file_bytes} bytes, at most {most} are read"
        )
