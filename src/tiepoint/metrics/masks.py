# SPDX-License-Identifier: BSD-3-Clause
"""How well two masks agree: intersection over union and pixel accuracy, plain or bitwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[Any]


@dataclass(frozen=True)
class MaskCounts:
    """Pixels in both masks, in either, differing between them, and all."""

    intersection: int
    union: int
    differing: int
    pixels: int

    @property
    def iou(self) -> float:
        """Intersection over union; NaN where both masks are empty."""
        return self.intersection / self.union if self.union else float("nan")

    @property
    def pixel_accuracy(self) -> float:
        """Fraction of pixels that agree."""
        return 1 - self.differing / self.pixels


def mask_counts(mask: Mask, truth: Mask, *, bitwise: bool = False) -> MaskCounts:
    """Counts of two masks (h, w); foreground is any value that is not zero.

    With `bitwise`, ``&``, ``|`` and ``^`` work on the bytes: values 1 and 2 do not intersect, and 1 and 255
    differ. Both forms agree on masks of 0 and 255.

    >>> a, b = np.array([[0, 1, 255]], np.uint8), np.array([[0, 2, 255]], np.uint8)
    >>> mask_counts(a, b).iou, mask_counts(a, b, bitwise=True).iou
    (1.0, 0.5)
    """
    if mask.shape != truth.shape:
        raise ValueError(f"masks {mask.shape} and {truth.shape} differ in shape")
    a, b = np.asarray(mask), np.asarray(truth)
    if bitwise and not a.dtype == b.dtype == np.uint8:
        raise ValueError(f"bitwise counts are those of bytes (uint8), found {a.dtype} and {b.dtype}")
    from ._dense_loops import count_bits, count_pixels

    one, two = (x if x.dtype == np.uint8 else (x != 0).view(np.uint8) for x in (a, b))
    lines = np.ascontiguousarray(one).reshape(-1), np.ascontiguousarray(two).reshape(-1)
    both, either, differing = (count_bits if bitwise else count_pixels)(*lines)
    return MaskCounts(int(both), int(either), int(differing), a.size)


def ambiguous_pixels(mask: NDArray[np.uint8]) -> int:
    """Pixels of a mask that are neither 0 nor 255, as a mask from a file should be.

    >>> ambiguous_pixels(np.array([[0, 1, 255]], np.uint8))
    1
    """
    from ._dense_loops import count_between

    return int(count_between(np.ascontiguousarray(mask).reshape(-1)))
