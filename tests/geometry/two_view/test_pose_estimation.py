"""Relative pose from matches made on the spot: what changes a result, what must not, and failures."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from two_view_world import K0, K1, T, seen

from pose_golden import assert_close, golden, matches, needs_golden, same_versions
from tiepoint.core.errors import InputError
from tiepoint.geometry.two_view import estimator
from tiepoint.geometry.two_view.epipolar import symmetric_distances
from tiepoint.geometry.two_view.estimator import Estimator, canonical_order, estimator_library_versions
from tiepoint.geometry.two_view.pose_errors import pose_errors
from tiepoint.geometry.two_view.pose_estimation import (
    estimate,
    estimate_fundamental,
    estimator_versions,
    shuffles,
)
from tiepoint.geometry.two_view.scaling import in_frame, long_side

cv2 = pytest.importorskip("cv2")
pytest.importorskip("poselib")
OPENCV = Estimator("opencv-e", 1.0, 0.99999, 1000)
USAC = Estimator("usac-e", 1.0, 0.9999, 10_000, distance=1e9, fewest=6)
POSELIB = Estimator("poselib-e", 1.0, 0.9999, 10_000, fewest=6)


def worst(found):
    return float(max(pose_errors(found.R, found.t, T[:3, :3], T[:3, 3])))


@pytest.mark.parametrize("est", [OPENCV, USAC, POSELIB, Estimator("opencv-e", 1.0, 0.999, 1000, skew=True)])
def test_true_matches_give_the_true_pose(est):
    found = estimate(est, *seen(200, outliers=40), K0, K1)
    assert found.ok
    assert worst(found) < 1e-3
    assert 158 <= found.inliers <= 168


@pytest.mark.parametrize("est", [USAC, POSELIB])
def test_seeds_repeat_and_differ(est):
    matches = seen(60, noise_px=1.5, outliers=35)
    one, two = ([estimate(est, *matches, K0, K1, s) for s in range(5)] for _ in range(2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.R, b.R)
        np.testing.assert_array_equal(a.t, b.t)
    assert len({a.R.tobytes() for a in one}) > 1


def test_permuting_the_matches_changes_a_result_unless_they_are_put_in_order():
    x0, x1 = seen(60, noise_px=1.5, outliers=35)
    shuffled = [estimate(OPENCV, x0[o], x1[o], K0, K1) for o in shuffles(60, 5)]
    assert len({e.R.tobytes() for e in shuffled}) > 1
    poses = set()
    for order in shuffles(60, 5, seed=4):
        a, b = (np.concatenate([x[order], x[order][:7]]) for x in (x0, x1))
        kept = canonical_order(a, b)
        assert len(kept) == 60
        poses.add(estimate(POSELIB, a[kept], b[kept], K0, K1).R.tobytes())
    assert len(poses) == 1


def test_order_is_by_all_four_coordinates_and_bad_rows_are_named():
    x0 = np.array([[2.0, 1.0], [1.0, 5.0], [1.0, 5.0], [1.0, 2.0], [1.0, 5.0]])
    x1 = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 1.0], [9.0, 9.0], [3.0, 4.0]])
    assert canonical_order(x0, x1).tolist() == [3, 2, 1, 0]
    assert canonical_order(np.empty((0, 2)), np.empty((0, 2))).tolist() == []
    x1[2, 0] = np.nan
    with pytest.raises(InputError, match="match 2 is NaN or infinite"):
        canonical_order(x0, x1)


def test_each_shuffle_permutes_the_one_before():
    random = np.random.RandomState(0)
    x, expected = np.arange(9), []
    for _ in range(3):
        x = x[random.permutation(9)]
        expected.append(x.tolist())
    assert [order.tolist() for order in shuffles(9, 3)] == expected


@pytest.mark.parametrize("n", range(5))
def test_poselib_answers_the_identity_for_too_few_matches(n):
    loose = Estimator("poselib-e", 1.0, 0.9999, 1000, fewest=0)
    found = estimate(loose, *seen(n), K0, K1)
    np.testing.assert_array_equal(found.R, np.eye(3))
    np.testing.assert_array_equal(found.t, np.zeros(3))
    assert not found.ok
    assert "t = 0" in found.reason
    strict = estimate(POSELIB, *seen(n), K0, K1)
    assert np.isnan(strict.t).all()
    assert strict.reason == f"{n} matches, 6 are needed"


def test_five_matches_give_opencv_several_matrices_judged_by_a_shrinking_mask():
    """All five true matches vote for the true block, unless an earlier block has struck some off the mask."""
    votes = []
    for seed in range(12):
        x0, x1 = seen(5, seed=seed)
        u0, u1 = ((x - K[:2, 2]) / K[[0, 1], [0, 1]] for x, K in ((x0, K0), (x1, K1)))
        E, _ = cv2.findEssentialMat(u0, u1, np.eye(3), method=cv2.RANSAC, prob=0.99999, threshold=1e-3)
        assert len(E) > 3
        assert max(cv2.recoverPose(e, u0, u1, np.eye(3))[0] for e in np.split(E, len(E) // 3)) == 5
        votes.append(estimate(OPENCV, x0, x1, K0, K1).inliers)
    assert 5 in votes
    assert min(votes) < 5


def test_a_distance_given_by_place_is_not_used_by_opencv():
    """Points 100 baselines away: with 50 nobody votes, and a positional 1e9 leaves the 50 in force."""
    far = seen(80, depth=105.0)
    assert not estimate(OPENCV, *far, K0, K1).ok
    assert estimate(OPENCV, *far, K0, K1).reason == "no match lies in front of both cameras"
    found = estimate(Estimator("opencv-e", 1.0, 0.99999, 1000, distance=1e9), *far, K0, K1)
    assert found.ok
    assert worst(found) < 0.1
    u0, u1 = ((x - K[:2, 2]) / K[[0, 1], [0, 1]] for x, K in zip(far, (K0, K1), strict=True))
    E = np.cross(np.eye(3), T[:3, 3]) @ T[:3, :3]
    assert cv2.recoverPose(E, u0, u1, np.eye(3), 1e9)[0] == 0


def test_a_threshold_means_pixels_of_the_frame():
    """The same matches in images of half the size accept twice the error."""
    x0, x1 = seen(300, noise_px=1.0)
    sizes = (640, 480), (800, 600)
    small = in_frame(x0, x1, K0, K1, *(long_side(s, s[0] // 2) for s in sizes))
    strict = Estimator("poselib-e", 0.5, 0.9999, 10_000)
    wide = Estimator("poselib-e", 1.0, 0.9999, 10_000)
    assert estimate(strict, *small).inliers == estimate(wide, x0, x1, K0, K1).inliers
    assert estimate(strict, *small).inliers > estimate(strict, x0, x1, K0, K1).inliers


def test_the_slip_uses_two_of_the_four_focal_lengths():
    from tiepoint.geometry.two_view.pose_estimation import focal_px

    assert focal_px(Estimator("opencv-e", 1.0, 0.99, 9, focal="slip"), K0, K1) == (500 + 690) / 2
    assert focal_px(OPENCV, K0, K1) == (500 + 510 + 700 + 690) / 4


def test_single_precision_is_close_and_not_equal():
    matches = seen(100, noise_px=0.5)
    for kind in ("opencv-e", "poselib-e"):
        double, single = (
            estimate(Estimator(kind, 1.0, 0.9999, 1000, dtype=d), *matches, K0, K1)
            for d in ("float64", "float32")
        )
        assert 0 < np.abs(double.R - single.R).max() < 1e-3


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(InputError, match="no seed; permute"):
        estimate(OPENCV, *seen(20), K0, K1, seed=1)
    with pytest.raises(InputError, match=r"`kind`.*poselib-e"):
        Estimator("poselib", 1.0, 0.99, 10)
    with pytest.raises(InputError, match="`focal`"):
        Estimator("opencv-e", 1.0, 0.99, 10, focal="harmonic")
    with pytest.raises(InputError, match="positive"):
        Estimator("opencv-e", 0.0, 0.99, 10)
    with pytest.raises(TypeError):
        Estimator("poselib-e", 1.0, 0.99, 10, max_error=3)
    with pytest.raises(InputError, match="found 20 and 19"):
        estimate(OPENCV, seen(20)[0], seen(19)[1], K0, K1)
    with pytest.raises(InputError, match="invertible"):
        estimate(OPENCV, *seen(20), np.zeros((3, 3)), K1)


def test_versions_are_those_of_the_libraries_used():
    assert list(estimator_versions(OPENCV)) == ["cv2"]
    assert list(estimator_versions(POSELIB)) == ["poselib"]
    assert list(estimator_versions(Estimator("poselib-f", 1.0, 0.99, 10))) == ["poselib", "cv2"]
    assert estimator_versions(OPENCV)["cv2"] == cv2.__version__


def test_another_poselib_and_a_missing_one_are_refused(monkeypatch):
    estimator.import_library.cache_clear()
    monkeypatch.setattr(estimator, "import_module", lambda name: SimpleNamespace(__version__="2.1.0"))
    with pytest.raises(InputError, match=r"PoseLib 2\.1\.0 has other option names"):
        estimator.import_library("poselib")

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(estimator, "import_module", missing)
    with pytest.raises(InputError, match=r"tiepoint\[pose\]"):
        estimator.import_library("poselib")
    with pytest.raises(InputError, match=r"tiepoint\[opencv\]"):
        estimator.import_library("cv2")
    monkeypatch.setattr(estimator, "import_module", importlib.import_module)
    estimator.import_library.cache_clear()
    assert estimator.import_library("poselib").__version__.startswith("2.0.")


def test_poselib_knows_every_option_we_set():
    """It ignores unknown names, so a misspelt one would go unnoticed: each must be among its defaults."""
    import poselib

    from tiepoint.geometry.two_view.estimator import ransac_options

    assert ransac_options(POSELIB, 0).keys() <= poselib.RansacOptions().keys()
    assert ransac_options(POSELIB, 0, "max_reproj_error").keys() <= poselib.RansacOptions().keys()


def test_two_threads_give_the_bits_of_one():
    """Both libraries let go of the interpreter while they work, so a task may call them side by side."""
    matches = [seen(80, noise_px=1.0, outliers=40, seed=s) for s in range(6)]
    for est in (OPENCV, USAC, POSELIB):
        alone = [estimate(est, *m, K0, K1).R.tobytes() for m in matches]
        with ThreadPoolExecutor(2) as pool:
            together = list(pool.map(lambda m, est=est: estimate(est, *m, K0, K1).R.tobytes(), matches))
        assert together == alone


pytest.importorskip("cv2")
MAGSAC = Estimator("opencv-f", 0.25, 0.999, 100_000, method="USAC_MAGSAC")
POSELIB_F = Estimator("poselib-f", 1.0, 0.9999, 10_000)


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


@pytest.mark.parametrize("est", [MAGSAC, POSELIB_F, Estimator("opencv-f", 1.0, 0.999, 2000)])
def test_true_matches_give_their_matrix_and_pose(est):
    if est.kind == "poselib-f":
        pytest.importorskip("poselib")
    x0, x1 = seen(200, outliers=60)
    found = estimate_fundamental(est, x0, x1)
    assert found.ok
    assert symmetric_distances(x0[60:], x1[60:], found.F).max() < 1
    assert found.inlier_mask[60:].mean() > 0.9
    assert found.inlier_mask[:60].mean() < 0.15
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
    answer = estimate(POSELIB_F, x0, x1, K0, K1)
    assert not answer.ok
    np.testing.assert_array_equal(answer.R, np.eye(3))
    np.testing.assert_array_equal(answer.t, np.zeros(3))
    assert np.isnan(estimate(MAGSAC, x0, x1, K0, K1).t).all()


def test_a_missing_library_is_named():
    with pytest.raises(InputError, match=r"pydegensac.*pip install"):
        estimate_fundamental(Estimator("degensac-f", 0.5, 0.999999, 100_000), *seen(20))


def test_fundamental_with_unknown_options_raises():
    with pytest.raises(InputError, match="no seed"):
        estimate_fundamental(MAGSAC, *seen(20), seed=3)
    with pytest.raises(InputError, match="`kind`"):
        estimate_fundamental(Estimator("poselib-e", 1.0, 0.9999, 1000), *seen(20))
