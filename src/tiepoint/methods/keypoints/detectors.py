# SPDX-License-Identifier: BSD-3-Clause
"""Selection of keypoints by border and response, and the detectors `harris`, `grid` and `random`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.hashing import hash_array, hash_json
from ...core.keypoints import Keypoints
from ...formats.image.reader import to_grey
from ...geometry.correspondence import in_view

MAX_FEATURES = 2000
"""Default maximum number of keypoints per image."""


def strongest_first(keypoints: Keypoints) -> NDArray[np.int64]:
    """Return indices that sort keypoints by descending response, then y, x, size, angle, octave, class.

    All columns are sort keys, so only identical rows are tied. The order therefore does not depend on the
    threads of the detector.

    >>> strongest_first(Keypoints.at([[5, 1], [2, 1], [9, 9]], response=[1, 1, 3])).tolist()
    [2, 1, 0]
    """
    k = keypoints
    angle = np.nan_to_num(k.angle_deg, nan=-1.0)
    return np.lexsort((k.class_id, k.octave, angle, k.size_px, k.xy[:, 0], k.xy[:, 1], -k.response))


def select_keypoints(
    keypoints: Keypoints, image: NDArray[Any], *, max_features: int | None, border_px: float
) -> Keypoints:
    """Return keypoints inside the border, strongest first, at most `max_features` (None: all).

    The border is applied first and excludes pixels whose centre is closer than `border_px` to the image edge.
    With border_px = 40, positions 39.5 <= x <= width - 40.5 are selected, as in
    `geometry.correspondence.in_view`.
    """
    if max_features is not None and max_features < 1:
        raise InputError(f"max_features must be a positive number or none, found {max_features}")
    if border_px < 0:
        raise InputError(f"border_px must not be negative, found {border_px:g}")
    size = (image.shape[1], image.shape[0])
    inside = keypoints[in_view(keypoints.xy, size, border_px=border_px)]
    return inside[strongest_first(inside)[:max_features]]


@dataclass(eq=False)
class CappedDetector:
    """Base of detectors with a maximum number of keypoints and an image border (`select_keypoints`)."""

    max_features: int | None = MAX_FEATURES
    border_px: float = 0.0

    def __post_init__(self) -> None:
        self.border_px = float(self.border_px)

    def select(self, keypoints: Keypoints, image: NDArray[Any]) -> Keypoints:
        """Return the selected keypoints, strongest first."""
        return select_keypoints(keypoints, image, max_features=self.max_features, border_px=self.border_px)


Image = NDArray[np.uint8]
Plane = NDArray[np.float32]


@dataclass(eq=False)
class Harris(CappedDetector):
    """Harris-Laplace detector: Harris response of the structure tensor, scale selection by |Laplacian|.

    The response is det - k trace² of the scale-normalised structure tensor, on grey values in 0 to 1.
    Integration scales are `sigma` · 2^(i/3). Derivative scales are 0.7 times as large. A corner is a maximum
    above `threshold` among its 8 neighbours. Its scale-normalised Laplacian must exceed the Laplacians at the
    next smaller and larger scale. The keypoint's size is twice the integration scale (a diameter, as for
    SIFT), refined by a parabola through the three Laplacians. Keypoints have no orientation.
    """

    name, libraries = "harris", ("numpy", "scipy")
    threshold: float = 1e-6
    k: float = 0.04
    sigma: float = 1.6
    n_scales: int = 12

    def __post_init__(self) -> None:
        if self.n_scales < 3:
            raise InputError(
                f"n_scales must be at least 3, because a scale needs two neighbours; found {self.n_scales}"
            )
        super().__post_init__()

    def detect(self, image: Image) -> Keypoints:
        """Return the corners of an image, strongest first."""
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
    """Return the offset of a parabola's vertex from the middle of three values, at most half a step."""
    curve = before - 2 * here + after
    offset = np.divide(before - after, 2 * curve, out=np.zeros_like(here), where=curve != 0)
    return np.clip(offset, -0.5, 0.5)


@dataclass(eq=False)
class GridKeypoints(CappedDetector):
    """Regular grid of points `step_px` apart, centred on the image, of size `size_px` without orientation."""

    name = "grid"
    max_features: int | None = None
    step_px: float = 16.0
    size_px: float = 8.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.step_px > 0 and self.size_px > 0):
            raise InputError(
                f"step_px and size_px must be positive, found {self.step_px:g} and {self.size_px:g}"
            )
        self.step_px, self.size_px = float(self.step_px), float(self.size_px)

    def detect(self, image: Image) -> Keypoints:
        """Return the grid points, row by row from the top left."""
        ys, xs = (_line(length, self.step_px, self.border_px) for length in image.shape[:2])
        y, x = np.meshgrid(ys, xs, indexing="ij")
        found = Keypoints.at(np.column_stack([x.ravel(), y.ravel()]), size_px=self.size_px)
        return self.select(found, image)


def _line(length: int, step: float, border: float) -> NDArray[np.float64]:
    room = length - 1 - 2 * border
    if room < 0:
        return np.empty(0)
    count = int(room // step) + 1
    first = border + (room - (count - 1) * step) / 2
    return first + step * np.arange(count, dtype=np.float64)


@dataclass(eq=False)
class RandomKeypoints(CappedDetector):
    """Uniformly sampled points with log-uniform sizes, seeded by the image.

    The random generator is seeded by a hash of the pixels and `seed`, so images of a scene get unrelated
    points.
    """

    name = "random"
    max_features: int = MAX_FEATURES
    min_size_px: float = 4.0
    max_size_px: float = 32.0
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.min_size_px, self.max_size_px = float(self.min_size_px), float(self.max_size_px)
        if not 0 < low <= high:
            raise InputError(
                f"min_size_px must be above 0 and at most max_size_px, found {low:g} and {high:g}"
            )
        if self.max_features is None or self.max_features < 1:
            raise InputError(f"random needs a positive max_features, found {self.max_features}")

    def detect(self, image: Image) -> Keypoints:
        """Return `max_features` points, or none if the border covers the entire image."""
        name = hash_json(["random keypoints", self.seed, hash_array(np.ascontiguousarray(image))])
        draw = np.random.Generator(np.random.PCG64(int(name[:32], 16)))
        h, w = image.shape[:2]
        room = np.array([w, h]) - 1 - 2 * self.border_px
        if (room < 0).any():
            return Keypoints.at(np.empty((0, 2)))
        xy = self.border_px + draw.random((self.max_features, 2)) * room
        low, high = np.log(self.min_size_px), np.log(self.max_size_px)
        size = np.exp(draw.uniform(low, high, self.max_features))
        angle, response = draw.uniform(0, 360, self.max_features), draw.random(self.max_features)
        found = Keypoints.at(xy, size_px=size, angle_deg=angle, response=response)
        return self.select(found, image)
