# SPDX-License-Identifier: BSD-3-Clause
"""Harris corners with a real scale: maxima in place at each scale, kept where the Laplacian is extreme."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.keypoints import Keypoints
from ...formats.image.reader import to_grey
from .detectors import CappedDetector

Image = NDArray[np.uint8]
Plane = NDArray[np.float32]


@dataclass(eq=False)
class Harris(CappedDetector):
    """Harris-Laplace: det - k trace² of the scale-normalised structure tensor, scale by |Laplacian|.

    Integration scales are `sigma` · 2^(i/3); derivatives are taken at 0.7 of them, on grey values in 0 to 1.
    A corner is a maximum among its 8 neighbours above `threshold`, at a scale where the scale-normalised
    Laplacian is larger than at the scales below and above. Size is twice the integration scale
    (a diameter, as SIFT's), refined by a parabola through the three Laplacians. No orientation.
    """

    name, libraries = "harris", ("numpy", "scipy")
    threshold: float = 1e-6
    k: float = 0.04
    sigma: float = 1.6
    n_scales: int = 12

    def __post_init__(self) -> None:
        if self.n_scales < 3:
            raise InputError(
                f"n_scales must be at least 3, because a scale needs two neighbours, but is {self.n_scales}"
            )
        super().__post_init__()

    def detect(self, image: Image) -> Keypoints:
        """Corners of an image, strongest first."""
        grey = (to_grey(image) / np.float32(255)).astype(np.float32)
        sigmas = self.sigma * 2.0 ** (np.arange(self.n_scales) / 3)
        planes = [_corner_and_laplacian(grey, s, self.k) for s in sigmas]
        parts = []
        for i in range(1, self.n_scales - 1):
            corner, laplace = planes[i]
            below, above = planes[i - 1][1], planes[i + 1][1]
            peak = _peaks(corner, self.threshold) & (laplace >= below) & (laplace >= above)
            y, x = np.nonzero(peak)
            dx, dy = _subpixel(corner, y, x)
            turn = _parabola(below[y, x], laplace[y, x], above[y, x])
            size = 2 * self.sigma * 2.0 ** ((i + turn) / 3)
            parts.append(np.column_stack([x + dx, y + dy, size, corner[y, x]]).astype(np.float64))
        table = np.concatenate(parts)
        found = Keypoints.at(table[:, :2], size_px=table[:, 2], response=table[:, 3])
        return self.select(found, image)


def _corner_and_laplacian(grey: Plane, sigma: float, k: float) -> tuple[Plane, Plane]:
    from scipy.ndimage import gaussian_filter

    small = 0.7 * sigma
    smooth = gaussian_filter(grey, small, mode="nearest")
    gy, gx = np.gradient(smooth)
    a, b, c = (gaussian_filter(m, sigma, mode="nearest") * small**2 for m in (gx * gx, gy * gy, gx * gy))
    blurred = gaussian_filter(grey, sigma, mode="nearest")
    padded = np.pad(blurred, 1, mode="edge")
    laplace = padded[1:-1, 2:] + padded[1:-1, :-2] + padded[2:, 1:-1] + padded[:-2, 1:-1] - 4 * blurred
    return a * b - c * c - k * (a + b) ** 2, np.abs(laplace) * np.float32(sigma**2)


def _peaks(corner: Plane, threshold: float) -> NDArray[np.bool_]:
    from scipy.ndimage import maximum_filter

    peak = np.asarray((corner > threshold) & (corner == maximum_filter(corner, 3)))
    peak[[0, -1]] = peak[:, [0, -1]] = False
    return peak


def _subpixel(corner: Plane, y: NDArray[np.int64], x: NDArray[np.int64]) -> tuple[Plane, Plane]:
    here = corner[y, x]
    dx = _parabola(corner[y, x - 1], here, corner[y, x + 1])
    return dx, _parabola(corner[y - 1, x], here, corner[y + 1, x])


def _parabola(before: Plane, here: Plane, after: Plane) -> Plane:
    """Offset of the vertex of the parabola through three values, at most half a step."""
    curve = before - 2 * here + after
    offset = np.divide(before - after, 2 * curve, out=np.zeros_like(here), where=curve != 0)
    return np.clip(offset, -0.5, 0.5)
