# SPDX-License-Identifier: BSD-3-Clause
"""PCK: lengths, padding, ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tiepoint.metrics.dense.pck import pck, pck_counts, pck_length

points = hnp.arrays(np.float64, st.tuples(st.integers(0, 8), st.just(2)), elements=st.floats(-50, 150))


@given(points, st.floats(1, 100), st.integers(0, 99))
def test_counts_by_hand(truth: np.ndarray, length: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = truth + rng.normal(0, 5, truth.shape)
    truth[rng.random(len(truth)) < 0.2] = np.nan
    alphas = [0.02, 0.1, 0.5]
    right, n = pck_counts(found, truth, length, alphas)
    real = [k for k in range(len(truth)) if not np.isnan(truth[k]).any()]
    assert n == len(real)
    for alpha, count in zip(alphas, right, strict=True):
        assert count == sum(np.hypot(*(found[k] - truth[k])) <= alpha * length for k in real)


def test_padding_changes_neither_count_nor_length() -> None:
    truth = np.array([[10.0, 10.0], [30.0, 20.0]])
    padded = np.vstack([truth, [[np.nan, np.nan]] * 3])
    found = np.vstack([truth + 1, np.zeros((3, 2))])
    for array in (truth, padded):
        assert pck_length("keypoints", size=(9, 9), points=array) == 20.0
    assert pck(found, padded, 20.0, 0.1) == pck(found[:2], truth, 20.0, 0.1) == 1.0


def test_lengths_and_ties() -> None:
    corners = np.array([[0.0, 0.0], [6.0, 8.0]])
    assert pck_length("image", size=(30, 20), points=corners) == 30.0
    assert pck_length("box", size=(30, 20), points=corners, box=(1, 2, 6, 12)) == 10.0
    assert pck(np.array([[3.0, 4.0]]), np.array([[0.0, 0.0]]), 50.0, 0.1) == 1.0
    assert np.isnan(pck(np.zeros((0, 2)), np.zeros((0, 2)), 1.0, 0.1))
    with pytest.raises(ValueError, match="needs an object box"):
        pck_length("box", size=(30, 20), points=corners)
    with pytest.raises(ValueError, match="unknown scale"):
        pck_length("bbox", size=(30, 20), points=corners)
