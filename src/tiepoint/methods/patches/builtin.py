# SPDX-License-Identifier: BSD-3-Clause
"""Baseline descriptors computed from intensities, and VLFeat's SIFT."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError

Array = NDArray[Any]


def area_matrix(side: int, size: int) -> NDArray[np.float64]:
    """Return the weights (size, side) that resample `side` pixels to `size` by area.

    Shrinking averages input pixels in [i, i + 1) side/size. Enlarging interpolates linearly between pixel
    centres and repeats border pixels.

    >>> area_matrix(3, 2).round(3).tolist()
    [[0.667, 0.333, 0.0], [0.0, 0.333, 0.667]]
    """
    if size <= side:
        edges = np.arange(size + 1) * side / size
        low, high = np.arange(side), np.arange(side) + 1
        overlap = np.minimum(edges[1:, None], high) - np.maximum(edges[:-1, None], low)
        return np.maximum(overlap, 0.0) * size / side
    centres = np.clip((np.arange(size) + 0.5) * side / size - 0.5, 0, side - 1)
    return np.maximum(0.0, 1 - np.abs(centres[:, None] - np.arange(side)))


def bicubic_matrix(side: int, size: int) -> NDArray[np.float64]:
    """Return the weights (size, side) that resample `side` pixels to `size` with Keys' bicubic kernel.

    The kernel has a = -1/2. Output centre i is at (i + 1/2) side/size - 1/2 in input pixels. The kernel is
    four pixels wide also when shrinking, so there is no antialiasing. Samples beyond the border are mirrored,
    with the border pixel repeated.

    >>> bicubic_matrix(4, 4).round(3).tolist() == np.eye(4).tolist()
    True
    """
    centres = (np.arange(size) + 0.5) * side / size - 0.5
    first = np.floor(centres - 2).astype(int) + 1
    weights = np.zeros((size, side))
    for tap in range(4):
        at = first + tap
        x = np.abs(centres - at)
        near = 1.5 * x**3 - 2.5 * x**2 + 1
        far = -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
        value = np.where(x <= 1, near, np.where(x < 2, far, 0.0))
        mirrored = np.where(at < 0, -1 - at, np.where(at >= side, 2 * side - 1 - at, at))
        np.add.at(weights, (np.arange(size), np.clip(mirrored, 0, side - 1)), value)
    return weights / weights.sum(axis=1, keepdims=True)


def resize_patches(patches: Array, size: int) -> NDArray[np.float32]:
    """Resize patches (n, s, s) by area to float32 (n, size, size) with intensities 0 to 255."""
    if patches.shape[1] == size:
        return np.asarray(patches, np.float32)
    weights = area_matrix(patches.shape[1], size)
    return (weights @ patches @ weights.T).astype(np.float32)


_CHUNK = 2048


def z_score(patches: Array) -> NDArray[np.float32]:
    """Subtract the mean of each patch and divide by its sample standard deviation (n - 1).

    A flat patch becomes zero.

    >>> z_score(np.array([[[0, 2], [0, 2]]], np.uint8))
    array([[[-0.8660254,  0.8660254],
            [-0.8660254,  0.8660254]]], dtype=float32)
    """
    values = np.asarray(patches, np.float64)
    mean = values.mean(axis=(1, 2), keepdims=True)
    deviation = values.std(axis=(1, 2), ddof=1, keepdims=True)
    centred = values - mean
    return np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0).astype(np.float32)


def _in_chunks(patches: Array, function: Any) -> Array:
    # a float64 copy of a strip of 5000 patches would take 170 MB
    parts = [function(patches[i : i + _CHUNK]) for i in range(0, len(patches), _CHUNK)]
    return np.concatenate(parts) if parts else function(patches)


class MeanStd:
    """Mean and sample standard deviation of the patch, not normalised.

    A black patch is (0, 0), which is a valid descriptor.

    >>> MeanStd().describe(np.array([[[1, 3], [1, 3]]], np.uint8))
    array([[2.       , 1.1547005]], dtype=float32)
    """

    name = "meanstd"
    distance = "l2"
    zero_rows_are_valid = True

    def describe(self, patches: Array) -> Array:
        """Return the descriptors (n, 2) of patches (n, s, s)."""

        def one(block: Array) -> Array:
            values = np.asarray(block, np.float64)
            pair = (values.mean(axis=(1, 2)), values.std(axis=(1, 2), ddof=1))
            return np.stack(pair, axis=1).astype(np.float32)

        return _in_chunks(patches, one)


class Pixels:
    """Pixels of the z-scored patch, row by row (n, s*s).

    Their l2 distance ranks like normalised correlation.
    """

    name = "pixels"
    distance = "l2"

    def describe(self, patches: Array) -> Array:
        """Return the descriptors (n, s*s) of patches (n, s, s)."""
        return _in_chunks(patches, lambda block: z_score(block).reshape(len(block), -1))


class ResizedPixels:
    """Pixels of the z-scored patch resized to `size` x `size`, bicubic, not antialiased, column by column.

    Size 4 is the HPatches baseline of 2017, with descriptors normalised to length 1. Size 6 is the baseline
    of 2016, not normalised. A flat patch gives a descriptor of zeros.
    """

    name = "resize"
    distance = "l2"

    def __init__(self, size: int = 4) -> None:
        if size not in (4, 6):
            raise InputError(f"resize needs size=4 (HPatches 2017) or size=6 (HPatches 2016), found {size}")
        self.size = size

    def describe(self, patches: Array) -> Array:
        """Return the descriptors (n, size*size) of patches (n, s, s)."""
        weights = bicubic_matrix(patches.shape[1], self.size)

        def one(block: Array) -> Array:
            small = weights @ z_score(block).astype(np.float64) @ weights.T
            values = small.transpose(0, 2, 1).reshape(len(block), -1)
            if self.size == 4:
                norm = np.linalg.norm(values, axis=1, keepdims=True)
                values = np.divide(values, norm, out=np.zeros_like(values), where=norm > 0)
            return values.astype(np.float32)

        return _in_chunks(patches, one)


BINS, DIRECTIONS = 4, 8
_VLFEAT_CHUNK = 64
_EPSILON = float(np.finfo(np.float32).eps)


def gradient(patches: Array) -> tuple[Array, Array]:
    """Return derivatives along x and y: half the difference of the neighbours, one-sided at the border.

    >>> gradient(np.array([[[0, 2, 8]] * 3], np.uint8))[0][0, 0].tolist()
    [2.0, 4.0, 6.0]
    """
    values = np.asarray(patches, np.float64)
    return np.gradient(values, axis=2), np.gradient(values, axis=1)


@lru_cache(maxsize=8)
def spatial_weights(side: int) -> NDArray[np.float64]:
    """Return the weight of each pixel in each of 4 x 4 spatial bins, (16, side*side), row by row.

    Weights are bilinear between bin centres, where bin 1 is centred half a bin left of the middle. They are
    multiplied by a Gaussian window with a standard deviation of two bins. As in VLFeat, exp is interpolated
    linearly in a table of 257 values on [0, 25]. The error of up to 0.1 % can change rounded values.
    """
    position = (np.arange(side) - (side - 1) / 2) / (side / 4)
    centres = np.arange(BINS) - (BINS - 1) / 2
    tent = np.maximum(0.0, 1 - np.abs(position[None] - centres[:, None]))
    grid = np.linspace(0, 25, 257)
    exponent = (position[:, None] ** 2 + position[None] ** 2) / 8
    window = np.interp(exponent, grid, np.exp(-grid))
    weights = tent[:, None, :, None] * tent[None, :, None, :] * window
    return weights.reshape(BINS * BINS, side * side)


def histograms(patches: Array) -> NDArray[np.float64]:
    """Return weighted gradient histograms before normalisation, (n, 128): row, column, direction.

    A gradient of direction theta (clockwise from x, y down) contributes to direction bin floor(4 theta / pi)
    and to the next bin.
    """
    side = patches.shape[1]
    dx, dy = gradient(patches)
    length = np.hypot(dx, dy).reshape(len(patches), 1, -1)
    turn = np.arctan2(dy, dx).reshape(len(patches), 1, -1) * (DIRECTIONS / (2 * np.pi))
    low = np.floor(turn)
    share = turn - low
    bin_low = low.astype(np.int64) % DIRECTIONS
    planes = np.zeros((len(patches), DIRECTIONS, side * side))
    np.put_along_axis(planes, bin_low, length * (1 - share), axis=1)
    np.put_along_axis(planes, (bin_low + 1) % DIRECTIONS, length * share, axis=1)
    summed = planes @ spatial_weights(side).T
    return summed.transpose(0, 2, 1).reshape(len(patches), -1)


def clamp_and_normalise(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normalise rows to length 1, clip entries at 0.2 and normalise again. A zero row stays zero."""
    unit = values / (np.linalg.norm(values, axis=1, keepdims=True) + _EPSILON)
    cut = np.minimum(unit, 0.2)
    return cut / (np.linalg.norm(cut, axis=1, keepdims=True) + _EPSILON)


class VLFeatSift:
    """VLFeat's SIFT of the entire patch: 128 integers, 512 times the unit vector, at most 255.

    >>> VLFeatSift().describe(np.arange(25, dtype=np.uint8).reshape(1, 5, 5)).shape
    (1, 128)
    """

    name = "vlfeat-sift"
    distance = "l2"

    def describe(self, patches: Array) -> NDArray[np.uint8]:
        """Return the descriptors (n, 128) of patches (n, s, s)."""
        out = np.zeros((len(patches), BINS * BINS * DIRECTIONS), np.uint8)
        for i in range(0, len(patches), _VLFEAT_CHUNK):
            values = clamp_and_normalise(histograms(patches[i : i + _VLFEAT_CHUNK]))
            out[i : i + _VLFEAT_CHUNK] = np.minimum(512 * values, 255).astype(np.uint8)
        return out
