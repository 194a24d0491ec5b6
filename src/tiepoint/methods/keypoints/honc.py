# SPDX-License-Identifier: BSD-3-Clause
"""HoNC: histograms of normalised colours, 4 x 4 places by 2 x 2 x 2 colours, 128 numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.keypoints import Keypoints
from ...geometry.patch_sampling import similarity_frames
from ...geometry.sampling import sample_patches
from ..transforms import l2_normalise

Image = NDArray[np.uint8]
SIDE, CELLS, CLIP = 32, 4, 0.2
MEAN, DEVIATION = 127.5, 50.0
_HONC_BLOCK = 512


class Honc:
    """Where in the patch which colours are, after the patch is brought to one brightness and contrast.

    A patch of `magnification` times the keypoint's size, turned with it, is shifted so that each channel has
    mean 127.5 and stretched by 50 over the mean of the channels' deviations. Each pixel is shared linearly
    between dark and bright in each channel (8 bins) and between neighbouring cells, weighted by a
    Gaussian of half the patch. The row has length 1, entries cut at 0.2, length 1 again. A patch without
    any contrast has no colours to normalise and fails.
    """

    name, distance, libraries = "honc", "l2", ("numba", "numpy")

    def __init__(self, magnification: float = 6.0) -> None:
        self.magnification = float(magnification)

    def describe(self, image: Image, keypoints: Keypoints) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """(n, 128) and which patches have contrast."""
        colour = np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image
        angle = np.deg2rad(np.nan_to_num(keypoints.angle_deg, nan=0.0))
        frames = similarity_frames(keypoints.xy, keypoints.size_px * self.magnification / 2, angle)
        values = np.zeros((len(keypoints), CELLS * CELLS * 8), np.float32)
        valid = np.zeros(len(keypoints), bool)
        places = _places()
        for start in range(0, len(keypoints), _HONC_BLOCK):
            rows = slice(start, start + _HONC_BLOCK)
            patches = np.stack(
                [
                    sample_patches(colour[:, :, c], frames[rows], SIDE).reshape(-1, SIDE * SIDE)
                    for c in range(3)
                ],
                axis=2,
            )
            values[rows], valid[rows] = _histograms(patches, places)
        return values, valid


def _places() -> NDArray[np.float32]:
    """Share of each pixel in each cell, (side², cells²): linear between cell centres, Gaussian over all."""
    at = (np.arange(SIDE) + 0.5) / SIDE * CELLS - 0.5
    share = np.maximum(0.0, 1 - np.abs(at[:, None] - np.arange(CELLS)))
    fall = np.exp(-0.5 * ((at - (CELLS - 1) / 2) / (CELLS / 2)) ** 2)
    line = share * fall[:, None]
    return np.einsum("ya,xb->yxab", line, line).reshape(SIDE * SIDE, -1).astype(np.float32)


def _histograms(
    patches: NDArray[np.float32], places: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Histograms of patches (n, pixels, 3)."""
    deviation = patches.std(axis=1).mean(axis=1)
    valid = deviation > 1e-3
    gain = DEVIATION / np.where(valid, deviation, 1)
    even = (patches - patches.mean(axis=1, keepdims=True)) * gain[:, None, None] + MEAN
    bright = np.clip(even / 255, 0, 1)
    shares = np.stack([1 - bright, bright], axis=3)
    colours = np.einsum("npi,npj,npk->npijk", shares[:, :, 0], shares[:, :, 1], shares[:, :, 2])
    colours = colours.reshape(*colours.shape[:2], 8)
    # one product a patch: the rounding of a row must not depend on which others are described with it
    rows = np.matmul(places.T, colours).reshape(len(patches), -1)
    cut = np.minimum(l2_normalise(rows), np.float32(CLIP))
    return np.where(valid[:, None], l2_normalise(cut), np.float32(0)), valid
