# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.keypoints import Keypoints


def test_opencv_round_trip():
    pytest.importorskip("cv2")
    table = np.array([[1.5, 2, 7, 30, 0.5, 16711935, 3], [4, 5.25, 6, np.nan, 0.125, -1, -1]])
    keypoints = Keypoints.from_array(table)
    cv = keypoints.to_cv()
    assert cv[1].angle == -1
    np.testing.assert_array_equal(Keypoints.from_cv(cv).to_array(), table)
    assert len(Keypoints.from_cv([])) == 0


def test_rows_by_slice_mask_and_index():
    k = Keypoints.at(np.arange(8.0).reshape(4, 2), size_px=[1, 2, 3, 4])
    assert k[1:3].size_px.tolist() == [2, 3]
    assert k[k.size_px > 2].size_px.tolist() == [3, 4]
    assert k[np.array([3, 0])].size_px.tolist() == [4, 1]
    with pytest.raises(InputError, match="integer"):
        k[0]


def test_shapes_are_checked():
    with pytest.raises(InputError, match="shape"):
        Keypoints.from_array(np.zeros((2, 5)))
    with pytest.raises(InputError, match="shape"):
        Keypoints.at(np.zeros((3, 3)))


def test_positions_alone_make_keypoints():
    assert np.isnan(Keypoints.from_array([[1, 2]]).angle_deg).all()
    assert Keypoints.from_array(np.empty((0, 7))).to_array().shape == (0, 7)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e300])
def test_octaves_and_classes_are_whole_numbers(value):
    for name in ("octave", "class_id"):
        with pytest.raises(InputError, match="must be integers"):
            Keypoints.at([[1, 2]], **{name: value})
