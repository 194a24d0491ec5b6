# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of dense matching: endpoint errors of flows, outliers, IoU of masks, and PCK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..geometry.flow.resize import SOUND, FlowRule, is_known_flow, loop_ready

Floats = NDArray[np.float64]
Flow = NDArray[Any]
Size = tuple[int, int]


@dataclass(frozen=True)
class FlowCounts:
    """Counts of pixels with known truth (`valid`), correct pixels and known estimates, and the error sum.

    `correct` (t,) has one count for each threshold.
    """

    correct: NDArray[np.int64]
    valid: int
    known: int
    error_sum_px: float


def flow_counts(
    flow: Flow, truth: Flow, thresholds_px: Sequence[float], *, rule: FlowRule = SOUND
) -> FlowCounts:
    """Count pixels whose endpoint error is at most each threshold.

    A pixel with known truth is correct if ``e = |flow - truth| <= threshold``. `flow` and `truth` are (h, w,
    2) of any real type; `thresholds_px` must not decrease. An unknown estimate (NaN, beyond 1e9) has the
    error `rule.unknown_error_px`. Use infinity: a finite value such as 1000 px counts as correct at larger
    thresholds. With a `lenient` rule, truth is known if ``u < 1e9``, and NaN estimates count as correct,
    because NaN is not greater than a threshold. `rule.dtype` is the type of the arithmetic.

    >>> truth = np.zeros((1, 3, 2)); truth[0, 2] = 1e10
    >>> flow = np.array([[[3.0, 4.0], [np.nan, 0], [0, 0]]])
    >>> counts = flow_counts(flow, truth, [4.9, 5.0])
    >>> counts.correct.tolist(), counts.valid, counts.known
    ([0, 1], 2, 1)
    """
    if flow.shape != truth.shape:
        raise ValueError(f"flow and truth must have the same shape, found {flow.shape} and {truth.shape}")
    from ._dense_loops import error_counts, lenient_counts

    thresholds, unknown = _limits(thresholds_px, rule)
    values, true = loop_ready(flow), loop_ready(truth)
    if rule.lenient:
        return _counts(lenient_counts(values, true, thresholds))
    return _counts(error_counts(values, true, thresholds, unknown))


def flow_counts_resized(
    flow: Flow,
    truth: Flow,
    thresholds_px: Sequence[float],
    *,
    old_other: Size,
    other: Size,
    rule: FlowRule = SOUND,
) -> FlowCounts:
    """Compute `flow_counts` of a flow whose size differs from the truth, without storing the resized flow.

    The result equals `resize_flow_pair` followed by `flow_counts`. It is faster, because only rows and
    columns with known truth are resized, one row at a time. `old_other` and `other` are the sizes (height,
    width) of the target image at the scale of the flow and of the truth. Only bilinear resampling is
    supported.

    >>> flow, truth = np.ones((2, 2, 2)), np.full((4, 4, 2), 2.0)
    >>> flow_counts_resized(flow, truth, [0.0], old_other=(2, 2), other=(4, 4)).correct
    array([16])
    """
    if rule.lenient or rule.resampling == "imresize":
        raise ValueError(
            "resampling of this rule is not bilinear and cannot be counted during resizing; resize the "
            "flow first"
        )
    from ..geometry.flow.resize import resize_plan
    from ._dense_loops import resized_counts

    thresholds, unknown = _limits(thresholds_px, rule)
    values, plan = resize_plan(flow, (truth.shape[0], truth.shape[1]), old_other, other, rule)
    return _counts(resized_counts(values, plan, loop_ready(truth), thresholds, unknown))


def _limits(thresholds_px: Sequence[float], rule: FlowRule) -> tuple[Flow, Any]:
    """Return the thresholds and the error of an unknown estimate, both in the precision of the rule."""
    thresholds: Flow = np.asarray(thresholds_px, np.float64)
    if len(thresholds) == 0 or (np.diff(thresholds) < 0).any():
        raise ValueError("thresholds must be a non-empty list in ascending order")
    return thresholds.astype(rule.dtype), rule.dtype(rule.unknown_error_px)


def _counts(result: tuple[NDArray[np.int64], Floats]) -> FlowCounts:
    wrong, (valid, known, total) = result
    return FlowCounts(int(valid) - wrong, int(valid), int(known), float(total))


def endpoint_error(flow: Flow, truth: Flow) -> Floats:
    """Return the endpoint error of every pixel, float64 (h, w); NaN for unknown truth, inf for unknown flow.

    >>> endpoint_error(np.array([[[3.0, 4.0], [1e10, 0]]]), np.zeros((1, 2, 2))).tolist()
    [[5.0, inf]]
    """
    a, b = np.asarray(flow, np.float64), np.asarray(truth, np.float64)
    error = np.hypot(a[..., 0] - b[..., 0], a[..., 1] - b[..., 1])
    error[~is_known_flow(a)] = np.inf
    error[~is_known_flow(b)] = np.nan
    return error


