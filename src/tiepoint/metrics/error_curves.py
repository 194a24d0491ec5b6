# SPDX-License-Identifier: BSD-3-Clause
"""Recall at an error threshold, and the variants of its AUC that papers report.

Errors are >= 0 in any unit. A failed estimate has the error inf or NaN: it is never recalled but counts in
the number of errors n. An empty array gives NaN. Only `auc_python_sorted` treats NaN differently.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError

Floats = NDArray[np.float64]


def auc_shares(errors: ArrayLike, t: float) -> Floats:
    """Return max(0, 1 - e/t) for each error; 0 for inf and NaN. The exact AUC is the mean of these values.

    >>> auc_shares([1, 5, float("nan"), float("inf")], 5).tolist()
    [0.8, 0.0, 0.0, 0.0]
    """
    e = _errors(errors, t)
    return np.where(np.isfinite(e), np.clip(1.0 - np.where(np.isfinite(e), e, 0.0) / t, 0.0, None), 0.0)


def auc_exact(errors: ArrayLike, t: float) -> float:
    """Return the area under the recall curve from 0 to t, divided by t: the mean of max(0, 1 - e/t).

    >>> auc_exact([1, 3, float("inf"), 8], 10)
    0.45
    """
    shares = auc_shares(errors, t)
    return float(shares.mean()) if shares.size else float("nan")


def auc_trapezoid(errors: ArrayLike, t: float) -> float:
    """Return the trapezoid area under the recall curve from 0 to t, divided by t, as most pose papers do.

    The curve joins (0, 0), (e_(i), i/n) for the sorted errors e < t, and (t, last recall) by straight lines.
    Errors equal to t are excluded. The result exceeds `auc_exact` by (largest e < t)/(2 n t), at most 1/(2
    n): 3.3 percentage points with 15 pairs, 0.03 with 1500. A single error e < t gives 1 - e/(2t).

    >>> auc_trapezoid([2.0], 5)
    0.8
    >>> auc_trapezoid([5, 1], 5)
    0.45
    """
    return _trapezoid(np.sort(_errors(errors, t).ravel()), t)


def auc_rounded(errors: ArrayLike, t: float, decimals: int = 4) -> float:
    """Return `auc_trapezoid` rounded half to even, as glue-factory does with NumPy.

    >>> auc_trapezoid([1.0] * 10 + [90.0] * 10, 20), auc_rounded([1.0] * 10 + [90.0] * 10, 20)
    (0.47625, 0.4762)
    """
    return float(np.round(auc_trapezoid(errors, t), decimals))


def auc_python_sorted(errors: ArrayLike, t: float) -> float:
    """Return `auc_trapezoid` of errors that Python's `sorted` has ordered, with its defect for NaN.

    A comparison with NaN is false, so `sorted` can leave the errors around a NaN unordered. The area may then
    be NaN or far too small. Without NaN the result equals `auc_trapezoid`.

    >>> auc_python_sorted([1, 3, 8, float("nan")], 5), auc_python_sorted([8, float("nan"), 1, 3], 10)
    (0.375, 0.15)
    """
    return _trapezoid(np.array(sorted(_errors(errors, t).ravel().tolist())), t)


def accuracy(errors: ArrayLike, t: float, *, strict: bool = True) -> float:
    """Return the share of errors e < t, or e <= t if not `strict`.

    >>> accuracy([5, 1], 5), accuracy([5, 1], 5, strict=False)
    (0.5, 1.0)
    """
    e = _errors(errors, t)
    below = e < t if strict else e <= t
    return float(below.mean()) if e.size else float("nan")


def maa(errors: ArrayLike, t: int = 10) -> float:
    """Return the mean recall at 1, 2, …, t units: mean of max(0, t - floor(e))/t; t at most 10.

    This is the mAA of the Image Matching Challenge, computed from a cumulated histogram with edges 0, 1, …,
    10. The last bin is closed: an error of exactly 10 counts 0.1 at t = 10, but an error of exactly 5 counts
    0 at t = 5. Errors are effectively rounded down, so the result is never below the exact AUC.

    >>> maa([0.5, 2.0, 10.0, 11.0], 10)
    0.475
    """
    e = _errors(errors, t).ravel()
    if t > 10:
        raise InputError(f"`maa` is defined for thresholds up to 10, found {t}")
    counts, _ = np.histogram(e[np.isfinite(e)], bins=np.arange(11.0))
    return float((np.cumsum(counts)[:t] / e.size).mean()) if e.size else float("nan")


def map_roma(errors: ArrayLike, t: int) -> float:
    """Return the mean of the strict accuracies (e < t) at 5, 10, …, t: the `map_t` that RoMa and DKM print.

    >>> map_roma([7.0], 5), map_roma([7.0], 10), map_roma([7.0], 20)
    (0.0, 0.5, 0.75)
    """
    if t < 5 or t % 5:
        raise InputError(f"`map` is defined for thresholds that are multiples of 5, found {t}")
    return float(np.mean([accuracy(errors, step) for step in range(5, t + 1, 5)]))


def _trapezoid(ordered: Floats, t: float) -> float:
    """Return the trapezoid area of the recall curve up to t, divided by t.

    The `ordered` errors are not sorted again.
    """
    n = len(ordered)
    if n == 0:
        return float("nan")
    x = np.concatenate([[0.0], ordered])
    recall = np.arange(n + 1) / n
    stop = int(np.searchsorted(x, t))
    x, recall = np.append(x[:stop], t), np.append(recall[:stop], recall[stop - 1])
    return float((np.diff(x) * (recall[1:] + recall[:-1]) / 2.0).sum() / t)


def _errors(errors: ArrayLike, t: float) -> Floats:
    if not t > 0:
        raise InputError(f"a threshold must be positive, found {t}")
    return np.asarray(errors, dtype=np.float64)


def homography_accuracy(errors_px: ArrayLike, tau_px: float) -> float:
    """Return the share of estimates with a corner error of at most tau_px. Failures have infinite error.

    >>> homography_accuracy([0.5, 3.0, float("inf")], 3)
    0.6666666666666666
    """
    return accuracy(_corner_errors(errors_px), tau_px, strict=False)


def homography_auc(errors_px: ArrayLike, tau_px: float) -> float:
    """Return the exact area under accuracy(t) from 0 to tau_px, divided by tau_px: mean of max(0, 1 - e/tau).

    `errors_px` (n,) is infinite for a failed estimate. Many scripts compute the trapezoid area instead, which
    differs by up to 1/n. Do not compare the exact area with their values.

    >>> homography_auc([0.0, 1.5, 9.0], 3)
    0.5
    """
    return auc_exact(_corner_errors(errors_px), tau_px)


def _corner_errors(errors_px: ArrayLike) -> Floats:
    errors = np.asarray(errors_px, np.float64)
    if np.isnan(errors).any():
        raise InputError("a corner error is NaN; pass failed estimates as infinite")
    return errors
