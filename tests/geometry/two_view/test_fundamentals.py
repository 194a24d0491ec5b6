"""Fundamental matrices: recorded ones, and what their poses are taken from."""

from __future__ import annotations

import numpy as np
import pytest
from two_view_world import K0, K1, T, seen

from pose_golden import assert_close, golden, matches, needs_golden, same_versions
from tiepoint.core.errors import InputError
from tiepoint.geometry.two_view.epipolar import symmetric_distances
from tiepoint.geometry.two_view.estimator import Estimator, estimator_library_versions
from tiepoint.geometry.two_view.pose_errors import pose_errors
from tiepoint.geometry.two_view.pose_estimation import estimate, estimate_fundamental

pytest.importorskip("cv2")
MAGSAC = Estimator("opencv-f", 0.25, 0.999, 100_000, method="USAC_MAGSAC")
POSELIB = Estimator("poselib-f", 1.0, 0.9999, 10_000)


@needs_golden
@pytest.mark.parametrize("split", ["test", "val"])
def test_recorded_fundamental_matrices(split):
    if not same_versions(estimator_library_versions("cv2")):
        pytest.skip("OpenCV differs from that of the record")
    missing = 0
    for name, record in golden()["wide"][f"wxbs.evaluate_Fs {split}"]["pairs"].items():
        key = "wxbs_" + name.replace("/", "-")
        found = estimate_fundamental(MAGSAC, *(matches("wide")[f"{key}.{p}"] for p in ("pts0", "pts1")))
        if found.ok:
            assert_close(found.F, record["F"], 1e-12)
        else:
            missing += 1
            assert record["F"] == [[0, 0, 0], [0, 0, -1], [0, 1, 0]]
    assert missing == {"test": 3, "val": 0}[split]


@pytest.mark.parametrize("est", [MAGSAC, POSELIB, Estimator("opencv-f", 1.0, 0.999, 2000)])
def test_true_matches_give_their_matrix_and_pose(est):
    if est.kind == "poselib-f":
        pytest.importorskip("poselib")
    x0, x1 = seen(200, outliers=60)
    found = estimate_fundamental(est, x0, x1)
    assert found.ok
    assert symmetric_distances(x0[60:], x1[60:], found.F).max() < 1
    assert found.kept[60:].mean() > 0.9
    assert found.kept[:60].mean() < 0.15
    pose = estimate(est, x0, x1, K0, K1)
    assert max(pose_errors(pose.R, pose.t, T[:3, :3], T[:3, 3])) < 3
    assert pose.inliers == found.inliers


@pytest.mark.parametrize("n", [0, 4, 7])
def test_fewer_than_eight_matches_give_no_matrix(n):
    x0, x1 = seen(n)
    found = estimate_fundamental(MAGSAC, x0, x1)
    assert not found.ok
    assert np.isnan(found.F).all()
    assert found.reason == f"{n} matches, 8 are needed"


def test_poselib_without_a_matrix_answers_the_identity_and_others_nothing():
    x0, x1 = seen(7)
    answer = estimate(POSELIB, x0, x1, K0, K1)
    assert not answer.ok
    np.testing.assert_array_equal(answer.R, np.eye(3))
    np.testing.assert_array_equal(answer.t, np.zeros(3))
    assert np.isnan(estimate(MAGSAC, x0, x1, K0, K1).t).all()


def test_a_missing_library_is_named():
    with pytest.raises(InputError, match=r"pydegensac.*pip install"):
        estimate_fundamental(Estimator("degensac-f", 0.5, 0.999999, 100_000), *seen(20))


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(InputError, match="no seed"):
        estimate_fundamental(MAGSAC, *seen(20), seed=3)
    with pytest.raises(InputError, match="`kind`"):
        estimate_fundamental(Estimator("poselib-e", 1.0, 0.9999, 1000), *seen(20))
