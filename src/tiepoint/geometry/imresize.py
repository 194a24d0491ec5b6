# SPDX-License-Identifier: BSD-3-Clause
"""MATLAB's `imresize(…, 'bilinear')`, emulated: antialiased when it shrinks, in double precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def imresize(image: NDArray[Any], height: int, width: int) -> NDArray[np.float64]:
    """Resize (h, w) or (h, w, c) to float64 (height, width[, c]) with MATLAB's weights.

    A triangle of half-width 1, stretched by the inverse scale when shrinking (that is the antialiasing),
    weights normalised to sum 1, borders mirrored, the dimension with the smaller scale first.
    Emulated from its public description; not validated against MATLAB itself.

    >>> imresize(np.array([[0.0, 4.0, 8.0, 12.0]]), 1, 2).tolist()
    [[2.5, 9.5]]
    """
    out = np.asarray(image, np.float64)
    sizes = ((0, height), (1, width))
    for axis, new in sorted(sizes, key=lambda s: s[1] / image.shape[s[0]]):
        out = _along(out, axis, new)
    return out


def _along(image: NDArray[np.float64], axis: int, new: int) -> NDArray[np.float64]:
    old = image.shape[axis]
    weights, indices = contributions(old, new)
    rows = np.moveaxis(image, axis, 0)
    total = np.zeros((new, *rows.shape[1:]))
    shape = (new,) + (1,) * (rows.ndim - 1)
    for k in range(weights.shape[1]):
        if weights[:, k].any():
            total += weights[:, k].reshape(shape) * rows[indices[:, k]]
    return np.moveaxis(total, 0, axis)


def contributions(old: int, new: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Weights and source indices, both (new, taps), of every output position along one dimension.

    >>> weights, indices = contributions(4, 2)
    >>> float(weights.sum(axis=1)[0]), int(indices.max())
    (1.0, 3)
    """
    scale = new / old
    shrink = min(scale, 1.0)
    support = 2.0 / shrink
    # 1-based positions as in MATLAB: its rounding decides which weights are exactly zero.
    u = np.arange(1, new + 1) / scale + 0.5 * (1 - 1 / scale)
    left = np.floor(u - support / 2)
    index = left[:, None] + np.arange(math.ceil(support) + 2)
    distance = np.abs((u[:, None] - index) * shrink)
    weights = shrink * np.maximum(1 - distance, 0)
    weights /= weights.sum(axis=1, keepdims=True)
    mirrored = np.concatenate([np.arange(old), np.arange(old)[::-1]])
    return weights, mirrored[(index.astype(np.int64) - 1) % (2 * old)]
