# SPDX-License-Identifier: BSD-3-Clause
"""Resize flow pairs and masks to new image sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .reference_resize import imresize, resize_u8, taps

Bytes = NDArray[np.uint8]

UNKNOWN = 1e10
"""Value of both components u and v of an unknown pixel."""

LIMIT = 1e9
"""Largest magnitude of a valid flow component. A larger component marks unknown flow."""


def is_known_flow(flow: Flow) -> NDArray[np.bool_]:
    """Return a boolean mask of known flow (..., 2): ``|u| <= 1e9 and |v| <= 1e9``, not NaN.

    Scores, pictures and converters all use this test. A component of exactly 1e9 is known.

    >>> is_known_flow(np.array([[0, 0], [1e10, 0], [0, -1e10], [np.nan, 0], [1e9, 0]])).tolist()
    [True, False, False, False, True]
    """
    return (np.abs(flow[..., 0]) <= LIMIT) & (np.abs(flow[..., 1]) <= LIMIT)


def loop_ready(flow: Any) -> Flow:
    """Convert a flow (h, w, 2) for the compiled loops: native contiguous float32 or float64.

    float16 and big-endian float32 become float32. Every other real type except float32 becomes float64. A
    flow that already has a supported type is returned without a copy.

    >>> loop_ready(np.ones((2, 3, 2), ">f4")[:, ::-1]).dtype.name
    'float32'
    """
    values = np.asarray(flow)
    if values.ndim != 3 or values.shape[2] != 2 or values.dtype.kind not in "fiub":
        raise ValueError(
            f"flow: expected real numbers of shape (height, width, 2), found {values.dtype} "
            f"{values.shape}; convert it first"
        )
    small = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return np.require(values, np.float32 if small else np.float64, ["C", "A"])


RESAMPLINGS = ("bilinear", "opencv", "imresize")


@dataclass(frozen=True)
class FlowRule:
    """Conventions for resizing flows and masks, scoring flows, and computing masks from flows.

    The defaults are recommended. Other values reproduce published evaluation tools.

    Attributes:
        resampling: `bilinear` computes in float64, and a pixel of weight 0 has no effect. `opencv` reproduces
            OpenCV's arithmetic: float32, steps of 1/32 px when a flow is sampled, integer weights for masks,
            and 0 times NaN is NaN. `imresize` reproduces MATLAB's arithmetic: float64, antialiased, and cubic
            when a flow is sampled.
        first_pixel: coordinate of the first pixel in the formula of `resize_flow_pair`. 1/2 preserves pixel
            areas.
        closed_px: constant part of the threshold on the round-trip error in `consistency_masks`.
        closed_share: variable part of that threshold, relative to the larger side of the target image.
        unknown_error_px: error that an unknown estimate gets, in pixels.
        double_factors: whether `opencv` scales a resized flow by float64 factors and rounds each product to
            float32. Otherwise all arithmetic is float32.
        both_unknown: whether `opencv` adds two unknown flows like known flows when it tests a round trip.
            Otherwise a round trip with unknown flow is not consistent.
        lenient: whether ground truth with ``u < 1e9`` counts as known for any v. A NaN error then counts as
            correct.

    >>> FlowRule(closed_px=20.0, closed_share=0.0).consistency_threshold_px((300, 400))
    20.0
    """

    resampling: str = "bilinear"
    first_pixel: float = 0.5
    closed_px: float = 0.0
    closed_share: float = 0.025
    unknown_error_px: float = float("inf")
    double_factors: bool = False
    both_unknown: bool = False
    lenient: bool = False

    def __post_init__(self) -> None:
        if self.resampling not in RESAMPLINGS:
            raise ValueError(f"unknown resampling {self.resampling!r}; choose one of {RESAMPLINGS}")

    @property
    def dtype(self) -> type:
        """Floating-point type of the arithmetic."""
        return np.float32 if self.resampling == "opencv" else np.float64

    def consistency_threshold_px(self, target: tuple[int, int]) -> float:
        """Return the threshold on the round-trip error in pixels; `target` is (height, width)."""
        return self.closed_px + self.closed_share * max(target)


SOUND = FlowRule()
Size = tuple[int, int]
Flow = NDArray[Any]


def resize_flow_pair(
    flow1: Flow, flow2: Flow, size1: Size, size2: Size, *, rule: FlowRule = SOUND
) -> tuple[Flow, Flow]:
    """Resize two opposite flows to new image sizes (height, width).

    Flow 1 is defined on image 1 and points into image 2. With old widths w1, w2 and new widths W1, W2 of the
    two images, the new horizontal component at column x is::

        u' = (r + x * w1/W1) * W2/w2 - x

    where r is the old component interpolated at that pixel, and x is counted from `rule.first_pixel`. Columns
    x = 1/2, 3/2, … preserve pixel areas. With integer columns, the flow has a constant error of ``(w1/W1 *
    W2/w2 - 1)/2`` px if the two images are scaled differently. A pixel is unknown (1e10) if any source pixel
    that contributes to it is unknown. A source pixel of weight 0 does not contribute, except with `opencv`:
    there 0 times NaN or infinity is NaN, which makes the output pixel unknown. If neither size changes, the
    flows are returned unchanged. If one size changes, the formula is applied to both flows.

    With `rule.double_factors` flows are float32 and the factors ``w1/W1`` and ``W2/w2`` are float64. Each
    product is computed in float64 and rounded to float32. Sums are computed in float32.

    >>> zoomed, _ = resize_flow_pair(np.full((2, 2, 2), 3.0), np.zeros((2, 2, 2)), (4, 4), (4, 4))
    >>> zoomed[0, 0].tolist()
    [6.0, 6.0]
    """
    old1, old2 = _size(flow1), _size(flow2)
    if (old1, old2) == (size1, size2):
        return flow1, flow2
    one = _antialiased if rule.resampling == "imresize" else _bilinear
    return one(flow1, size1, old2, size2, rule), one(flow2, size2, old1, size1, rule)


def same_scale(size: Size, full: Size, other: Size) -> Size:
    """Return the size `other`, scaled by ``size / full`` on each axis.

    It gives the missing size if a method returned only one flow: both images are assumed to be resized alike.

    >>> same_scale((20, 30), (40, 60), (50, 80)), same_scale((20, 60), (40, 60), (50, 80))
    ((25, 40), (25, 80))
    """
    height, width = (max(1, round(o * s / f)) for o, s, f in zip(other, size, full, strict=True))
    return height, width


def _size(flow: Flow) -> Size:
    return int(flow.shape[0]), int(flow.shape[1])


def _bilinear(flow: Flow, size: Size, old_other: Size, other: Size, rule: FlowRule) -> Flow:
    from ._bilinear_loops import resize_flow

    values, plan = resize_plan(flow, size, old_other, other, rule)
    return resize_flow(values, *plan)


def resize_plan(
    flow: Flow, size: Size, old_other: Size, other: Size, rule: FlowRule
) -> tuple[Flow, tuple[Any, ...]]:
    """Return the arguments of the bilinear loops: flow values, source indices, weights, offsets, factors."""
    dtype, opencv = rule.dtype, rule.resampling == "opencv"
    (h, w), (new_h, new_w) = _size(flow), size
    bx = np.arange(new_w, dtype=dtype) + dtype(rule.first_pixel)
    by = np.arange(new_h, dtype=dtype) + dtype(rule.first_pixel)
    to: Flow
    if rule.double_factors:
        ax, ay = ((b.astype(np.float64) * f).astype(dtype) for b, f in ((bx, w / new_w), (by, h / new_h)))
        to = np.array([other[1] / old_other[1], 1, other[0] / old_other[0], 1])
    else:
        ax, ay = bx * dtype(w) / dtype(new_w), by * dtype(h) / dtype(new_h)
        to = np.array([other[1], old_other[1], other[0], old_other[0]], dtype)
    values = loop_ready(flow)
    # OpenCV copies a flow of unchanged size; otherwise it also multiplies by weights of 0.
    blank = not opencv or (h, w) == size
    if opencv:
        values = values.astype(np.float32, copy=False)
        if (h, w) == (2 * new_h, 2 * new_w):
            values, (h, w) = _halve(values), (new_h, new_w)
    xs, fx = taps(w, new_w, dtype=dtype)
    ys, fy = taps(h, new_h, dtype=dtype, keep_weight=True)
    return values, (xs, fx, ys, fy, ax, ay, to, bx, by, blank)


def _halve(flow: NDArray[np.float32]) -> NDArray[np.float32]:
    """Halve both sides of a flow by the 2 x 2 mean that OpenCV uses: ``(((a + b) + c) + d) / 4``."""
    a, b, c, d = flow[::2, ::2], flow[::2, 1::2], flow[1::2, ::2], flow[1::2, 1::2]
    mean = (((a + b) + c) + d) * np.float32(0.25)
    known = is_known_flow(flow)
    known = known[::2, ::2] & known[::2, 1::2] & known[1::2, ::2] & known[1::2, 1::2]
    mean[~known] = UNKNOWN
    return mean


def _antialiased(flow: Flow, size: Size, old_other: Size, other: Size, rule: FlowRule) -> Flow:
    (h, w), (new_h, new_w) = _size(flow), size
    double = flow.astype(np.float64)
    r = imresize(double, new_h, new_w)
    # Unlike in `is_known_flow`, a component of exactly 1e9 is unknown.
    inside = (np.abs(flow[..., 0]) < LIMIT) & (np.abs(flow[..., 1]) < LIMIT)
    blocked = imresize((~inside).astype(np.float64), new_h, new_w) != 0
    x, y = np.arange(new_w) + rule.first_pixel, np.arange(new_h)[:, None] + rule.first_pixel
    out = np.empty_like(r)
    out[..., 0] = (r[..., 0] + x * w / new_w) / old_other[1] * other[1] - x
    out[..., 1] = (r[..., 1] + y * h / new_h) / old_other[0] * other[0] - y
    out[blocked] = UNKNOWN
    return out


def resize_mask(mask: Bytes, size: Size, *, rule: FlowRule = SOUND) -> Bytes:
    """Resize a mask to a new image size (height, width), uint8.

    The rule's resampling decides the values:

    * `bilinear`: foreground is nonzero; 255 if at least half of the bilinear weight is foreground.
    * `opencv`: unchanged values if the size is the same; else OpenCV's fixed point, then ``> 128``.
    * `imresize`: `imresize` of value/255, then ``> 0.5``, also if the size is the same.

    >>> resize_mask(np.array([[0, 1]], np.uint8), (1, 4)).tolist()
    [[0, 0, 255, 255]]
    >>> resize_mask(np.array([[0, 1]], np.uint8), (1, 4), rule=FlowRule("opencv")).tolist()
    [[0, 0, 0, 0]]
    """
    same = mask.shape == size
    if rule.resampling == "opencv":
        return mask if same else _binary(resize_u8(mask, *size) > 128)
    if rule.resampling == "imresize":
        return _binary(mask > 127 if same else imresize(mask / 255.0, *size) > 0.5)
    if same:
        return _binary(mask > 0)
    from ._bilinear_loops import coverage_mask

    xs, fx = taps(mask.shape[1], size[1], dtype=np.float64)
    ys, fy = taps(mask.shape[0], size[0], dtype=np.float64)
    return coverage_mask(np.ascontiguousarray(mask), xs, fx, ys, fy)


def _binary(chosen: NDArray[np.bool_]) -> Bytes:
    return chosen.view(np.uint8) * np.uint8(255)
