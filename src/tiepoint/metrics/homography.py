# SPDX-License-Identifier: BSD-3-Clause
"""How good estimated homographies are: accuracy and area under the curve of their corner errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError


def homography_accuracy(errors_px: ArrayLike, tau_px: float) -> float:
    """Share of estimates with a corner error of at most tau_px; a failed estimate has an infinite error.

    >>> homography_accuracy([0.5, 3.0, float("inf")], 3)
    0.6666666666666666
    """
    errors = _corner_errors(errors_px, tau_px)
    return float((errors <= tau_px).mean()) if errors.size else float("nan")


def homography_auc(errors_px: ArrayLike, tau_px: float) -> float:
    """Area under the curve accuracy(t), t from 0 to tau_px, divided by tau_px: mean of max(0, 1 - e/tau).

    This is the exact integral of the step curve. Many scripts join the sorted errors by straight lines
    instead, which differs by up to 1/n; compare numbers of one rule only.

    Args:
        errors_px: (n,) corner errors, infinite where there is no estimate.
        tau_px: threshold > 0.

    >>> homography_auc([0.0, 1.5, 9.0], 3)
    0.5
    """
    errors = _corner_errors(errors_px, tau_px)
    return float(np.clip(1.0 - errors / tau_px, 0.0, None).mean()) if errors.size else float("nan")


def _corner_errors(errors_px: ArrayLike, tau_px: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    errors = np.asarray(errors_px, np.float64)
    if not tau_px > 0:
        raise InputError(f"tau_px must be positive, found {tau_px}")
    if np.isnan(errors).any():
        raise InputError("a corner error is NaN; give failed estimates an infinite one")
    return errors
