# SPDX-License-Identifier: BSD-3-Clause
"""SIFT on two real sequences: the tool's numbers by NumPy alone, and what the numbers should look like."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from keypoint_world import GIVEN, run_task

from tiepoint.core.keypoints import Keypoints
from tiepoint.core.records import Features
from tiepoint.tasks.keypoints.geometry.task import TASK as GEOMETRY
from tiepoint.tasks.keypoints.ranking.task import TASK as RANKING

cv2 = pytest.importorskip("cv2")
DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data")) / "sequences"
SCENES = ("i_leuven", "v_graffiti")

pytestmark = pytest.mark.skipif(
    not all((DATA / s).is_dir() for s in SCENES), reason=f"needs the sequences {SCENES} in {DATA}"
)


@pytest.fixture(scope="module")
def features():
    opened = RANKING.open(DATA, {"scenes": SCENES})
    sift, tables = cv2.SIFT_create(400), {}
    for item in opened.items:
        grey = cv2.cvtColor(opened.read_item(item.key), cv2.COLOR_RGB2GRAY)
        found, values = sift.detectAndCompute(grey, None)
        tables[item.key] = {
            "keypoints": Keypoints.from_cv(found).to_array(),
            "values": values,
            "valid": np.ones(len(values), bool),
        }
    return Features(tables.__getitem__, "l2", GIVEN)


def test_workbench_by_numpy_alone(features):
    scores, _ = run_task(RANKING, DATA, features, "workbench", scenes=SCENES)
    every = []
    for scene in SCENES:
        one = features.arrays(f"{scene}/1")
        for k in range(2, 7):
            h = np.loadtxt(next(p for p in (DATA / scene).iterdir() if p.name in (f"H_1_{k}", f"H1to{k}p")))
            other = features.arrays(f"{scene}/{k}")
            p = np.column_stack([one["keypoints"][:, :2], np.ones(len(one["keypoints"]))]) @ h.T
            p = p[:, :2] / p[:, 2:]
            gap = np.linalg.norm(p[:, None] - other["keypoints"][None, :, :2], axis=2)
            right, ok = gap.argmin(axis=1), (gap.min(axis=1) <= 3) & (np.abs(p) <= 2000).all(axis=1)
            d = ((one["values"][:, None].astype(float) - other["values"][None]) ** 2).sum(axis=2)
            mine = d[np.arange(len(d)), right][:, None]
            ties = (d == mine).sum(axis=1) - 1
            every.append(1 / (1 + (d < mine).sum(axis=1) + (ties + 1) // 2)[ok])
    assert scores["true_map_micro", "all"].value == pytest.approx(np.concatenate(every).mean(), abs=1e-12)
    assert scores["total_queries_processed", "all"].value == sum(len(e) for e in every)


def test_exact_is_where_it_should_be(features):
    scores, _ = run_task(RANKING, DATA, features, scenes=SCENES, gallery=(50, 100, 200))
    curve = [scores["true_map_macro_by_scene", f"gallery={g}"].value for g in (50, 100, 200)]
    assert curve == sorted(curve, reverse=True)  # more candidates, lower score
    whole = scores["true_map_macro_by_scene", "all"]
    assert 0.4 < whole.value < 0.95
    assert whole.value > 20 * whole.chance
    tool, _ = run_task(RANKING, DATA, features, "workbench", scenes=SCENES)
    # Twins and second keypoints within tau are wrong for the tool, so it scores lower.
    assert tool["true_map_macro_by_scene", "all"].value < whole.value


def test_geometry_is_where_it_should_be(features):
    scores, _ = run_task(GEOMETRY, DATA, features, scenes=SCENES)
    assert 0.2 < scores["repeatability", "all"].value < 0.9
    assert scores["mma", "kind=i,tau_px=3"].value > scores["mma", "kind=v,tau_px=3"].value
    assert scores["homography_accuracy", "kind=i,tau_px=5"].value > 0.5
