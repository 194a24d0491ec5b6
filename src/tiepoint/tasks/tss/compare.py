# SPDX-License-Identifier: BSD-3-Clause
"""Compare one TSS pair with its ground truth: pixel counts under three protocols."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.tss import PairTruth
from ...formats.flow.tss import PairResult
from ...geometry.flow.resize import UNKNOWN, resize_flow_pair, resize_mask, same_scale
from ...geometry.flow.warp import consistency_masks
from ...metrics.dense import FlowCounts, MaskCounts, flow_counts, flow_counts_resized, mask_counts
from ..dense.protocols import RULES

THRESHOLDS = tuple(range(1, 51))
"""Thresholds in percent of the target image's larger side."""


_MASK_COUNTS = ("intersection", "union", "differing", "pixels")
Masks = tuple[NDArray[np.uint8], NDArray[np.uint8]]
Flows = tuple[NDArray[Any] | None, NDArray[Any] | None]
Sizes = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class AccuracyRule:
    """Definition of flow accuracy: which pixels count, and when they are correct.

    The defaults match the tools of the TSS kit.

    Attributes:
        less_than: Whether an error equal to the threshold is wrong.
        foreground: If true, all pixels of the true mask count, and a pixel without true flow is wrong.
            Otherwise only pixels with known true flow count.
        larger_side: Image whose larger side defines the thresholds: `target`, `source`, or the larger of
            `both`.
    """

    less_than: bool = False
    foreground: bool = False
    larger_side: str = "target"


KIT_ACCURACY = AccuracyRule()


@dataclass(frozen=True)
class PairCounts:
    """Pixel counts of a pair in both directions, and flags of the processing applied.

    Row 0 is the flow from image 1 to image 2, row 1 the reverse.
    """

    columns: dict[str, NDArray[Any]]
    flipped: bool
    estimated_masks: bool
    resized_flows: bool
    resized_masks: bool


@dataclass(frozen=True)
class _State:
    """Flows and masks of a pair during a comparison, and the processing applied until now."""

    flows: Flows
    masks: Masks | None
    rule: str
    flipped: bool = False
    estimated: bool = False


def compare_pair(
    truth: PairTruth,
    result: PairResult,
    *,
    rule: str,
    auto_flip: bool = False,
    use_prec: bool = False,
    lone_flow: bool = False,
    accuracy: AccuracyRule = KIT_ACCURACY,
) -> PairCounts:
    """Compute the pixel counts of a result under `rule` (`exact`, `tss-cpp`, `tss-matlab`).

    As in the kit, a single flow or a single mask is ignored if the other direction is missing. With
    `lone_flow`, a single flow is scored in its direction. Missing masks are estimated from the two resized
    flows. `auto_flip` inverts both masks if this increases the sum of their scores. The C++ tool and `exact`
    invert only masks read from files, before the estimation; the MATLAB tool also inverts estimated masks.
    The mask score is the IoU, or the pixel accuracy with `use_prec`. `accuracy` defines which pixels are
    correct.
    """
    sizes = truth.flow1.shape[:2], truth.flow2.shape[:2]
    flows: Flows = (result.arrays.get("flow1"), result.arrays.get("flow2"))
    if not lone_flow and any(f is None for f in flows):
        flows = (None, None)
    old = _old_sizes(flows, sizes)
    own_masks = _both(result, "mask1", "mask2")
    masks = own_masks and (
        resize_mask(own_masks[0], truth.mask1.shape, rule=RULES[rule]),
        resize_mask(own_masks[1], truth.mask2.shape, rule=RULES[rule]),
    )
    resized = False
    if old is not None and old != sizes:
        resized = True
        if masks is None or rule == "tss-matlab":
            flows, old = _resized(flows, old, sizes, rule), sizes
    state = _State(flows, masks, rule)
    flip, estimate = _auto_flip(truth, auto_flip, use_prec), _estimate
    steps = (estimate, flip) if rule == "tss-matlab" else (flip, estimate)
    for step in steps:
        state = step(state)
    return PairCounts(
        {**_flow_columns(truth, flows, old, rule, accuracy), **_mask_columns(truth, state.masks, rule)},
        state.flipped,
        state.estimated,
        resized,
        own_masks is not None and (own_masks[0].shape, own_masks[1].shape) != sizes,
    )


def no_counts() -> dict[str, NDArray[Any]]:
    """Return the record columns of a pair that cannot be compared, with all counts 0."""
    return {**_no_flow(), **_no_mask()}


def _no_flow() -> dict[str, NDArray[Any]]:
    return {
        "correct": np.zeros((2, len(THRESHOLDS)), np.int64),
        "valid": np.zeros(2, np.int64),
        "known": np.zeros(2, np.int64),
        "error_sum_px": np.zeros(2),
        "has_flow": np.zeros(2, bool),
    }


def _no_mask() -> dict[str, NDArray[Any]]:
    return {**{name: np.zeros(2, np.int64) for name in _MASK_COUNTS}, "has_mask": np.zeros(2, bool)}


def _old_sizes(flows: Flows, sizes: Sizes) -> Sizes | None:
    """Return the image sizes (height, width) at which the method computed its flows.

    If only one flow exists, its target is assumed to be resized like its source.
    """
    one, two = (None if f is None else (int(f.shape[0]), int(f.shape[1])) for f in flows)
    if one is None:
        return None if two is None else (same_scale(two, sizes[1], sizes[0]), two)
    return one, same_scale(one, *sizes) if two is None else two


