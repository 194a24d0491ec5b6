# SPDX-License-Identifier: BSD-3-Clause
"""Uses of flows: warp images, transfer points, undo mirroring, convert homographies, check consistency."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..homography import project
from .reference_resize import interp2_cubic
from .resize import SOUND, UNKNOWN, FlowRule, is_known_flow, loop_ready

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Flow = NDArray[Any]


def warp_image(image: Bytes, flow: Flow, *, outside: tuple[int, ...] = (0, 255, 255)) -> Bytes:
    """Warp image 2 (h, w) or (h, w, c) to image 1: sample it at ``p + flow(p)``, uint8.

    Positions are rounded to 1/32 px and weights are integers, as in OpenCV's `remap`. The code does not call
    OpenCV, so the result does not depend on its version. Samples outside the image have the value `outside`.

    >>> warp_image(np.array([[10, 20]], np.uint8), np.full((1, 2, 2), [0.5, 0.0]), outside=(0,)).tolist()
    [[15, 10]]
    """
    from ._remap_loops import remap_bytes

    stack = np.ascontiguousarray(image.reshape(*image.shape[:2], -1))
    border = np.array(outside[: stack.shape[2]], np.int64)
    values = np.ascontiguousarray(flow, np.float32)
    out = remap_bytes(stack, values, border)
    return out.reshape(flow.shape[:2] + image.shape[2:])


def unflip(flow: Flow, width: int) -> Flow:
    """Convert a flow into the mirrored image 2 to a flow into the original image 2.

    Mirrored pairs are easier to match after mirroring image 2 (``image2[:, ::-1]``). The flow then points to
    ``x + u`` in the mirrored image, which is ``width - 1 - (x + u)`` in the original image: ``u' = (width -
    1) - (x + u) - x``, where `width` is the width of image 2. v and unknown flow do not change. float64 stays
    float64, every other type becomes float32. Applying the function twice returns the original flow up to
    rounding. In float32 the rounding error of u is at most 6e-5 px for widths below 1024.

    >>> flow = np.zeros((1, 3, 2))
    >>> unflip(flow, 3)[..., 0].tolist()
    [[2.0, 0.0, -2.0]]
    """
    out: Flow = np.array(flow, np.float64 if flow.dtype == np.float64 else np.float32)
    x = np.arange(flow.shape[1])
    mirrored = (width - 1) - 2 * x - out[..., 0].astype(np.float64)
    out[..., 0] = np.where(is_known_flow(flow), mirrored, out[..., 0])
    return out


def transfer(points: Floats, flow: Flow) -> Floats:
    """Move points (n, 2) of image 1 by the flow: ``p + flow(p)``, float64 (n, 2).

    The flow (h, w, 2) is sampled bilinearly. Points outside the image use the flow of the nearest border
    position. The result is NaN if a sampled flow pixel is unknown or the point is NaN.

    >>> flow = np.zeros((2, 2, 2)); flow[:, 1] = [1.0, 0.0]
    >>> transfer(np.array([[0.5, 0.0], [9.0, 1.0]]), flow).tolist()
    [[1.0, 0.0], [10.0, 1.0]]
    """
    height, width = flow.shape[:2]
    finite = np.all(np.isfinite(points), axis=1)
    where = np.clip(np.where(finite[:, None], points, 0.0), 0, [width - 1, height - 1])
    low = np.minimum(np.floor(where).astype(np.int64), [max(width - 2, 0), max(height - 2, 0)])
    part = where - low
    known = is_known_flow(flow)
    total = np.zeros((len(points), 2))
    for j in (0, 1):
        for i in (0, 1):
            x, y = np.minimum(low[:, 0] + i, width - 1), np.minimum(low[:, 1] + j, height - 1)
            weight = (part[:, 0] if i else 1 - part[:, 0]) * (part[:, 1] if j else 1 - part[:, 1])
            values = np.where(known[y, x, None], flow[y, x], np.nan)
            total += np.where(weight[:, None] > 0, weight[:, None] * values, 0.0)
    return np.where(finite[:, None], points + total, np.nan)


def homography_flow(h: Floats, size: tuple[int, int]) -> Floats:
    """Return the flow ``H p - p``, (height, width, 2), of every pixel of an image of `size` (height, width).

    The flow is unknown (1e10) if the homography maps a pixel to infinity or behind the camera. It may point
    outside the other image; see `lands_inside`.

    >>> homography_flow(np.diag([2.0, 2.0, 1.0]), (2, 2))[1, 1].tolist()
    [1.0, 1.0]
    """
    y, x = np.mgrid[: size[0], : size[1]]
    points = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float64)
    target = project(h, points, reference=((size[1] - 1) / 2, (size[0] - 1) / 2))
    flow = np.where(np.isfinite(target).all(axis=1, keepdims=True), target - points, UNKNOWN)
    return flow.reshape(*size, 2)


def lands_inside(flow: Flow, size: tuple[int, int]) -> Bools:
    """Return whether each flow vector (h, w, 2) ends within the pixel centres of an image of (height, width).

    >>> lands_inside(np.full((1, 2, 2), [1.0, 0.0]), (1, 2)).tolist()
    [[True, False]]
    """
    x, y = np.arange(flow.shape[1]), np.arange(flow.shape[0])[:, None]
    tx, ty = x + flow[..., 0], y + flow[..., 1]
    inside: Bools = (tx >= 0) & (tx <= size[1] - 1) & (ty >= 0) & (ty <= size[0] - 1)
    return inside & is_known_flow(flow)


def consistency_masks(flow1: Flow, flow2: Flow, *, rule: FlowRule = SOUND) -> tuple[Bytes, Bytes]:
    """Return masks (0 or 255) of the pixels whose round trip through both flows is consistent.

    A pixel p of image 1 is foreground if ``|flow1(p) + flow2(p + flow1(p))|`` is less than
    `rule.consistency_threshold_px`; the mask of image 2 is computed likewise. Flow 2 is sampled by
    `rule.resampling`: `bilinear` in float64; `opencv` in steps of 1/32 px in float32, 1e10 outside;
    `imresize` by cubic convolution, in which the value of an unknown pixel affects its neighbours.

    A pixel is background if its flow ends outside the other image or at unknown flow. With
    `rule.both_unknown` and `opencv` there is an exception: an unknown flow (-1e10, -1e10) plus the value 1e10
    outside the image sums to 0, so the pixel is foreground. Other values for unknown flow give a large sum or
    NaN.

    >>> there, back = np.full((4, 9, 2), [2.0, 0.0]), np.full((4, 9, 2), [-2.0, 0.0])
    >>> consistency_masks(there, back)[0][0].tolist()
    [255, 255, 255, 255, 255, 255, 255, 0, 0]
    """
    one = {"bilinear": _bilinear, "opencv": _opencv, "imresize": _cubic}[rule.resampling]
    mask1, mask2 = one(flow1, flow2, rule), one(flow2, flow1, rule)
    return mask1.astype(np.uint8) * np.uint8(255), mask2.astype(np.uint8) * np.uint8(255)


def _bilinear(flow: Flow, back: Flow, rule: FlowRule) -> Bools:
    from ._remap_loops import sample_flow

    gap = flow + sample_flow(loop_ready(back), loop_ready(flow))
    return np.hypot(gap[..., 0], gap[..., 1]) < rule.consistency_threshold_px(back.shape[:2])


def _opencv(flow: Flow, back: Flow, rule: FlowRule) -> Bools:
    from ._remap_loops import remap_float

    source = np.ascontiguousarray(flow, np.float32)
    sampled = remap_float(np.ascontiguousarray(back, np.float32), source, UNKNOWN)
    with np.errstate(over="ignore", invalid="ignore"):
        gap = source + sampled
        distance = np.sqrt(gap[..., 0] * gap[..., 0] + gap[..., 1] * gap[..., 1])
    near: Bools = distance < np.float32(rule.consistency_threshold_px(back.shape[:2]))
    known, known_back = is_known_flow(source), is_known_flow(sampled)
    return near & ((known == known_back) if rule.both_unknown else known & known_back)


def _cubic(flow: Flow, back: Flow, rule: FlowRule) -> Bools:
    height, width = back.shape[:2]
    x = np.arange(flow.shape[1]) + flow[..., 0].astype(np.float64)
    y = np.arange(flow.shape[0])[:, None] + flow[..., 1].astype(np.float64)
    inside = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
    out = np.zeros(flow.shape[:2], bool)
    with np.errstate(invalid="ignore"):
        gap = flow[inside] + interp2_cubic(back.astype(np.float64), x[inside], y[inside])
        out[inside] = np.hypot(gap[:, 0], gap[:, 1]) < rule.consistency_threshold_px((height, width))
    return out
