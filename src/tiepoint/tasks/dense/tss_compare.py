# SPDX-License-Identifier: BSD-3-Clause
"""One pair of TSS against its ground truth: pixel counts, under the rules of three protocols."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.tss import PairTruth
from ...formats.flow.tss_results import PairResult
from ...geometry.flow.consistency import consistency_masks
from ...geometry.flow.resize import resize_flow_pair, resize_mask
from ...geometry.flow.rules import FlowRule
from ...metrics.dense.flow import flow_counts, flow_counts_resized
from ...metrics.dense.masks import MaskCounts, mask_counts

THRESHOLDS = tuple(range(1, 51))
"""Percent of the larger side of the target image."""

RULES = {
    "exact": FlowRule(),
    "tss-cpp": FlowRule(
        "opencv",
        first_pixel=0,
        closed_px=20,
        closed_share=0,
        unknown_error_px=1000,
        double_factors=True,
        both_unknown=True,
    ),
    "tss-matlab": FlowRule("imresize", first_pixel=1, closed_px=20, closed_share=0, lenient=True),
}
"""How each protocol resizes, samples and judges flows."""

_MASK_COUNTS = ("intersection", "union", "differing", "pixels")
Masks = tuple[NDArray[np.uint8], NDArray[np.uint8]]
Flows = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class PairCounts:
    """Counts of both directions (row 0: 1 to 2, row 1: 2 to 1) and what was done to get them."""

    columns: dict[str, NDArray[Any]]
    flipped: bool
    estimated_masks: bool
    resized_flows: bool
    resized_masks: bool


@dataclass(frozen=True)
class _State:
    """The estimate on its way through the steps of a protocol."""

    flows: Flows | None
    masks: Masks | None
    rule: str
    flipped: bool = False
    estimated: bool = False


def compare_pair(
    truth: PairTruth, result: PairResult, *, rule: str, auto_flip: bool = False, use_prec: bool = False
) -> PairCounts:
    """Pixel counts of a result under `rule` (`exact`, `tss-cpp`, `tss-matlab`).

    Both flows or none count, and both masks or none: where one is missing, the other is not used, as in the
    kit. Masks that are missing are estimated from the two flows after these were resized. `auto_flip` inverts
    both masks where that raises the sum of their scores; the C++ tool and `exact` do so to masks from files
    only (before the estimation), the MATLAB tool to estimated ones too. Its score is the IoU, with `use_prec`
    the pixel accuracy.
    """
    sizes = truth.flow1.shape[:2], truth.flow2.shape[:2]
    own_flows = _both(result, "flow1", "flow2")
    own_masks = _both(result, "mask1", "mask2")
    masks = own_masks and (
        resize_mask(own_masks[0], truth.mask1.shape, rule=RULES[rule]),
        resize_mask(own_masks[1], truth.mask2.shape, rule=RULES[rule]),
    )
    flows = own_flows
    if own_flows is not None and (masks is None or rule == "tss-matlab"):
        flows = resize_flow_pair(*own_flows, *sizes, rule=RULES[rule])
    state = _State(flows, masks, rule)
    flip, estimate = _auto_flip(truth, auto_flip, use_prec), _estimate
    steps = (estimate, flip) if rule == "tss-matlab" else (flip, estimate)
    for step in steps:
        state = step(state)
    return PairCounts(
        {**_flow_columns(truth, state.flows, rule), **_mask_columns(truth, state.masks, rule)},
        state.flipped,
        state.estimated,
        own_flows is not None and (own_flows[0].shape[:2], own_flows[1].shape[:2]) != sizes,
        own_masks is not None and (own_masks[0].shape, own_masks[1].shape) != sizes,
    )


def no_counts() -> dict[str, NDArray[Any]]:
    """The columns of a pair that cannot be compared: no flow, no mask, no pixels."""
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


def _both(result: PairResult, first: str, second: str) -> tuple[Any, Any] | None:
    if first in result.arrays and second in result.arrays:
        return result.arrays[first], result.arrays[second]
    return None


def _estimate(state: _State) -> _State:
    if state.masks is not None or state.flows is None:
        return state
    masks = consistency_masks(*state.flows, rule=RULES[state.rule])
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


def thresholds_px(target_shape: tuple[int, ...]) -> list[float]:
    """The 50 thresholds in pixels, ``t/100 * max(height, width)`` of the *target* image.

    >>> thresholds_px((300, 400, 2))[4]
    20.0
    """
    return [t / 100 * max(target_shape[:2]) for t in THRESHOLDS]


def _flow_columns(truth: PairTruth, flows: Flows | None, rule: str) -> dict[str, NDArray[Any]]:
    if flows is None:
        return _no_flow()
    truths = truth.flow1, truth.flow2
    fits = all(f.shape == t.shape for f, t in zip(flows, truths, strict=True))
    counts = []
    for i in (0, 1):
        limits = thresholds_px(truths[1 - i].shape)
        if fits:
            counts.append(flow_counts(flows[i], truths[i], limits, rule=RULES[rule]))
        else:
            old, new = flows[1 - i].shape[:2], truths[1 - i].shape[:2]
            counts.append(
                flow_counts_resized(flows[i], truths[i], limits, old_other=old, other=new, rule=RULES[rule])
            )
    return {
        "correct": np.stack([c.correct for c in counts]),
        "valid": np.array([c.valid for c in counts], np.int64),
        "known": np.array([c.known for c in counts], np.int64),
        "error_sum_px": np.array([c.error_sum_px for c in counts]),
        "has_flow": np.ones(2, bool),
    }