def full_flows(result: PairResult, truth: PairTruth) -> Flows:
    """Return the flows of a result at the size of the true flow, resized as in `exact`. None if missing."""
    sizes = truth.flow1.shape[:2], truth.flow2.shape[:2]
    flows: Flows = (result.arrays.get("flow1"), result.arrays.get("flow2"))
    old = _old_sizes(flows, sizes)
    return flows if old is None or old == sizes else _resized(flows, old, sizes, "exact")


def _resized(flows: Flows, old: Sizes, sizes: Sizes, rule: str) -> Flows:
    filled = [np.zeros((*s, 2), np.float32) if f is None else f for f, s in zip(flows, old, strict=True)]
    made = resize_flow_pair(filled[0], filled[1], *sizes, rule=RULES[rule])
    return None if flows[0] is None else made[0], None if flows[1] is None else made[1]


def _both(result: PairResult, first: str, second: str) -> tuple[Any, Any] | None:
    if first in result.arrays and second in result.arrays:
        return result.arrays[first], result.arrays[second]
    return None


def _estimate(state: _State) -> _State:
    one, two = state.flows
    if state.masks is not None or one is None or two is None:
        return state
    masks = consistency_masks(one, two, rule=RULES[state.rule])
    return replace(state, masks=masks, estimated=True)


def _auto_flip(truth: PairTruth, wanted: bool, use_prec: bool) -> Any:
    def step(state: _State) -> _State:
        if not wanted or state.masks is None:
            return state
        inverse = (~state.masks[0], ~state.masks[1])
        if _worth(truth, state.masks, state.rule, use_prec) < _worth(truth, inverse, state.rule, use_prec):
            return replace(state, masks=inverse, flipped=True)
        return state

    return step


def _worth(truth: PairTruth, masks: Masks, rule: str, use_prec: bool) -> float:
    first, second = _mask_counts(truth, masks, rule)
    if use_prec and rule != "tss-matlab":
        return first.pixel_accuracy + second.pixel_accuracy
    return first.iou + second.iou


def _mask_counts(truth: PairTruth, masks: Masks, rule: str) -> tuple[MaskCounts, MaskCounts]:
    bitwise = rule == "tss-cpp"
    first = mask_counts(masks[0], truth.mask1, bitwise=bitwise)
    return first, mask_counts(masks[1], truth.mask2, bitwise=bitwise)


def _mask_columns(truth: PairTruth, masks: Masks | None, rule: str) -> dict[str, NDArray[Any]]:
    if masks is None:
        return _no_mask()
    counts = _mask_counts(truth, masks, rule)
    columns = {name: np.array([getattr(c, name) for c in counts], np.int64) for name in _MASK_COUNTS}
    return {**columns, "has_mask": np.ones(2, bool)}


def thresholds_px(shape: tuple[int, ...]) -> list[float]:
    """Return the 50 thresholds in pixels, ``t/100 * max(height, width)``. The kit uses the target image.

    >>> thresholds_px((300, 400, 2))[4]
    20.0
    """
    return [t / 100 * max(shape[:2]) for t in THRESHOLDS]


def _flow_columns(
    truth: PairTruth, flows: Flows, old: Sizes | None, rule: str, accuracy: AccuracyRule
) -> dict[str, NDArray[Any]]:
    columns = _no_flow()
    if old is None:
        return columns
    truths, masks = (truth.flow1, truth.flow2), (truth.mask1, truth.mask2)
    fits = old == (truths[0].shape[:2], truths[1].shape[:2])
    for i, flow in enumerate(flows):
        if flow is None:
            continue
        limits = _limits(truths, i, accuracy)
        old_other = None if fits else old[1 - i]
        counts = _counts(flow, truths[i], limits, old_other, truths[1 - i], rule)
        columns["correct"][i], columns["valid"][i] = counts.correct, counts.valid
        columns["known"][i], columns["error_sum_px"][i] = counts.known, counts.error_sum_px
        columns["has_flow"][i] = True
        if accuracy.foreground:
            inside = np.where(masks[i][..., None] > 0, truths[i], np.float32(UNKNOWN))
            columns["correct"][i] = _counts(flow, inside, limits, old_other, truths[1 - i], rule).correct
            columns["valid"][i] = np.count_nonzero(masks[i])
    return columns


def _limits(truths: tuple[NDArray[Any], NDArray[Any]], i: int, accuracy: AccuracyRule) -> list[float]:
    """Return the thresholds in pixels for direction `i`. A pixel with a larger error is wrong."""
    both = max(truths, key=lambda t: max(t.shape[:2]))
    shape = {"target": truths[1 - i], "source": truths[i], "both": both}[accuracy.larger_side].shape
    limits = thresholds_px(shape)
    # An error above the next smaller number is at least the threshold, and therefore wrong.
    return [float(np.nextafter(t, 0)) for t in limits] if accuracy.less_than else limits


def _counts(
    flow: NDArray[Any],
    truth: NDArray[Any],
    limits: list[float],
    old_other: tuple[int, int] | None,
    other: NDArray[Any],
    rule: str,
) -> FlowCounts:
    """Count the pixels of one flow direction against the truth.

    `old_other` is the size at which the method processed the target, or None for the full size.
    """
    if old_other is None:
        return flow_counts(flow, truth, limits, rule=RULES[rule])
    new = (int(other.shape[0]), int(other.shape[1]))
    return flow_counts_resized(flow, truth, limits, old_other=old_other, other=new, rule=RULES[rule])
