# SPDX-License-Identifier: BSD-3-Clause
"""An image seen through a homography, without aliasing."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from ..core.numba_cache import cached_njit
from .corners import corners
from .covisibility import Size
from .homography import as_homography, denominator, local_affine

_MAX_RENDER_SAMPLES = 16


def render_view(image: ArrayLike, to_source: ArrayLike, size: Size) -> NDArray[np.float32]:
    """Each output pixel is the mean of the source over the pixel's cell, seen through a homography.

    The cell is sampled bilinearly on k x k points, k = ceil(largest stretch of the homography over the output
    corners), at least 2, so that samples lie no further apart than source pixels. Outside the source its
    nearest edge pixel is repeated.

    Args:
        image: (h, w, channels), any real type.
        to_source: (3, 3), from **output** pixels to source pixels.
        size: (width, height) of the output; all of it must be in front, else `InputError`.

    Returns:
        float32 (height, width, channels).

    >>> ramp = np.arange(12.0).reshape(1, 12, 1)
    >>> render_view(ramp, [[3, 0, 1], [0, 1, 0], [0, 0, 1]], (4, 1)).ravel().tolist()
    [1.0, 4.0, 7.0, 10.0]
    """
    pixels = np.ascontiguousarray(image, dtype=np.float32)
    if pixels.ndim != 3 or pixels.size == 0:
        raise InputError(f"render needs an image (h, w, channels), found shape {pixels.shape}")
    m, around = as_homography(to_source), corners((size[0] + 1, size[1] + 1)) - 0.5
    w = denominator(m, around)
    if not (np.all(w > 0) or np.all(w < 0)):
        raise InputError("part of the output lies at or behind infinity")
    stretch = float(np.linalg.norm(local_affine(m, around), ord=2, axis=(1, 2)).max())
    count = min(max(math.ceil(stretch), 2), _MAX_RENDER_SAMPLES)
    out = np.empty((size[1], size[0], pixels.shape[2]), dtype=np.float32)
    _render(pixels, m, count, out)
    return out


@cached_njit(nogil=True)
def _render(image, m, count, out):  # type: ignore[no-untyped-def]
    height, width, channels = image.shape
    total = np.empty(channels)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total[:] = 0.0
            for q in range(count):
                v = i + (q + 0.5) / count - 0.5
                for p in range(count):
                    u = j + (p + 0.5) / count - 0.5
                    w = m[2, 0] * u + m[2, 1] * v + m[2, 2]
                    x = min(max((m[0, 0] * u + m[0, 1] * v + m[0, 2]) / w, 0.0), width - 1.0)
                    y = min(max((m[1, 0] * u + m[1, 1] * v + m[1, 2]) / w, 0.0), height - 1.0)
                    x0, y0 = int(x), int(y)
                    x1, y1 = min(x0 + 1, width - 1), min(y0 + 1, height - 1)
                    fx, fy = x - x0, y - y0
                    for c in range(channels):
                        top = image[y0, x0, c] * (1 - fx) + image[y0, x1, c] * fx
                        bottom = image[y1, x0, c] * (1 - fx) + image[y1, x1, c] * fx
                        total[c] += top * (1 - fy) + bottom * fy
            out[i, j] = total / (count * count)
