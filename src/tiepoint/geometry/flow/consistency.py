# SPDX-License-Identifier: BSD-3-Clause
"""Foreground from two opposite flows: where going there and coming back ends near the start."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .matlab import interp2_cubic
from .rules import SOUND, UNKNOWN, FlowRule, is_known_flow, loop_ready

Flow = NDArray[Any]


def consistency_masks(
    flow1: Flow, flow2: Flow, *, rule: FlowRule = SOUND
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Masks (0 or 255) of image 1 and image 2: ``|flow1(p) + flow2(p + flow1(p))| < threshold``, strictly.

    The threshold is `rule.closed`. Flow 2 is sampled by `rule.resampling`: `bilinear` in float64; `opencv` in
    steps of 1/32 px in float32, 1e10 outside; `imresize` by cubic convolution, in which the code for unknown
    rings into its neighbours.

    Background where the flow leaves the other image or meets unknown flow. Quirk of `rule.both_unknown`: what
    is unknown on both sides is summed as it is, so a flow of (-1e10, -1e10), which leaves the image and meets
    the 1e10 outside, ends where it started and is foreground; of every other code the sum is huge, or NaN.

    >>> there, back = np.full((4, 9, 2), [2.0, 0.0]), np.full((4, 9, 2), [-2.0, 0.0])
    >>> consistency_masks(there, back)[0][0].tolist()
    [255, 255, 255, 255, 255, 255, 255, 0, 0]
    """
    one = {"bilinear": _bilinear, "opencv": _opencv, "imresize": _cubic}[rule.resampling]
    masks = (
        one(flow1, flow2, rule),
        one(flow2, flow1, rule),
    )
    return masks[0].astype(np.uint8) * np.uint8(255), masks[1].astype(np.uint8) * np.uint8(255)


def _bilinear(flow: Flow, back: Flow, rule: FlowRule) -> NDArray[np.bool_]:
    from ._remap_loops import sample_flow

    closed = flow + sample_flow(loop_ready(back), loop_ready(flow))
    return np.hypot(closed[..., 0], closed[..., 1]) < rule.closed(back.shape[:2])


def _opencv(flow: Flow, back: Flow, rule: FlowRule) -> NDArray[np.bool_]:
    from ._remap_loops import remap_float

    source = np.ascontiguousarray(flow, np.float32)
    found = remap_float(np.ascontiguousarray(back, np.float32), source, UNKNOWN)
    with np.errstate(over="ignore", invalid="ignore"):
        closed = source + found
        distance = np.sqrt(closed[..., 0] * closed[..., 0] + closed[..., 1] * closed[..., 1])
    near: NDArray[np.bool_] = distance < np.float32(rule.closed(back.shape[:2]))
    here, there = is_known_flow(source), is_known_flow(found)
    return near & ((here == there) if rule.both_unknown else here & there)


def _cubic(flow: Flow, back: Flow, rule: FlowRule) -> NDArray[np.bool_]:
    height, width = back.shape[:2]
    x = np.arange(flow.shape[1]) + flow[..., 0].astype(np.float64)
    y = np.arange(flow.shape[0])[:, None] + flow[..., 1].astype(np.float64)
    inside = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
    out = np.zeros(flow.shape[:2], bool)
    with np.errstate(invalid="ignore"):
        found = interp2_cubic(back.astype(np.float64), x[inside], y[inside])
        closed = flow[inside] + found
        out[inside] = np.hypot(closed[:, 0], closed[:, 1]) < rule.closed((height, width))
    return out
