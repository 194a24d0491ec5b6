# SPDX-License-Identifier: BSD-3-Clause
"""Resizing square patches by matrices: area averages, and the bicubic of the MATLAB baselines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def area_matrix(side: int, size: int) -> NDArray[np.float64]:
    """Weights (size, side): output cell i is the mean of the input over [i, i+1) side/size.

    When growing, linear interpolation between pixel centres instead, border pixels repeated.

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
    """Weights (size, side) of Keys' cubic (a = -1/2) at the centres of `size` equal cells, borders mirrored.

    Output centre i lies at (i + 1/2) side/size - 1/2 in pixel units. The kernel keeps its width of four
    pixels when shrinking: this is what "no antialiasing" means. Samples beyond the border are mirrored
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


def resized(patches: Array, size: int) -> NDArray[np.float32]:
    """Patches (n, s, s) as float32 (n, size, size) with the intensities 0 to 255, by area."""
    if patches.shape[1] == size:
        return np.asarray(patches, np.float32)
    weights = area_matrix(patches.shape[1], size)
    return (weights @ patches @ weights.T).astype(np.float32)