def outliers(error_px: Floats, truth: Flow) -> int:
    """Count KITTI outliers (Fl): pixels with an `endpoint_error` above 3 px and above ``0.05 |truth|``.

    Pixels with unknown truth do not count; an unknown estimate is an outlier.

    >>> truth = np.array([[[3.0, 0.0], [3.5, 0.0]]])
    >>> outliers(endpoint_error(np.zeros((1, 2, 2)), truth), truth)
    1
    """
    valid = ~np.isnan(error_px)
    length = np.hypot(truth[valid, 0].astype(np.float64), truth[valid, 1].astype(np.float64))
    return int(((error_px[valid] > 3) & (error_px[valid] > 0.05 * length)).sum())


Mask = NDArray[Any]


@dataclass(frozen=True)
class MaskCounts:
    """Pixel counts of a pair of masks: foreground in both, in at least one and in exactly one; all pixels."""

    intersection: int
    union: int
    differing: int
    pixels: int

    @property
    def iou(self) -> float:
        """Intersection over union; NaN if both masks are empty."""
        return self.intersection / self.union if self.union else float("nan")

    @property
    def pixel_accuracy(self) -> float:
        """Fraction of pixels with the same class (foreground or background) in both masks."""
        return 1 - self.differing / self.pixels


def mask_counts(mask: Mask, truth: Mask, *, bitwise: bool = False) -> MaskCounts:
    """Count the pixels of two masks (h, w); foreground is any nonzero value.

    With `bitwise`, the operators ``&``, ``|`` and ``^`` are applied to the bytes. The values 1 and 2 then do
    not intersect, and 1 and 255 differ. For masks of 0 and 255 `bitwise` has no effect.

    >>> a, b = np.array([[0, 1, 255]], np.uint8), np.array([[0, 2, 255]], np.uint8)
    >>> mask_counts(a, b).iou, mask_counts(a, b, bitwise=True).iou
    (1.0, 0.5)
    """
    if mask.shape != truth.shape:
        raise ValueError(f"mask and truth must have the same shape, found {mask.shape} and {truth.shape}")
    a, b = np.asarray(mask), np.asarray(truth)
    if bitwise and not a.dtype == b.dtype == np.uint8:
        raise ValueError(f"bitwise counts need uint8 masks, found {a.dtype} and {b.dtype}")
    from ._dense_loops import count_bits, count_pixels

    one, two = (x if x.dtype == np.uint8 else (x != 0).view(np.uint8) for x in (a, b))
    lines = np.ascontiguousarray(one).reshape(-1), np.ascontiguousarray(two).reshape(-1)
    both, either, differing = (count_bits if bitwise else count_pixels)(*lines)
    return MaskCounts(int(both), int(either), int(differing), a.size)


def ambiguous_pixels(mask: NDArray[np.uint8]) -> int:
    """Count the pixels of a mask that are neither 0 nor 255. A well-formed mask has none.

    >>> ambiguous_pixels(np.array([[0, 1, 255]], np.uint8))
    1
    """
    from ._dense_loops import count_between

    return int(count_between(np.ascontiguousarray(mask).reshape(-1)))


Points = NDArray[Any]
SCALES = ("image", "box", "keypoints")


def pck_length(
    scale: str, *, size: tuple[int, int], points: Points, box: tuple[float, float, float, float] | None = None
) -> float:
    """Return the reference length L in pixels by which PCK scales its threshold, from the *target* image.

    * `image`: larger side of the image, ``max(height, width)`` of `size` (PF-PASCAL's convention);
    * `box`: larger side of the object box `box` = (x1, y1, x2, y2) (convention of SPair);
    * `keypoints`: larger extent of the target's keypoints, ``max - min`` (convention of PF-WILLOW).

    The three lengths differ by a factor of two and more, and papers do not always state their choice. Padding
    (NaN) among `points` is ignored; including it would raise PCK by ten points.

    >>> points = np.array([[0.0, 0.0], [30.0, 10.0], [np.nan, np.nan]])
    >>> [pck_length(scale, size=(100, 200), points=points) for scale in ("image", "keypoints")]
    [200.0, 30.0]
    """
    if scale == "image":
        return float(max(size))
    if scale == "box":
        if box is None:
            raise ValueError("scale 'box' needs an object box; pass `box` or choose another scale")
        return float(max(box[2] - box[0], box[3] - box[1]))
    if scale == "keypoints":
        valid = points[np.isfinite(points).all(axis=1)]
        return float(np.ptp(valid, axis=0).max()) if len(valid) else float("nan")
    raise ValueError(f"unknown scale {scale!r}; choose one of {SCALES}")


def point_errors(points: Points, truth: Points) -> Floats:
    """Return the distance (n,) of each point (n, 2) from its true position; infinite for a missing point.

    >>> point_errors(np.array([[0.0, 0.0], [np.nan, 0.0]]), np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [5.0, inf]
    """
    delta = points - truth
    distance = np.hypot(delta[:, 0], delta[:, 1])
    distance[np.isnan(distance)] = np.inf
    return distance


def points_right(error_px: Floats, length: float, alpha: float) -> int:
    """Count the points with an error of at most ``alpha * length``. A missing point (infinite) never counts.

    >>> points_right(np.array([5.0, 5.1, np.inf]), 100.0, 0.05)
    1
    """
    return int((error_px <= alpha * length).sum())
