# SPDX-License-Identifier: BSD-3-Clause
"""Steps from the protocol `loma` to `exact`, which change one convention at a time.

All steps use the same matches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.records import Records
from ..steps import StepTable
from .score import LOMA_THRESHOLDS, recall_curve


def loma_steps(own: Sequence[Records], last: Sequence[Records]) -> list[StepTable]:
    """Return the mean recall after each step from `loma` to `exact`.

    Args:
        own: Records of `loma`, in which pairs without F have the distances to horizontal lines.
        last: Records of `exact`, in the same order of pairs.
    """
    if not own:
        return []
    curves = np.array([recall_curve(np.asarray(r["distance_px"])) for r in own])
    found = np.array([[all(r.meta["ok"])] for r in own])
    exact = np.array([_mean_over_seeds(r) for r in last])
    steps = [
        ("loma", curves[:, :LOMA_THRESHOLDS]),
        ("no F: recall 0", np.where(found, curves[:, :LOMA_THRESHOLDS], 0.0)),
        ("thresholds: 0, 1, …, 19 px", np.where(found, curves, 0.0)),
        ("estimator: PoseLib, mean over seeds", exact),
    ]
    return [StepTable("maa", [(words, float(values.mean())) for words, values in steps], "loma to exact")]


def _mean_over_seeds(record: Records) -> np.ndarray:
    distance, repeat = np.asarray(record["distance_px"]), np.asarray(record["repeat"])
    return np.mean([recall_curve(distance[repeat == k]) for k in np.unique(repeat)], axis=0)
