# SPDX-License-Identifier: BSD-3-Clause
"""How far a flow is from the truth: endpoint error, accuracy at thresholds, AEPE, Fl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...geometry.flow_validity import known, loop_ready

Flow = NDArray[Any]
Size = tuple[int, int]
RULES = ("exact", "tss-cpp", "tss-matlab")
_KIT_UNKNOWN_ERROR_PX = 1000.0


@dataclass(frozen=True)
class FlowCounts:
    """Pixels of known truth (`valid`), those right at each threshold, error sum of the `known` estimates."""

    correct: NDArray[np.int64]
    valid: int
    known: int
    error_sum_px: float


def flow_counts(
    flow: Flow, truth: Flow, thresholds_px: Sequence[float], *, rule: str = "exact"
) -> FlowCounts:
    """Count pixels whose endpoint error is at most each threshold.

    ``e = |flow - truth|``; right iff ``e <= threshold``; only pixels with known truth count. `flow` and
    `truth` are (h, w, 2) of any real type, `thresholds_px` must not decrease. An unknown estimate (NaN,
    beyond 1e9) is wrong at every threshold.

    The rules of the TSS tools differ: `tss-cpp` works in float32 and gives an unknown estimate an error of
    1000 px (right at T50 of images above 2000 px); `tss-matlab` asks only for ``u < 1e9`` of the truth and
    counts NaN estimates as right, because NaN is not greater than a threshold.

    >>> truth = np.zeros((1, 3, 2)); truth[0, 2] = 1e10
    >>> flow = np.array([[[3.0, 4.0], [np.nan, 0], [0, 0]]])
    >>> counts = flow_counts(flow, truth, [4.9, 5.0])
    >>> counts.correct.tolist(), counts.valid, counts.known
    ([0, 1], 2, 1)
    """
    if rule not in RULES:
        raise ValueError(f"unknown rule {rule!r}; one of {RULES}")
    if flow.shape != truth.shape:
        raise ValueError(f"flow {flow.shape} and truth {truth.shape} differ in shape")
    from ._flow_counts import error_counts, matlab_counts

    thresholds, unknown = _limits(thresholds_px, rule)
    values, true = loop_ready(flow), loop_ready(truth)
    if rule == "tss-matlab":
        return _counts(matlab_counts(values, true, thresholds))
    return _counts(error_counts(values, true, thresholds, unknown))


def flow_counts_resized(
    flow: Flow,
    truth: Flow,
    thresholds_px: Sequence[float],
    *,
    old_other: Size,
    other: Size,
    rule: str = "exact",
) -> FlowCounts:
    """`flow_counts` of a flow of another size than the truth, without keeping the resized flow.

    The same numbers as `resize_flow_pair` and then `flow_counts`, in less time: rows are resized and counted
    one by one, only where the truth is known. `old_other` and `other` are the sizes (height, width) of the
    target image in the flow's and in the truth's scale. For `exact` and `tss-cpp`.

    >>> flow, truth = np.ones((2, 2, 2)), np.full((4, 4, 2), 2.0)
    >>> flow_counts_resized(flow, truth, [0.0], old_other=(2, 2), other=(4, 4)).correct
    array([16])
    """
    if rule not in RULES[:2]:
        raise ValueError(f"unknown rule {rule!r}; one of {RULES[:2]}")
    from ...geometry.flow_resize import resize_plan
    from ._flow_counts import resized_counts

    thresholds, unknown = _limits(thresholds_px, rule)
    values, plan = resize_plan(flow, (truth.shape[0], truth.shape[1]), old_other, other, rule)
    return _counts(resized_counts(values, plan, loop_ready(truth), thresholds, unknown))


def _limits(thresholds_px: Sequence[float], rule: str) -> tuple[NDArray[Any], Any]:
    """Thresholds in the precision of the rule, and the error of an unknown estimate."""
    thresholds: NDArray[Any] = np.asarray(thresholds_px, np.float64)
    if len(thresholds) == 0 or (np.diff(thresholds) < 0).any():
        raise ValueError("there must be a threshold, and thresholds must not decrease")
    if rule == "tss-cpp":
        return thresholds.astype(np.float32), np.float32(_KIT_UNKNOWN_ERROR_PX)
    return thresholds, np.float64(np.inf)


def _counts(made: tuple[NDArray[np.int64], NDArray[np.float64]]) -> FlowCounts:
    wrong, (valid, known, total) = made
    return FlowCounts(int(valid) - wrong, int(valid), int(known), float(total))


def flow_accuracy(flow: Flow, truth: Flow, threshold_px: float) -> float:
    """Fraction of pixels of known truth with an error of at most `threshold_px`; NaN if there are none.

    >>> flow_accuracy(np.zeros((2, 2, 2)), np.full((2, 2, 2), [3.0, 4.0]), 5.0)
    1.0
    """
    counts = flow_counts(flow, truth, [threshold_px])
    return float(counts.correct[0] / counts.valid) if counts.valid else float("nan")


def endpoint_error(flow: Flow, truth: Flow) -> NDArray[np.float64]:
    """Error of every pixel, float64 (h, w): NaN where the truth is unknown, else inf where the flow is.

    >>> endpoint_error(np.array([[[3.0, 4.0], [1e10, 0]]]), np.zeros((1, 2, 2))).tolist()
    [[5.0, inf]]
    """
    a, b = np.asarray(flow, np.float64), np.asarray(truth, np.float64)
    error = np.hypot(a[..., 0] - b[..., 0], a[..., 1] - b[..., 1])
    error[~known(a)] = np.inf
    error[~known(b)] = np.nan
    return error


def aepe(flow: Flow, truth: Flow) -> float:
    """Average endpoint error over pixels where both are known; NaN if there are none.

    Trap: unknown estimates drop out, so a method can improve it by keeping silent. Read it next to the
    fraction of known estimates or next to `flow_accuracy`, where silence is wrong.

    >>> aepe(np.array([[[3.0, 4.0], [1e10, 0]]]), np.zeros((1, 2, 2)))
    5.0
    """
    error = endpoint_error(flow, truth)
    finite = np.isfinite(error)
    return float(error[finite].mean()) if finite.any() else float("nan")


def fl(flow: Flow, truth: Flow) -> float:
    """KITTI's outlier rate: fraction of known-truth pixels with ``e > 3`` px and ``e > 0.05 |truth|``.

    A fraction, not percent. An unknown estimate is an outlier.

    >>> fl(np.zeros((1, 2, 2)), np.array([[[3.0, 0.0], [3.5, 0.0]]]))
    0.5
    """
    error = endpoint_error(flow, truth)
    valid = ~np.isnan(error)
    length = np.hypot(truth[..., 0][valid].astype(np.float64), truth[..., 1][valid].astype(np.float64))
    wrong = (error[valid] > 3) & (error[valid] > 0.05 * length)
    return float(wrong.mean()) if valid.any() else float("nan")
