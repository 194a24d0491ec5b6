# SPDX-License-Identifier: BSD-3-Clause
"""Dominant gradient direction of detections, by Lowe's weighted histogram."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...geometry.patch_sampling import similarity_frames
from ...geometry.sampling import sample_patches

_SIZE = 47
_RADIUS_SIGMAS = 6.5
_WINDOW_SIGMAS = 1.5
_BINS = 36
_CHUNK = 1000


def orientations(
    grey: NDArray[np.uint8], points: NDArray[np.float64], sigma: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Angle of the dominant gradient at each point, radians in [0, 2 pi), x towards y (clockwise on screen).

    Gradients at scale sigma, weighted by their length and by a Gaussian window of 1.5 sigma cut off at 4.5
    sigma, fall into 36 bins; the histogram is smoothed six times with a box of three and its highest peak
    refined by a parabola. One angle a point: further peaks do not make further points.

    Args:
        grey: (h, w).
        points: (n, 2).
        sigma: (n,) scales in pixels.

    Returns:
        float64 (n,).
    """
    from scipy.ndimage import gaussian_filter

    step = 2 * _RADIUS_SIGMAS / _SIZE
    offset = (np.arange(_SIZE) - (_SIZE - 1) / 2) * step
    distance2 = offset[:, None] ** 2 + offset[None, :] ** 2
    inside = distance2 <= (3 * _WINDOW_SIGMAS) ** 2
    window = np.exp(-distance2[inside] / (2 * _WINDOW_SIGMAS**2))
    angles = np.empty(len(points))
    for start in range(0, len(points), _CHUNK):
        part = slice(start, start + _CHUNK)
        frames = similarity_frames(points[part], sigma[part] * _RADIUS_SIGMAS)
        patches = sample_patches(grey, frames, _SIZE)
        smooth = gaussian_filter(patches, (0, 1 / step, 1 / step), mode="nearest")
        gy, gx = (g[:, inside] for g in np.gradient(smooth, axis=(1, 2)))
        angles[part] = _dominant(np.arctan2(gy, gx), np.hypot(gx, gy) * window)
    return angles


def _dominant(angle: NDArray[np.floating], weight: NDArray[np.floating]) -> NDArray[np.float64]:
    n = len(angle)
    place = (angle / (2 * np.pi) % 1) * _BINS - 0.5
    low = np.floor(place).astype(np.int64)
    share = place - low
    rows = np.arange(n)[:, None] * _BINS
    histogram = np.zeros(n * _BINS)
    for index, part in ((low % _BINS, 1 - share), ((low + 1) % _BINS, share)):
        histogram += np.bincount((rows + index).ravel(), (weight * part).ravel(), minlength=n * _BINS)
    bins = histogram.reshape(n, _BINS)
    for _ in range(6):
        bins = (np.roll(bins, 1, axis=1) + bins + np.roll(bins, -1, axis=1)) / 3
    top = bins.argmax(axis=1)
    before, here, after = (bins[np.arange(n), (top + d) % _BINS] for d in (-1, 0, 1))
    curve = before - 2 * here + after
    fine = np.divide(before - after, 2 * curve, out=np.zeros(n), where=curve < 0)
    return np.asarray((top + 0.5 + fine) / _BINS % 1 * 2 * np.pi)
