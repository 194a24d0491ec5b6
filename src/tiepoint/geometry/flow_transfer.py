# SPDX-License-Identifier: BSD-3-Clause
"""Carrying points over by a flow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .flow_validity import known


def transfer(points: NDArray[np.float64], flow: NDArray[Any]) -> NDArray[np.float64]:
    """Where points (n, 2) of image 1 end up, ``p + flow(p)``, float64 (n, 2).

    The flow (h, w, 2) is sampled bilinearly. Points outside the image take the flow of its nearest border
    position. NaN where a contributor is unknown, and for NaN points.

    >>> flow = np.zeros((2, 2, 2)); flow[:, 1] = [1.0, 0.0]
    >>> transfer(np.array([[0.5, 0.0], [9.0, 1.0]]), flow).tolist()
    [[1.0, 0.0], [10.0, 1.0]]
    """
    height, width = flow.shape[:2]
    real = np.all(np.isfinite(points), axis=1)
    where = np.clip(np.where(real[:, None], points, 0.0), 0, [width - 1, height - 1])
    low = np.minimum(np.floor(where).astype(np.int64), [max(width - 2, 0), max(height - 2, 0)])
    part = where - low
    ok = known(flow)
    total = np.zeros((len(points), 2))
    for j in (0, 1):
        for i in (0, 1):
            x, y = np.minimum(low[:, 0] + i, width - 1), np.minimum(low[:, 1] + j, height - 1)
            weight = (part[:, 0] if i else 1 - part[:, 0]) * (part[:, 1] if j else 1 - part[:, 1])
            values = np.where(ok[y, x, None], flow[y, x], np.nan)
            total += np.where(weight[:, None] > 0, weight[:, None] * values, 0.0)
    return np.where(real[:, None], points + total, np.nan)
