# SPDX-License-Identifier: BSD-3-Clause
"""Detect DoG, Hessian and Harris-Laplace keypoints on a shared Gaussian scale space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...geometry.patch_sampling import sample_patches, similarity_frames

Stack = NDArray[np.float32]

SIGMA = 1.6
LEVELS = 3
_CAMERA_SIGMA = 0.5
_EDGE = 10.0
_HARRIS = 0.04
THRESHOLDS = {"dog": 0.01, "hessian": 0.003, "harris": 2e-6}
"""Minimum response of each detector, for grey values in 0..1 and scale-normalised derivatives."""


@dataclass(frozen=True)
class Detections:
    """Detected keypoints: centres (n, 2) and scales sigma (n,) in pixels, responses (n,), detectors (n,)."""

    points: NDArray[np.float64]
    sigma: NDArray[np.float64]
    response: NDArray[np.float64]
    detector: NDArray[np.str_]


def detect(grey: NDArray[np.uint8]) -> Detections:
    """Detect DoG, Hessian and Harris-Laplace keypoints in a grey image (h, w), in a fixed order.

    The scale space starts at sigma 1.6 with three levels per octave. An extremum is a pixel above (or below)
    its 26 neighbours in position and scale, refined by a quadratic. DoG and Hessian extrema on edges (ratio
    of curvatures above 10) are dropped. Harris corners are maxima in position, at the scale where the
    Laplacian is extreme.
    """
    parts: list[Detections] = []
    for octave, levels in enumerate(_octaves((grey / 255).astype(np.float32))):
        sigma = SIGMA * 2.0 ** ((np.arange(len(levels)) - 1) / LEVELS)
        for name, found in (
            ("dog", _dog(levels)),
            ("hessian", _hessian(levels, sigma)),
            ("harris", _harris(levels, sigma)),
        ):
            level, y, x, response = found
            scale = SIGMA * 2.0 ** ((level - 1) / LEVELS)
            factor = 2.0**octave
            points = np.stack([x, y], axis=1) * factor
            parts.append(Detections(points, scale * factor, response, np.full(len(x), name)))
    return Detections(
        *(np.concatenate([getattr(p, field) for p in parts]) for field in Detections.__annotations__)
    )


Found = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def _octaves(image: Stack) -> Iterator[Stack]:
    """Yield the Gaussian levels of each octave, from -1 to LEVELS + 1.

    An octave has half the side of the one before.
    """
    from scipy.ndimage import gaussian_filter

    current = _CAMERA_SIGMA
    while min(image.shape) >= 16:
        levels = []
        for s in range(-1, LEVELS + 2):
            target = SIGMA * 2.0 ** (s / LEVELS)
            image = gaussian_filter(image, np.sqrt(max(target**2 - current**2, 0)), mode="nearest")
            levels.append(image)
            current = target
        yield np.stack(levels)
        image = np.ascontiguousarray(levels[LEVELS][::2, ::2])
        current = SIGMA * 2.0 ** ((LEVELS - 1) / LEVELS) / 2


def _dog(levels: Stack) -> Found:
    difference = np.diff(levels, axis=0)
    s, y, x = _peaks(np.abs(difference), THRESHOLDS["dog"] / 2)
    sign = np.sign(difference[s, y, x])
    level, fy, fx, value = _refine(difference, s, y, x)
    keep = (sign * value > THRESHOLDS["dog"]) & ~_on_edge(difference, s, y, x)
    return level[keep], fy[keep], fx[keep], np.abs(value[keep])


def _hessian(levels: Stack, sigma: NDArray[np.float64]) -> Found:
    second = (_second(image) for image in levels)
    det = np.stack([(xx * yy - xy * xy) * s**4 for (xx, yy, xy), s in zip(second, sigma, strict=True)])
    s, y, x = _peaks(det, THRESHOLDS["hessian"])
    level, fy, fx, value = _refine(det, s, y, x)
    keep = ~_on_edge(levels, s, y, x)
    return level[keep], fy[keep], fx[keep], value[keep]


def _harris(levels: Stack, sigma: NDArray[np.float64]) -> Found:
    from scipy.ndimage import gaussian_filter, maximum_filter

    second = (_second(image) for image in levels)
    laplace = np.stack([np.abs(xx + yy) * s**2 for (xx, yy, _), s in zip(second, sigma, strict=True)])
    parts: list[Found] = []
    for s in range(1, len(levels) - 1):
        gy, gx = np.gradient(levels[s])
        moments = (
            gaussian_filter(m, sigma[s], mode="nearest") * sigma[s] ** 2 for m in (gx * gx, gy * gy, gx * gy)
        )
        a, b, c = moments
        response = a * b - c * c - _HARRIS * (a + b) ** 2
        peak = (response == maximum_filter(response, 3)) & (response > THRESHOLDS["harris"])
        peak &= (laplace[s] >= laplace[s - 1]) & (laplace[s] >= laplace[s + 1])
        peak[[0, -1]] = peak[:, [0, -1]] = False
        y, x = np.nonzero(peak)
        _, fy, fx, value = _refine(response[None], np.zeros(len(y), dtype=np.int64), y, x)
        before, middle, after = (laplace[s + d, y, x].astype(np.float64) for d in (-1, 0, 1))
        parts.append((s + _parabola(before, middle, after), fy, fx, value))
    level, fy, fx, value = (np.concatenate(p) for p in zip(*parts, strict=True))
    return level, fy, fx, value


def _peaks(stack: Stack, threshold: float) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return (level, y, x) of local maxima above a threshold, compared with their 26 neighbours.

    The image border and the outer scale levels are excluded.
    """
    from scipy.ndimage import maximum_filter

    peak = (stack == maximum_filter(stack, 3)) & (stack > threshold)
    peak[[0, -1]] = peak[:, [0, -1]] = peak[:, :, [0, -1]] = False
    s, y, x = np.nonzero(peak)
    return s, y, x


