# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiepoint.core.errors import FormatError
from tiepoint.core.keypoints import Keypoints
from tiepoint.formats.keypoints.features import HEADER, read_keypoint_csv, write_keypoint_csv

number = st.floats(-1e6, 1e6, allow_nan=False)
angle = st.one_of(st.just(float("nan")), st.floats(0, 360))
row = st.tuples(number, number, number, angle, number, st.integers(-(2**40), 2**40), st.integers(-1, 99))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(row, max_size=6))
def test_round_trip_is_exact(tmp_path, rows):
    keypoints = Keypoints.from_array(np.array(rows, dtype=float).reshape(-1, 7))
    write_keypoint_csv(tmp_path / "k.csv", keypoints)
    again = read_keypoint_csv(tmp_path / "k.csv")
    np.testing.assert_array_equal(again.to_array(), keypoints.to_array())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected the header"),
        ("x,y,size\n1,2,3\n", "line 1: expected the header"),
        (f"{HEADER}\n1,2,3,4,5,6\n", "line 2: expected 7 fields, found 6"),
        (f"{HEADER}\n1,2,3,4,5,6,7\n1,2,3,4,5,6,7,8\n", "line 3: expected 7 fields, found 8"),
        (f"{HEADER}\nnan,2,3,4,5,6,7\n", "line 2: x is 'nan', expected a finite number"),
        (f"{HEADER}\n1,inf,3,4,5,6,7\n", "line 2: y is 'inf'"),
        (f"{HEADER}\n1,two,3,4,5,6,7\n", "line 2: y is 'two', expected a number"),
        (f"{HEADER}\n1,2,3,4,5,6.5,7\n", "line 2: octave is '6.5', expected an integer"),
    ],
)
def test_bad_files_name_the_line(tmp_path, text, message):
    (tmp_path / "k.csv").write_text(text)
    with pytest.raises(FormatError, match=message.replace(".", r"\.")):
        read_keypoint_csv(tmp_path / "k.csv")


def test_missing_file(tmp_path):
    with pytest.raises(FormatError, match="does not exist"):
        read_keypoint_csv(tmp_path / "none.csv")


def test_unset_angle_is_minus_one_in_the_file(tmp_path):
    write_keypoint_csv(tmp_path / "k.csv", Keypoints.at([[1, 2]], size_px=3, response=0.25))
    assert (tmp_path / "k.csv").read_text() == f"{HEADER}\n1.0,2.0,3.0,-1.0,0.25,0,-1\n"


def test_non_finite_positions_are_refused(tmp_path):
    with pytest.raises(FormatError, match="keypoint 1 has a NaN or infinite value"):
        write_keypoint_csv(tmp_path / "k.csv", Keypoints.at([[1, 2], [np.inf, 0]]))
    assert not (tmp_path / "k.csv").exists()
