# SPDX-License-Identifier: BSD-3-Clause
"""The matches of a pair of images beside its truth, for pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Image = NDArray[np.uint8]
Size = tuple[int, int]


@dataclass(frozen=True)
class MatchedPair:
    """Matches of two images: `points0`, `points1` (n, 2) in pixels, first pixel's centre at (0, 0).

    `errors_px` (n,) are what `measure` says in words, None where no truth tells them. `F` maps points of
    image 0 to epipolar lines of image 1, `H` to points of it, where there is such a truth. An image that is
    not there is None; its size (width, height) is known all the same.
    """

    name: str
    images: tuple[Image | None, Image | None]
    sizes: tuple[Size, Size]
    points0: Floats
    points1: Floats
    errors_px: Floats | None = None
    measure: str = ""
    F: Floats | None = None
    H: Floats | None = None
    confidence: Floats | None = None
    """(n,), larger where the method is surer; 1 - d1/d2 of descriptors."""

    def __len__(self) -> int:
        return len(self.points0)
