# SPDX-License-Identifier: BSD-3-Clause
"""Patches sampled from an image through affine frames, without aliasing.

Pixel rule: image coordinates as in `tiepoint.geometry.homography` (integers are pixel centres). A patch of
side s covers the square [-1, 1]^2 of its frame edge to edge, so its pixel (row i, column j) is the cell
around u = ((2j + 1) / s - 1, (2i + 1) / s - 1); the centre of an odd patch is exactly the frame's centre.

Antialiasing: where a patch pixel covers more than one image pixel, it is the mean over its cell. The image is
first halved (2 x 2 means) as long as a patch pixel is at least 4 image pixels wide in its narrowest
direction; what is left of the step along each patch axis is averaged over ceil(step) bilinear samples, so a
stretched frame is averaged more along its long side only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from ..core.numba_cache import cached_njit
from .patch_sampling import as_frames

_MAX_SAMPLES = 64


def sample_patches(image: ArrayLike, frames: ArrayLike, size: int = 65) -> NDArray[np.float32]:
    """Cut patches from a grey image.

    Args:
        image: (h, w), any real type; values are kept on their scale.
        frames: (n, 2, 3); the square [-1, 1]^2 of a frame becomes the patch. Must be finite.
        size: side of the patches in pixels.

    Returns:
        float32 (n, size, size). Outside the image the nearest edge pixel is repeated: callers who do not want
        that test `frames.square_in_view` first.

    >>> ramp = np.tile(np.arange(9.0), (9, 1))
    >>> sample_patches(ramp, [[[1.5, 0, 4], [0, 1.5, 4]]], 3)[0, 0].tolist()
    [3.0, 4.0, 5.0]
    """
    pixels = np.ascontiguousarray(image, dtype=np.float32)
    if pixels.ndim != 2 or pixels.size == 0:
        raise InputError(f"patches are cut from a grey image (h, w), found shape {pixels.shape}")
    f = as_frames(frames)
    if not np.isfinite(f).all():
        raise InputError("a frame is NaN or inf; drop frames without a projection before sampling")
    steps = np.linalg.norm(f[:, :, :2], axis=1) * 2 / size
    narrow = np.linalg.svd(f[:, :, :2], compute_uv=False)[:, 1] * 2 / size
    levels = np.floor(np.log2(np.clip(narrow / 2, 1, None))).astype(np.int64)
    levels = np.minimum(levels, int(np.log2(min(pixels.shape))))
    out = np.empty((len(f), size, size), dtype=np.float32)
    for level in range(int(levels.max(initial=0)) + 1):
        rows = np.flatnonzero(levels == level)
        if level > 0:
            pixels = _halve(pixels)
        scaled = f[rows] / 2.0**level
        scaled[:, :, 2] += 0.5 / 2.0**level - 0.5
        counts = np.clip(np.ceil(steps[rows] / 2.0**level - 1e-9), 1, _MAX_SAMPLES).astype(np.int64)
        _sample(pixels, scaled, counts, rows, out)
    return out


def _halve(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """Means of 2 x 2 blocks; an odd last row or column is repeated, so pixel (0, 0) stays at the corner."""
    h, w = image.shape
    padded = np.pad(image, ((0, h % 2), (0, w % 2)), mode="edge")
    blocks = padded.reshape(padded.shape[0] // 2, 2, padded.shape[1] // 2, 2)
    return np.ascontiguousarray(blocks.mean(axis=(1, 3), dtype=np.float32))


@cached_njit(nogil=True)
def _sample(image, frames, counts, rows, out):  # type: ignore[no-untyped-def]
    """Mean of counts[k] = (along x, along y) bilinear samples in every patch pixel of frame k."""
    height, width = image.shape
    size = out.shape[1]
    for k in range(len(frames)):
        a, b, tx = frames[k, 0]
        c, d, ty = frames[k, 1]
        nx, ny = counts[k]
        for i in range(size):
            for j in range(size):
                total = 0.0
                for q in range(ny):
                    v = (2 * (i + (q + 0.5) / ny)) / size - 1
                    for p in range(nx):
                        u = (2 * (j + (p + 0.5) / nx)) / size - 1
                        x = min(max(a * u + b * v + tx, 0.0), width - 1.0)
                        y = min(max(c * u + d * v + ty, 0.0), height - 1.0)
                        x0, y0 = int(x), int(y)
                        x1, y1 = min(x0 + 1, width - 1), min(y0 + 1, height - 1)
                        fx, fy = x - x0, y - y0
                        top = image[y0, x0] * (1 - fx) + image[y0, x1] * fx
                        bottom = image[y1, x0] * (1 - fx) + image[y1, x1] * fx
                        total += top * (1 - fy) + bottom * fy
                out[rows[k], i, j] = total / (nx * ny)