def _refine(stack: Stack, s: NDArray[np.int64], y: NDArray[np.int64], x: NDArray[np.int64]) -> Found:
    """Refine extrema (s, y, x) by a parabola along each axis. Return positions and interpolated values.

    A position changes by at most half a step.
    """
    middle = stack[s, y, x].astype(np.float64)
    offsets, value = [], middle.copy()
    for axis, size in enumerate(stack.shape):
        if size == 1:
            offsets.append(np.zeros(len(s)))
            continue
        low = tuple(v - (i == axis) for i, v in enumerate((s, y, x)))
        high = tuple(v + (i == axis) for i, v in enumerate((s, y, x)))
        before, after = stack[low].astype(np.float64), stack[high].astype(np.float64)
        offset = _parabola(before, middle, after)
        value += 0.25 * (after - before) * offset
        offsets.append(offset)
    return s + offsets[0], y + offsets[1], x + offsets[2], value


def _parabola(
    before: NDArray[np.float64], middle: NDArray[np.float64], after: NDArray[np.float64]
) -> NDArray[np.float64]:
    curve = before - 2 * middle + after
    offset = np.divide(before - after, 2 * curve, out=np.zeros_like(middle), where=curve != 0)
    return np.clip(offset, -0.5, 0.5)


def _second(image: Stack) -> tuple[Stack, Stack, Stack]:
    """Return the second derivatives xx, yy, xy by central differences, zero on the image border."""
    xx, yy, xy = np.zeros_like(image), np.zeros_like(image), np.zeros_like(image)
    xx[:, 1:-1] = image[:, 2:] - 2 * image[:, 1:-1] + image[:, :-2]
    yy[1:-1] = image[2:] - 2 * image[1:-1] + image[:-2]
    xy[1:-1, 1:-1] = (image[2:, 2:] - image[2:, :-2] - image[:-2, 2:] + image[:-2, :-2]) / 4
    return xx, yy, xy


def _on_edge(
    stack: Stack, s: NDArray[np.int64], y: NDArray[np.int64], x: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return whether each point (s, y, x) is on an edge.

    On an edge, one principal curvature is at least 10 times the other, or the two have different signs.
    """
    around = {(dy, dx): stack[s, y + dy, x + dx].astype(np.float64) for dy in (-1, 0, 1) for dx in (-1, 0, 1)}
    xx = around[0, 1] - 2 * around[0, 0] + around[0, -1]
    yy = around[1, 0] - 2 * around[0, 0] + around[-1, 0]
    xy = (around[1, 1] - around[1, -1] - around[-1, 1] + around[-1, -1]) / 4
    det, trace = xx * yy - xy * xy, xx + yy
    return np.asarray((det <= 0) | (trace**2 * _EDGE >= det * (_EDGE + 1) ** 2))


_SIZE = 47
_RADIUS_SIGMAS = 6.5
_WINDOW_SIGMAS = 1.5
_BINS = 36
_CHUNK = 1000


def orientations(
    grey: NDArray[np.uint8], points: NDArray[np.float64], sigma: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the dominant gradient orientation at each point.

    Angles are in radians in [0, 2 pi), from x towards y. Gradients at scale sigma are collected in a
    histogram of 36 bins. Their weights are the gradient magnitude and a Gaussian window of 1.5 sigma, cut off
    at 4.5 sigma. The histogram is smoothed six times with a box filter of width three, and its highest peak
    is refined with a parabola. Each point gets one angle, even if the histogram has several peaks.

    Args:
        grey: Grey image (h, w).
        points: Positions (n, 2).
        sigma: Scales (n,) in pixels.

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
    position = (angle / (2 * np.pi) % 1) * _BINS - 0.5
    low = np.floor(position).astype(np.int64)
    share = position - low
    rows = np.arange(n)[:, None] * _BINS
    histogram = np.zeros(n * _BINS)
    for index, part in ((low % _BINS, 1 - share), ((low + 1) % _BINS, share)):
        histogram += np.bincount((rows + index).ravel(), (weight * part).ravel(), minlength=n * _BINS)
    bins = histogram.reshape(n, _BINS)
    for _ in range(6):
        bins = (np.roll(bins, 1, axis=1) + bins + np.roll(bins, -1, axis=1)) / 3
    top = bins.argmax(axis=1)
    before, middle, after = (bins[np.arange(n), (top + d) % _BINS] for d in (-1, 0, 1))
    curve = before - 2 * middle + after
    fine = np.divide(before - after, 2 * curve, out=np.zeros(n), where=curve < 0)
    return np.asarray((top + 0.5 + fine) / _BINS % 1 * 2 * np.pi)
