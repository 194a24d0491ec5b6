# SPDX-License-Identifier: BSD-3-Clause
"""Discs cut by the border of an image: the chance of a blind guess to come near a point."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

STEPS = 128


def disc_share(
    centres: ArrayLike, radius: ArrayLike, size: ArrayLike, steps: int = STEPS
) -> NDArray[np.float64]:
    """Share of an image's area within a radius of a point, (n,): what a uniformly random guess hits.

    The image of `size` (width, height) covers -0.5 to width - 0.5. Sums over `steps` strips of the disc,
    evenly spaced in angle; off by less than 1e-3 of the share.

    Args:
        centres: (n, 2) points.
        radius: of each disc, (n,) or one number.
        size: (width, height) of each image, (n, 2) or one of all.
        steps: number of strips.

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
