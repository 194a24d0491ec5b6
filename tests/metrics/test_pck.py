# SPDX-License-Identifier: BSD-3-Clause
"""PCK: lengths, padding, ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tiepoint.metrics.dense import pck_length, point_errors, points_right

points = hnp.arrays(np.float64, st.tuples(st.integers(0, 8), st.just(2)), elements=st.floats(-50, 150))


@given(points, st.floats(1, 100), st.integers(0, 99))
def test_right_points_by_hand(truth: np.ndarray, length: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = truth + rng.normal(0, 5, truth.shape)
    found[rng.random(len(truth)) < 0.2] = np.nan
    errors = point_errors(found, truth)
    for alpha in (0.02, 0.1, 0.5):
        expected = sum(np.hypot(*(f - t)) <= alpha * length for f, t in zip(found, truth, strict=True))
        assert points_right(errors, length, alpha) == expected


def test_padding_does_not_change_the_length() -> None:
    truth = np.array([[10.0, 10.0], [30.0, 20.0]])
    for array in (truth, np.vstack([truth, [[np.nan, np.nan]] * 3])):
        assert pck_length("keypoints", size=(9, 9), points=array) == 20.0


def test_lengths_and_ties() -> None:
    corners = np.array([[0.0, 0.0], [6.0, 8.0]])
    assert pck_length("image", size=(30, 20), points=corners) == 30.0
    assert pck_length("box", size=(30, 20), points=corners, box=(1, 2, 6, 12)) == 10.0
    assert points_right(point_errors(np.array([[3.0, 4.0]]), np.zeros((1, 2))), 50.0, 0.1) == 1
    with pytest.raises(ValueError, match="needs an object box"):
        pck_length("box", size=(30, 20), points=corners)
    with pytest.raises(ValueError, match="unknown scale"):
        pck_length("bbox", size=(30, 20), points=corners)
