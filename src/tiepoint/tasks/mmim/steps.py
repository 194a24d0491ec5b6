# SPDX-License-Identifier: BSD-3-Clause
"""Steps from the protocol `minima` to `exact`, which change one convention at a time.

All steps use the same matches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...core.records import Records
from ...geometry.two_view.homography_errors import named_corner_error
from ...metrics.error_curves import auc_exact, auc_trapezoid
from ..homography.score import errors_of, shares_of
from ..steps import StepTable
from .score import EXACT_PX, MINIMA_MODALITIES, category_of, mean_over_categories, score_minima

Floats = NDArray[np.float64]
ARROW = "minima->exact"
"""Name of the comparison with the estimator of `minima` and the threshold of `exact`."""


def step_tables(
    own: Sequence[Records], walked: Sequence[Records], last: Sequence[Records]
) -> list[StepTable]:
    """Return the area under the recall curve after each step, at the thresholds that both protocols have.

    Args:
        own: Records of `minima`.
        walked: Records of `minima->exact`, in the same order of pairs.
        last: Records of `exact`.
    """
    used = [i for i, r in enumerate(own) if r.meta["facts"].get("modality") in MINIMA_MODALITIES]
    if not used:
        return []
    printed = {(s.metric, s.group): s.value for s in score_minima(own)}
    tables = []
    for t in EXACT_PX:
        two = [own[i] for i in used]
        steps = [
            ("minima", printed["auc", f"tau_px={t}"]),
            ("corners: compared by name, failures infinite", _mean(two, _named(two), t, exact=False)),
            ("area: exact integral", _mean(two, _named(two), t)),
        ]
        near = [walked[i] for i in used]
        steps.append(("threshold: that of exact, matches sorted", _mean(near, _named(near), t)))
        final = [last[i] for i in used]
        steps.append(("estimator: PoseLib, mean over seeds", _exact(final, t)))
        if len(used) < len(last):
            steps.append(("categories: all", _exact(last, t)))
        tables.append(StepTable("auc", steps, f"minima to exact, tau_px={t}"))
    return tables


def _named(records: Sequence[Records]) -> Floats:
    """Return the corner error of the first homography of each pair, in pixels, under the rule of `exact`."""
    errors = []
    for r in records:
        H, size = np.asarray(r["H"][0]).reshape(3, 3), r.meta["sizes"][0]
        usable = bool(r["ok"][0])
        true = np.reshape(r.meta["truth"], (3, 3))
        errors.append(named_corner_error(H, true, (size[0], size[1])) if usable else np.inf)
    return np.array(errors)


def _mean(records: Sequence[Records], errors: Floats, t: int, *, exact: bool = True) -> float:
    """Return the mean over categories of the area under each category's recall curve up to `t` pixels."""
    names = np.array([category_of(r) for r in records])
    area = auc_exact if exact else auc_trapezoid
    return float(np.mean([area(errors[names == name], t) for name in np.unique(names)]))


def _exact(records: Sequence[Records], t: int) -> float:
    values = shares_of(errors_of(records, "error_px"), t).mean(axis=0)
    return mean_over_categories("auc", records, values).value
