"""Epipolar distances: recorded figures and restatements with explicit lines."""

from __future__ import annotations

import numpy as np
import pytest

from pose_golden import assert_close, golden, needs_golden
from tiepoint.core.errors import InputError
from tiepoint.geometry.two_view import epipolar
from tiepoint.geometry.two_view import epipolar as matrices

K0 = np.array([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])
K1 = np.array([[700.0, 0, 400], [0, 690, 300], [0, 0, 1]])
T = np.array([[0.96, 0, 0.28, 1], [0, 1, 0, 0.1], [-0.28, 0, 0.96, 0.2], [0, 0, 0, 1]])


@needs_golden
def test_recorded_distances():
    case = golden()["epipolar"]
    K0, K1, T, x0, x1 = (np.array(case[k]) for k in ("K0", "K1", "T_0to1", "pts0", "pts1"))
    E = matrices.essential(T)
    u0, u1 = matrices.normalise_points(x0, K0), matrices.normalise_points(x1, K1)
    out = case["out"]
    squared = epipolar.squared_distances(u0, u1, E)
    assert_close(squared, out["superglue.compute_epipolar_error"], 1e-12)
    assert_close(squared, out["loftr.symmetric_epipolar_distance(float64)"], 1e-12)
    mean = epipolar.mean_distances(u0, u1, E)
    assert_close(mean, out["gluefactory.generalized_epi_dist(essential, float64)"], 1e-12)
    singles = [matrices.normalise_points(x, K, np.float32) for x, K in ((x0, K0), (x1, K1))]
    single = epipolar.squared_distances(*singles, E)
    assert single.dtype == np.float32
    assert_close(single, out["loftr.symmetric_epipolar_distance(float32)"], 1e-7)


def distances_to_lines(x0, x1, F):
    """Distance of each point to its line, in words."""
    pairs = []
    for a, b in zip(x0, x1, strict=True):
        p, q = np.append(a, 1), np.append(b, 1)
        l, m = F @ p, F.T @ q
        pairs.append((abs(q @ l) / np.hypot(*l[:2]), abs(p @ m) / np.hypot(*m[:2])))
    return np.array(pairs)


def test_the_three_rules_are_combinations_of_the_two_distances():
    rng = np.random.default_rng(1)
    x0, x1 = rng.uniform(0, 600, (2, 50, 2))
    u0, u1 = matrices.normalise_points(x0, K0), matrices.normalise_points(x1, K1)
    E, F = matrices.essential(T), matrices.fundamental(K0, K1, T)
    plain = distances_to_lines(u0, u1, E)
    np.testing.assert_allclose(epipolar.squared_distances(u0, u1, E), (plain**2).sum(1), rtol=1e-12)
    np.testing.assert_allclose(epipolar.mean_distances(u0, u1, E), plain.mean(1), rtol=1e-12)
    pixels = distances_to_lines(x0, x1, F)
    np.testing.assert_allclose(epipolar.pixel_distances(x0, x1, K0, K1, T), pixels.mean(1), rtol=1e-9)
    np.testing.assert_allclose(epipolar.symmetric_distances(x0, x1, F), np.hypot(*pixels.T), rtol=1e-9)


def test_true_matches_have_no_distance_and_t_may_be_scaled():
    rng = np.random.default_rng(2)
    points = rng.uniform(-1, 1, (40, 3)) + np.array([0, 0, 4])
    seen = points @ T[:3, :3].T + T[:3, 3]
    x0, x1 = ((p @ K.T)[:, :2] / p[:, 2:] for p, K in ((points, K0), (seen, K1)))
    assert epipolar.pixel_distances(x0, x1, K0, K1, T).max() < 1e-9
    longer = T.copy()
    longer[:3, 3] *= 9
    moved = x1 + np.array([0.0, 2.0])
    near, far = (epipolar.pixel_distances(x0, moved, K0, K1, pose) for pose in (T, longer))
    np.testing.assert_allclose(near, far, rtol=1e-9)
    assert 0.3 < near.min() <= near.max() < 4


def test_squared_and_unsquared_precision_are_different_quantities():
    """The same threshold, 5e-4, on matches that are 3 px off."""
    x0 = np.array([[100.0, 50.0], [300.0, 400.0]])
    F = matrices.fundamental(K0, K1, T)
    lines = np.hstack([x0, np.ones((2, 1))]) @ F.T
    on = np.stack([np.full(2, 400.0), -(lines[:, 0] * 400 + lines[:, 2]) / lines[:, 1]], 1)
    u0, u1 = matrices.normalise_points(x0, K0), matrices.normalise_points(on + np.array([0, 3.0]), K1)
    E = matrices.essential(T)
    assert (epipolar.squared_distances(u0, u1, E) < 5e-4).all()
    assert (epipolar.mean_distances(u0, u1, E) > 5e-4).all()


def test_the_floor_of_the_mean_rule_makes_the_scale_of_t_matter_near_an_epipole():
    E = matrices.essential(np.hstack([np.eye(3), [[0], [0], [1e-3]]]))
    u0, u1 = np.array([[1e-2, 0.0]]), np.array([[0.0, 2e-2]])
    plain = epipolar.mean_distances(u0, u1, E, floor=0.0)
    assert epipolar.mean_distances(u0, u1, E) < plain
    np.testing.assert_allclose(epipolar.mean_distances(u0, u1, 1e3 * E, floor=0.0), plain)


def test_a_line_at_infinity_is_infinitely_far():
    F = np.zeros((3, 3))
    F[2, 2] = 1
    assert epipolar.symmetric_distances([[3.0, 4.0]], [[1.0, 2.0]], F).tolist() == [np.inf]


def test_skew_is_kept_on_request():
    K = K0.copy()
    K[0, 1] = 7
    x = np.array([[100.0, 90.0], [400.0, 20.0]])
    plain = np.linalg.solve(K, np.hstack([x, np.ones((2, 1))]).T).T
    np.testing.assert_allclose(matrices.normalise_points(x, K, skew=True), plain[:, :2], atol=1e-12)
    np.testing.assert_allclose(matrices.normalise_points(x, K), matrices.normalise_points(x, K0), atol=0)


def test_bad_input_is_named():
    with pytest.raises(InputError, match="invertible"):
        matrices.normalise_points([[1, 2]], np.diag([500.0, 0, 1]))
    with pytest.raises(InputError, match="found 1 and 2"):
        epipolar.squared_distances([[1, 2]], [[1, 2], [3, 4]], np.eye(3))
    assert epipolar.squared_distances(np.empty((0, 2)), np.empty((0, 2)), np.eye(3)).shape == (0,)
