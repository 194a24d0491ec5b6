# SPDX-License-Identifier: BSD-3-Clause
"""Steps from the protocols of RoMa v2 to `exact`, which change one convention at a time.

All steps use the same features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...core.records import Records
from ...metrics.error_curves import auc_exact, auc_trapezoid
from ..steps import StepTable
from .score import THRESHOLDS_PX, area_of, pooled_errors

ARROW = "->exact"
"""Suffix of comparison names for the steps from a protocol to `exact`."""


def step_tables(name: str, records: Mapping[str, Sequence[Records]]) -> list[StepTable]:
    """Return the area under the recall curve after each step from a protocol to `exact`, by threshold.

    The records of ``NAME->exact`` have the errors of the protocol on the images that `exact` uses.
    """
    own, near, last = records[name], records[f"{name}{ARROW}"], records["exact"]
    tables = []
    for t in THRESHOLDS_PX:
        steps = [
            (name, auc_trapezoid(pooled_errors(own), t)),
            ("area: exact integral", auc_exact(pooled_errors(own), t)),
            ("mean over pairs", float(np.mean([area_of(r, t) for r in own]))),
        ]
        if name == "romav2-homography":
            steps.append(("image 1 not encoded again", float(np.mean([area_of(r, t) for r in near]))))
            one = float(np.mean([area_of(r, t, 0) for r in last]))
            steps.append(("estimator: that of exact", one))
            steps.append(("all orientations", float(np.mean([area_of(r, t) for r in last]))))
        else:
            steps.append(("points: as exact transfers them", float(np.mean([area_of(r, t) for r in last]))))
        tables.append(StepTable("auc", steps, f"{name} to exact, tau_px={t}"))
    return tables
