# SPDX-License-Identifier: BSD-3-Clause
"""Middlebury colour code of flows: direction as hue, length as saturation."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .resize import is_known_flow

_SPANS = (("RY", 15), ("YG", 6), ("GC", 4), ("CB", 11), ("BM", 13), ("MR", 6))
_CORNERS = ((255, 0, 0), (255, 255, 0), (0, 255, 0), (0, 255, 255), (0, 0, 255), (255, 0, 255), (255, 0, 0))
GREY = (128, 128, 128)


@cache
def colour_wheel() -> NDArray[np.int64]:
    """Return the 55 colours (55, 3) of the Middlebury colour wheel, in six segments between pure colours.

    >>> colour_wheel().shape, colour_wheel()[:2].tolist()
    ((55, 3), [[255, 0, 0], [255, 17, 0]])
    """
    rows = []
    for (_, steps), start, end in zip(_SPANS, _CORNERS[:-1], _CORNERS[1:], strict=True):
        for i in range(steps):
            part = 255 * i // steps
            rows.append(
                [a if a == b else (part if b else 255 - part) for a, b in zip(start, end, strict=True)]
            )
    return np.array(rows, np.int64)


def max_motion(*flows: NDArray[Any]) -> float:
    """Return the largest known displacement of the flows in pixels; 1 if all are unknown or zero.

    >>> max_motion(np.array([[[3.0, 4.0], [1e10, 1e10]]]))
    5.0
    """
    longest = 0.0
    for flow in flows:
        valid = flow[is_known_flow(flow)].astype(np.float32)
        if len(valid):
            longest = max(longest, float(np.sqrt(valid[:, 0] ** 2 + valid[:, 1] ** 2).max()))
    return longest or 1.0


def flow_color(
    flow: NDArray[Any], *, longest: float | None = None, background: tuple[int, ...] = GREY
) -> NDArray[np.uint8]:
    """Convert a flow (h, w, 2) to a colour image, RGB uint8 (h, w, 3).

    Displacements are divided by `longest`, by default `max_motion` of the flow. To compare pictures, pass the
    `max_motion` of the ground truth. With angle ``a = atan2(-v, -u)/pi`` the colour is at ``(a + 1)/2 * 54``
    on the wheel. A length r up to 1 blends the wheel colour c with white, ``1 - r (1 - c)``. A greater length
    darkens it, ``0.75 c``. Unknown flow has the colour `background`.

    >>> flow_color(np.array([[[0.0, 0.0], [1.0, 0.0], [1e10, 0.0]]])).tolist()
    [[[255, 255, 255], [255, 0, 0], [128, 128, 128]]]
    """
    known = is_known_flow(flow)
    # Single and double precision as in the original C++ code: truncating to bytes makes differences visible.
    # OpenCV divides a matrix by a number by multiplying with its float32 inverse.
    inverse = np.float32(1.0 / (max_motion(flow) if longest is None else longest))
    u = np.where(known, flow[..., 0], 0).astype(np.float32) * inverse
    v = np.where(known, flow[..., 1], 0).astype(np.float32) * inverse
    radius = np.sqrt(u * u + v * v)
    # This is atan2f, correctly rounded. NumPy's float32 arctan2 depends on the CPU.
    radians = np.arctan2(-v.astype(np.float64), -u.astype(np.float64)).astype(np.float32)
    angle = (radians.astype(np.float64) / np.pi).astype(np.float32)
    place = ((angle.astype(np.float64) + 1.0) / 2.0 * 54).astype(np.float32)
    low = place.astype(np.int64)
    part = (place - low.astype(np.float32))[..., None]
    wheel = (colour_wheel() / 255.0).astype(np.float32)
    colour = (np.float32(1) - part) * wheel[low] + part * wheel[(low + 1) % 55]
    r = radius[..., None]
    shade = np.where(r <= 1, np.float32(1) - r * (np.float32(1) - colour), colour * np.float32(0.75))
    out = (255.0 * shade.astype(np.float64)).astype(np.uint8)
    out[~known] = background
    return out
