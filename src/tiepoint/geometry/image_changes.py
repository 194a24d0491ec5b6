# SPDX-License-Identifier: BSD-3-Clause
"""Change an image by a known amount: plane warps, blur, gamma, JPEG quantisation, noise.

Images are uint8 (h, w) or (h, w, c), with pixel centres at integers. All arithmetic is float64 in this
package, one channel at a time, so that the results do not depend on an image library.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.splitmix import seed_of
from . import _image_change_loops as loops
from .homography import corners, inverse, local_affine, project

Image = NDArray[np.uint8]
Floats = NDArray[np.float64]
Size = tuple[int, int]

MOST_SAMPLES = 16
"""Largest number of samples per pixel along one axis."""
_SLACK = 1e-6
JPEG_UNCHANGED = 100
JPEG_LUMINANCE = np.array(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ],
    np.int64,
)
"""Luminance table of the Independent JPEG Group at quality 50."""


class Warp(NamedTuple):
    """Warp of an image: the homography H to the output, the output size, and the samples per pixel.

    `size` is (width, height). `samples` is the number of samples along each axis of a pixel.
    """

    H: Floats
    size: Size
    samples: int


def rotation(size: Size, degrees: float) -> Warp:
    """Return the clockwise rotation about the image centre, on an output that shows the whole image.

    >>> rotation((12, 9), 90).H.tolist(), rotation((12, 9), 90).size
    ([[0.0, -1.0, 8.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], (9, 12))
    """
    quarters = degrees / 90
    if quarters == int(quarters):
        c, s = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[int(quarters) % 4]
    else:
        c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return whole_view(np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]), size)


def reduction(size: Size, factor: float) -> Warp:
    """Return the warp that reduces both sides by a factor of at least 1.

    >>> reduction((641, 479), 4).size, reduction((641, 479), 4).samples
    ((161, 120), 4)
    """
    return whole_view(np.diag([1 / factor, 1 / factor, 1.0]), size)


def tilt(size: Size, degrees: float) -> Warp:
    """Return the warp to a view of the image plane after a turn about its vertical axis.

    The camera looks at the image centre from a distance equal to the longer side, in pixels.

    >>> tilt((320, 240), 50).size, tilt((320, 240), 50).samples
    ((242, 389), 4)
    """
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return whole_view(np.array([[c, 0.0, 0.0], [0.0, 1.0, 0.0], [s / max(size), 0.0, 1.0]]), size)


def whole_view(matrix: Floats, size: Size) -> Warp:
    """Return the warp by a matrix about the image centre, on the smallest output that shows all of it."""
    w, h = size
    centred = matrix @ _shift(-(w - 1) / 2, -(h - 1) / 2)
    box = project(centred, _outer_corners(size), reference=((w - 1) / 2, (h - 1) / 2))
    low, high = box.min(axis=0), box.max(axis=0)
    width, height = (math.ceil(side - _SLACK) for side in (high - low).tolist())
    middle = (low + high) / 2
    H = _shift((width - 1) / 2 - middle[0], (height - 1) / 2 - middle[1]) @ centred
    H = np.asarray(H / H[2, 2], np.float64)
    back = local_affine(inverse(H), _outer_corners((width, height)))
    stretch = float(np.linalg.norm(back, 2, axis=(1, 2)).max())
    return Warp(H, (width, height), min(max(math.ceil(stretch - _SLACK), 1), MOST_SAMPLES))


def _shift(x: float, y: float) -> Floats:
    return np.array([[1.0, 0.0, x], [0.0, 1.0, y], [0.0, 0.0, 1.0]])


def _outer_corners(size: Size) -> Floats:
    """Return the corners (4, 2) of the area that an image of (width, height) covers."""
    return corners((size[0] + 1, size[1] + 1)) - 0.5


def warped(image: Image, warp: Warp) -> Image:
    """Return the warped image. Outside the source, each channel has its rounded mean over the source.

    A pixel is the mean of samples x samples bilinear samples.
    """
    table = _table(image)
    fill = np.floor(table.mean(axis=(0, 1)) + 0.5)
    return _bytes(loops.warp(table, inverse(warp.H), *warp.size, warp.samples, fill), image)


def resized(image: Image, size: Size) -> Image:
    """Return the image reduced to (width, height): each pixel is the mean of bilinear samples in its area.

    >>> resized(np.array([[0, 10, 20, 30]], np.uint8), (2, 1)).tolist()
    [[5, 25]]
    """
    table = _table(image)
    h, w = table.shape[:2]
    x, y = w / size[0], h / size[1]
    back = np.array([[x, 0.0, (x - 1) / 2], [0.0, y, (y - 1) / 2], [0.0, 0.0, 1.0]])
    samples = min(max(math.ceil(max(x, y) - _SLACK), 1), MOST_SAMPLES)
    return _bytes(loops.warp(table, back, *size, samples, np.zeros(table.shape[2])), image)


def blurred(image: Image, sigma: float) -> Image:
    """Return the image after a Gaussian filter of radius ceil(4 sigma). Edge pixels are repeated."""
    radius = math.ceil(4 * sigma)
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2) if sigma else np.ones(1)
    return _bytes(loops.blur(_table(image), weights / weights.sum()), image)


def darkened(image: Image, gamma: float) -> Image:
    """Return the image with each grey level v replaced by 255 (v/255)^gamma.

    >>> darkened(np.array([[0, 128, 255]], np.uint8), 2.0).tolist()
    [[0, 64, 255]]
    """
    levels = np.floor(255 * (np.arange(256) / 255) ** gamma + 0.5 + 1e-9)
    return np.clip(levels, 0, 255).astype(np.uint8)[image]


def jpeg_compressed(image: Image, quality: float) -> Image:
    """Return the image after JPEG quantisation of each channel by the luminance table.

    A `quality` of 100 changes nothing. Sides are extended to multiples of 8 by repeating the edge.
    """
    if quality == JPEG_UNCHANGED:
        return image.copy()
    scale = 5000 // int(quality) if quality < 50 else 200 - 2 * int(quality)
    table = np.clip((JPEG_LUMINANCE * scale + 50) // 100, 1, 255).astype(np.float64)
    cosines = np.cos(np.outer(np.arange(8), 2 * np.arange(8) + 1) * np.pi / 16)
    weights = np.where(np.arange(8) == 0, 1 / math.sqrt(2), 1.0)
    factors = 0.25 * np.outer(weights, weights)
    return _bytes(loops.quantise(_table(image), cosines, factors, table), image)


def noisy(image: Image, sigma: float, name: str, seed: int = 0) -> Image:
    """Return the image plus standard normal noise times sigma.

    The noise depends only on `name` and `seed`.
    """
    noise = np.empty(image.size)
    loops.normals(np.uint64(seed_of(f"tiepoint-stress|{seed}|{name}")), noise)
    return _bytes(_table(image) + sigma * noise.reshape(_table(image).shape), image)


def _table(image: Image) -> Floats:
    """Return the image as float64 (h, w, c)."""
    return np.ascontiguousarray(image if image.ndim == 3 else image[:, :, None], np.float64)


def _bytes(values: Floats, like: Image) -> Image:
    """Round to uint8, halves up. The result has as many dimensions as `like`."""
    made = np.clip(np.floor(values + 0.5 + 1e-9), 0, 255).astype(np.uint8)
    return made if like.ndim == 3 else np.ascontiguousarray(made[:, :, 0])
