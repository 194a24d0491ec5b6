"""Homographies from matches made on the spot, their errors and failures."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.geometry.two_view.epipolar import fundamental, line_distances
from tiepoint.geometry.two_view.homography_errors import (
    COLLAPSED,
    corner_distance,
    map_points,
    scaled_homography,
    transfer_distances,
)
from tiepoint.geometry.two_view.linear_estimation import (
    HomographyEstimator,
    dlt,
    eight_point,
    estimate_homography,
    homography_versions,
)
from tiepoint.geometry.two_view.scaling import short_side

pytest.importorskip("cv2")
H = np.array([[0.9, 0.1, 30.0], [-0.05, 1.1, 12.0], [1e-4, -5e-5, 1.0]])
SIZE = (640, 480)


def seen(n, outliers=0, noise_px=0.0):
    rng = np.random.default_rng(8)
    x0 = rng.uniform(0, 480, (n, 2))
    x1 = map_points(H, x0) + rng.normal(0, noise_px, (n, 2))
    x1[:outliers] = rng.uniform(0, 480, (outliers, 2))
    return x0, x1


@pytest.mark.parametrize(
    "est",
    [
        HomographyEstimator("opencv", 3.0),
        HomographyEstimator("opencv", 3.0, method="USAC_MAGSAC"),
        HomographyEstimator("poselib", 2.0, 0.9999, 100_000),
    ],
)
def test_true_matches_among_others_give_the_homography(est):
    if est.kind == "poselib":
        pytest.importorskip("poselib")
    found = estimate_homography(est, *seen(100, outliers=40))
    assert found.ok
    assert corner_distance(found.H, H, SIZE) < 1e-2
    assert 60 <= found.inliers <= 65
    assert set(homography_versions(est)) == {"cv2" if est.kind == "opencv" else "poselib"}


@pytest.mark.parametrize("n", [4, 5, 60])
def test_dlt_of_true_matches(n):
    np.testing.assert_allclose(dlt(*seen(n)), H, rtol=1e-5, atol=1e-5)


def test_dlt_leaves_out_matches_without_weight_and_is_no_eigenvector():
    x0, x1 = seen(60, outliers=20)
    weights = np.r_[np.zeros(20), np.ones(40)]
    np.testing.assert_allclose(dlt(x0, x1, weights), H, rtol=1e-4, atol=1e-4)
    noisy = seen(60, noise_px=5.0)
    assert corner_distance(dlt(*noisy), H, SIZE) != pytest.approx(
        corner_distance(eigenvector(*noisy), H, SIZE), rel=1e-3
    )
    assert corner_distance(eigenvector(*noisy), H, SIZE) < 60


def eigenvector(x0, x1):
    """The textbook solution, with points centred by the standard deviation."""

    def unit(x):
        s = np.sqrt(2) / np.linalg.norm(x - x.mean(0), axis=1).mean()
        return np.array([[s, 0, -s * x[:, 0].mean()], [0, s, -s * x[:, 1].mean()], [0, 0, 1]])

    A, B = unit(x0), unit(x1)
    rows = []
    for (x, y), (u, v) in zip(map_points(A, x0), map_points(B, x1), strict=True):
        rows += [[0, 0, 0, -x, -y, -1, v * x, v * y, v], [x, y, 1, 0, 0, 0, -u * x, -u * y, -u]]
    return np.linalg.inv(B) @ np.linalg.svd(np.array(rows))[2][-1].reshape(3, 3) @ A


@pytest.mark.parametrize("kind", ["opencv", "poselib", "dlt"])
@pytest.mark.parametrize("n", [0, 3])
def test_fewer_than_four_matches_give_none(kind, n):
    found = estimate_homography(HomographyEstimator(kind), *seen(n))
    assert not found.ok
    assert found.reason == f"{n} matches, 4 are needed"
    assert corner_distance(found.H, H, SIZE) == np.inf


def test_a_failure_as_a_collapsed_matrix_has_a_finite_error():
    far = map_points(H, [[0, 0], [639, 0], [639, 479], [0, 479]])
    expected = np.linalg.norm(far, axis=1).mean()
    assert corner_distance(COLLAPSED, H, SIZE) == pytest.approx(expected, rel=1e-12)


def test_corners_at_the_edge_are_a_pixel_farther():
    grown = np.diag([1.01, 1.01, 1.0])
    inner, outer = (corner_distance(grown, np.eye(3), (101, 51), edge=e) for e in (False, True))
    assert inner == pytest.approx((0 + 1 + 0.5 + np.hypot(1, 0.5)) / 4, rel=1e-12)
    assert outer == pytest.approx((0 + 1.01 + 0.51 + np.hypot(1.01, 0.51)) / 4, rel=1e-12)


def test_an_error_in_resized_pixels_is_that_in_original_ones_times_the_scale():
    resize = short_side((1000, 960), 480)
    wrong = H @ np.array([[1, 0, 2], [0, 1, -1], [0, 0, 1.0]])
    original = corner_distance(wrong, H, (1000, 960), edge=True)
    pair = (scaled_homography(m, resize, resize) for m in (wrong, H))
    assert corner_distance(*pair, resize.size, edge=True) == pytest.approx(original / 2, rel=1e-9)


def test_scaled_homographies_map_scaled_points():
    a, b = short_side((1000, 707), 480, "trunc"), short_side((640, 480), 300, "round")
    x = np.array([[3.0, 9.0], [400.0, 300.0]])
    there = map_points(scaled_homography(H, a, b), x * np.array(a.scale))
    np.testing.assert_allclose(there, map_points(H, x) * np.array(b.scale), rtol=1e-12)


def test_transfer_distance_is_the_mean_of_both_directions():
    double = np.diag([2.0, 2.0, 1.0])
    assert transfer_distances([[1, 1]], [[2, 6]], double).tolist() == [3.0]


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(InputError, match="no seed"):
        estimate_homography(HomographyEstimator("opencv"), *seen(9), seed=0)
    with pytest.raises(InputError, match=r"`kind`.*dlt"):
        HomographyEstimator("ransac")
    with pytest.raises(InputError, match="pydegensac"):
        estimate_homography(HomographyEstimator("degensac"), *seen(9))


K = np.array([[700.0, 0, 320], [0, 710, 240], [0, 0, 1]])


def correspondences(n: int, noise_px: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    world = draw.uniform([-2, -2, 4], [2, 2, 9], (n, 3))
    c, s = np.cos(0.3), np.sin(0.3)
    T = np.array([[c, 0, s, -0.7], [0, 1, 0, 0.1], [-s, 0, c, 0.4], [0, 0, 0, 1]])
    moved = world @ T[:3, :3].T + T[:3, 3]
    first, second = ((p @ K.T)[:, :2] / p[:, 2:] for p in (world, moved))
    return first, second + noise_px * draw.standard_normal((n, 2)), T


@pytest.mark.parametrize("n", [8, 40])
def test_exact_points_give_the_matrix_of_the_cameras(n: int) -> None:
    first, second, T = correspondences(n, 0.0)
    true = fundamental(K, K, T)
    true /= np.linalg.norm(true)
    found = eight_point(first, second)
    assert min(np.abs(found - true).max(), np.abs(found + true).max()) < 1e-9
    assert line_distances(first, second, found).max() < 1e-7


def test_noise_is_averaged_and_the_rank_is_two() -> None:
    first, second, _ = correspondences(60, 0.5)
    found = eight_point(first, second)
    assert np.linalg.svd(found, compute_uv=False)[2] < 1e-12
    assert 0.05 < line_distances(first, second, found).mean() < 0.6


def test_seven_are_too_few() -> None:
    first, second, _ = correspondences(7, 0.0)
    with pytest.raises(InputError, match=r"found 7 and 7 .* 8 or more pairs of points"):
        eight_point(first, second)
