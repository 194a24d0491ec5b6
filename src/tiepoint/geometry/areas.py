# SPDX-License-Identifier: BSD-3-Clause
"""Overlap of regions: intersection over union of circles and of ellipses."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .homography import Floats
from .patch_sampling import as_frames


def circle_overlap(distance: ArrayLike, radius_a: ArrayLike, radius_b: ArrayLike) -> Floats:
    """Return the exact intersection over union of two discs, elementwise.

    The common area of two discs at distance d with radii r and R is
    r^2 (alpha - sin(alpha) cos(alpha)) + R^2 (beta - sin(beta) cos(beta)),
    where cos(alpha) = (d^2 + r^2 - R^2) / 2dr, and cos(beta) is the same with r and R exchanged.

    >>> circle_overlap(0.0, 1.0, 2.0).item(), circle_overlap(3.0, 1.0, 2.0).item()
    (0.25, 0.0)
    """
    d, r, q = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (distance, radius_a, radius_b)))
    small, apart = np.minimum(r, q), d >= r + q
    inside = d <= np.abs(r - q)
    safe = np.where(inside, 1.0, d)
    alpha = np.arccos(np.clip((d**2 + r**2 - q**2) / (2 * safe * r), -1, 1))
    beta = np.arccos(np.clip((d**2 + q**2 - r**2) / (2 * safe * q), -1, 1))
    lens = r**2 * (alpha - np.sin(2 * alpha) / 2) + q**2 * (beta - np.sin(2 * beta) / 2)
    lens = np.where(apart, 0.0, np.where(inside, np.pi * small**2, lens))
    return lens / (np.pi * (r**2 + q**2) - lens)


def ellipse_overlap(frames_a: ArrayLike, frames_b: ArrayLike, *, nodes: int = 256) -> Floats:
    """Return the intersection over union (n,) of pairs of ellipses, row by row.

    `frames_a` and `frames_b` are affine frames (n, 2, 3), see `patch_sampling`. The orientation of a frame
    has no effect. The overlap is NaN if a frame is NaN, and 0 if an ellipse has no area. It is integrated
    numerically: the error is below 1e-4 with 256 `nodes` and decreases with their square.

    >>> circle, stretched = [[1, 0, 0], [0, 1, 0]], [[2, 0, 0], [0, 1, 0]]
    >>> ellipse_overlap([circle], [stretched]).round(4).tolist()
    [0.5]
    """
    a, b = as_frames(frames_a), as_frames(frames_b)
    bad = np.asarray(~np.isfinite(a).all(axis=(1, 2)) | ~np.isfinite(b).all(axis=(1, 2)))
    unit = np.array([[1.0, 0, 0], [0, 1.0, 0]])
    a, b = (np.where(bad[:, None, None], unit, f) for f in (a, b))
    flat = np.asarray(np.linalg.det(a[:, :, :2]) * np.linalg.det(b[:, :, :2]) == 0)
    a, b = (np.where(flat[:, None, None], unit, f) for f in (a, b))
    relative = np.linalg.solve(a[:, :, :2], np.concatenate([b[:, :, :2], b[:, :, 2:] - a[:, :, 2:]], axis=2))
    axes, radii, _ = np.linalg.svd(relative[:, :, :2])
    cx, cy = np.einsum("nji,nj->in", axes, relative[:, :, 2])
    common = _disc_and_ellipse(cx, cy, radii[:, 0], radii[:, 1], nodes)
    overlap = common / (np.pi * (1 + radii[:, 0] * radii[:, 1]) - common)
    return np.where(bad, np.nan, np.where(flat, 0.0, np.clip(overlap, 0, 1)))


def _disc_and_ellipse(cx: Floats, cy: Floats, rx: Floats, ry: Floats, nodes: int) -> Floats:
    """Return the common area of the unit disc and axis-aligned ellipses, by numerical integration.

    (cx, cy) is the centre of an ellipse and (rx, ry) are its radii.
    """
    low, high = np.maximum(-1, cx - rx), np.minimum(1, cx + rx)
    middle, half = (low + high) / 2, np.maximum(high - low, 0) / 2
    t = (np.arange(nodes) + 0.5) / nodes * np.pi - np.pi / 2
    x = middle[:, None] + half[:, None] * np.sin(t)
    disc = np.sqrt(np.clip(1 - x**2, 0, None))
    other = ry[:, None] * np.sqrt(np.clip(1 - ((x - cx[:, None]) / rx[:, None]) ** 2, 0, None))
    top, bottom = np.minimum(disc, cy[:, None] + other), np.maximum(-disc, cy[:, None] - other)
    chord = np.clip(top - bottom, 0, None)
    return np.asarray((chord * np.cos(t)).sum(axis=1) * half * np.pi / nodes)


STEPS = 128


def disc_share(
    centres: ArrayLike, radius: ArrayLike, size: ArrayLike, steps: int = STEPS
) -> NDArray[np.float64]:
    """Return the share (n,) of an image's area within a radius of each point.

    This is the probability that a random guess hits the disc. `centres` has shape (n, 2). `radius` is (n,) or
    one number, in pixels. `size` is (n, 2) with (width, height), or one (width, height) for all points. The
    image covers x from -0.5 to width - 0.5. The disc is divided into `steps` strips, evenly spaced in angle;
    the relative error is below 1e-3.

    >>> disc_share([[49.5, 49.5], [-0.5, -0.5]], 10.0, (100, 100)).round(3).tolist()
    [0.031, 0.008]
    >>> disc_share([[0.0, 0.0]], 1e4, (7, 5)).round(3).tolist()
    [1.0]
    """
    c = np.asarray(centres, np.float64).reshape(-1, 2)
    r = np.broadcast_to(np.asarray(radius, np.float64), len(c))[:, None]
    w, h = np.broadcast_to(np.asarray(size, np.float64), (len(c), 2)).T[:, :, None]
    left, right = np.clip(c[:, :1] - r, -0.5, w - 0.5), np.clip(c[:, :1] + r, -0.5, w - 0.5)
    with np.errstate(invalid="ignore", divide="ignore"):
        first, last = (np.arcsin(np.clip(np.nan_to_num((x - c[:, :1]) / r), -1, 1)) for x in (left, right))
    angle = first + (last - first) * (np.arange(steps) + 0.5) / steps
    half = r * np.cos(angle)
    tall = np.clip(c[:, 1:] + half, -0.5, h - 0.5) - np.clip(c[:, 1:] - half, -0.5, h - 0.5)
    area = (tall * half).sum(axis=1) * (last - first)[:, 0] / steps
    return np.asarray(area / (w * h)[:, 0], np.float64)
