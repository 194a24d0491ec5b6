# SPDX-License-Identifier: BSD-3-Clause
"""The flow of a homography, and where a flow stays inside the other image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .flow_validity import UNKNOWN, known
from .homography import project


def homography_flow(h: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.float64]:
    """Flow ``H p - p`` of every pixel of an image of `size` (height, width), float64 (height, width, 2).

    Unknown (1e10) where the homography sends a pixel to infinity or behind the camera. It may leave the
    other image: see `lands_inside`.

    >>> homography_flow(np.diag([2.0, 2.0, 1.0]), (2, 2))[1, 1].tolist()
    [1.0, 1.0]
    """
    y, x = np.mgrid[: size[0], : size[1]]
    points = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float64)
    target = project(h, points, reference=((size[1] - 1) / 2, (size[0] - 1) / 2))
    flow = np.where(np.isfinite(target).all(axis=1, keepdims=True), target - points, UNKNOWN)
    return flow.reshape(*size, 2)


def lands_inside(flow: NDArray[Any], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Where a flow points into an image of `size` (height, width), at or between its pixel centres.

    >>> lands_inside(np.full((1, 2, 2), [1.0, 0.0]), (1, 2)).tolist()
    [[True, False]]
    """
    x, y = np.arange(flow.shape[1]), np.arange(flow.shape[0])[:, None]
    tx, ty = x + flow[..., 0], y + flow[..., 1]
    inside: NDArray[np.bool_] = (tx >= 0) & (tx <= size[1] - 1) & (ty >= 0) & (ty <= size[0] - 1)
    return inside & known(flow)
