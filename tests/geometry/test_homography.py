# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiepoint.core.errors import InputError
from tiepoint.geometry.homography import (
    as_homography,
    compose,
    corner_error,
    denominator,
    inverse,
    local_affine,
    project,
)

MILD = np.array(
    [[0.88184, 0.31397, -39.976], [-0.18167, 0.93621, 153.25], [0.00020118, -1.9028e-05, 0.99997]]
)


def by_hand(h, x, y):
    """The projection of one point, spelt out."""
    w = h[2][0] * x + h[2][1] * y + h[2][2]
    return (h[0][0] * x + h[0][1] * y + h[0][2]) / w, (h[1][0] * x + h[1][1] * y + h[1][2]) / w


def test_project_agrees_with_the_formula_spelt_out():
    points = [(0.0, 0.0), (100.5, 20.0), (799.0, 639.0)]
    assert np.allclose(project(MILD, points), [by_hand(MILD, x, y) for x, y in points], rtol=1e-14)


@pytest.mark.parametrize("factor", [1.0, -1.0, 1e-9, -3e7])
def test_scale_and_sign_of_the_matrix_do_not_matter(factor):
    h = np.array([[1, 0, 0], [0, 1, 0], [0.01, 0, 1.0]])
    points = [[5, 5], [-99, 5], [-100, 5], [-101, 5]]
    out = project(factor * h, points)
    assert np.isfinite(out[:2]).all()
    assert np.isnan(out[2:]).all()
    assert np.allclose(out[:2], project(h, points)[:2])


def test_behind_is_told_by_the_reference_side():
    h = np.array([[1, 0, 0], [0, 1, 0], [0.01, 0, 1.0]])
    points = [[-150.0, 0.0], [10.0, 0.0]]
    assert np.isnan(project(h, points)[0]).all()
    seen_from_there = project(h, points, reference=(-200.0, 0.0))
    assert np.isfinite(seen_from_there[0]).all()
    assert np.isnan(seen_from_there[1]).all()


def test_mirror_is_in_front():
    assert project([[-1, 0, 9], [0, 1, 0], [0, 0, 1]], [[2, 3]]).tolist() == [[7, 3]]


def test_reference_at_infinity_is_refused():
    with pytest.raises(InputError, match="to infinity"):
        project([[1, 0, 0], [0, 1, 0], [0.5, 0, 1]], [[0, 0]], reference=(-2, 0))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.eye(2), "shape"),
        (np.ones((3, 3)), "singular"),
        (np.diag([1, 1, 0]), "singular"),
        (np.diag([1, np.nan, 1]), "finite"),
    ],
)
def test_bad_matrices(bad, words):
    with pytest.raises(InputError, match=words):
        as_homography(bad)


def test_points_of_the_wrong_shape():
    with pytest.raises(InputError, match=r"\(n, 2\)"):
        project(np.eye(3), [[1, 2, 3]])
    assert project(np.eye(3), []).shape == (0, 2)


@given(st.floats(-200, 900), st.floats(-200, 900))
def test_inverse_brings_points_back(x, y):
    there = project(MILD, [[x, y]])
    back = project(inverse(MILD), there, reference=tuple(project(MILD, [[0, 0]])[0]))
    assert np.allclose(back, [[x, y]], atol=1e-7)


def test_compose_is_one_after_the_other():
    shift = np.array([[1, 0, 3], [0, 1, -2], [0, 0, 1.0]])
    points = [[1, 2], [30, 40]]
    assert np.allclose(project(compose(shift, MILD), points), project(shift, project(MILD, points)))
    assert not np.allclose(project(compose(MILD, shift), points), project(compose(shift, MILD), points))


def test_local_affine_is_the_derivative():
    points = np.array([[3.0, 4.0], [500.0, 300.0]])
    eps = 1e-4
    for p, jacobian in zip(points, local_affine(MILD, points), strict=True):
        for axis in range(2):
            step = np.eye(2)[axis] * eps
            numeric = (project(MILD, [p + step]) - project(MILD, [p - step]))[0] / (2 * eps)
            assert np.allclose(jacobian[:, axis], numeric, atol=1e-6)
        assert np.linalg.det(jacobian) == pytest.approx(np.linalg.det(MILD) / denominator(MILD, [p])[0] ** 3)


def test_corner_error():
    assert corner_error(MILD, MILD * -2, (800, 640)) == pytest.approx(0, abs=1e-9)
    shift = compose([[1, 0, 3], [0, 1, 4], [0, 0, 1]], MILD)
    assert corner_error(shift, MILD, (800, 640)) == pytest.approx(5)


@pytest.mark.parametrize(
    "estimate", [np.zeros((3, 3)), np.full((3, 3), np.nan), [[1, 0, 0], [0, 1, 0], [0.01, 0, -1]]]
)
def test_a_useless_estimate_is_infinitely_wrong(estimate):
    assert corner_error(estimate, np.eye(3), (200, 200)) == np.inf


def test_corners_behind_the_true_camera_are_left_out():
    truth = np.array([[1, 0, 0], [0, 1, 0], [-0.01, 0, 1.5]])  # x > 150 is behind, the centre is not
    shifted = compose([[1, 0, 3], [0, 1, 4], [0, 0, 1]], truth)
    assert corner_error(truth, truth, (201, 101)) == 0
    assert corner_error(shifted, truth, (201, 101)) == pytest.approx(5)


def test_a_bad_truth_is_an_error():
    with pytest.raises(InputError, match="singular"):
        corner_error(np.eye(3), np.zeros((3, 3)), (400, 200))
