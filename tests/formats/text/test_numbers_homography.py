# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import FormatError, InputError
from tiepoint.formats.text.numbers import read_homography, write_frames, write_homography

EXPECTED = [[0.5, -1.5e-4, 2.0], [0.0, 1.0, -3.0], [1e-6, 0.0, 1.0]]


@pytest.mark.parametrize(
    "text",
    [
        "   5.0e-01  -1.5e-04   2\n   0 1 -3\n  1e-6 0 1\n",
        "0.5,-0.00015,2\n0,1,-3\n1e-6,0,1",
        "0.5, -0.00015, 2 \r\n0;\t1; -3\r\n\r\n1e-6\t0\t1\r\n\n",
    ],
)
def test_separators(tmp_path, text):
    (tmp_path / "H").write_text(text)
    assert read_homography(tmp_path / "H").tolist() == EXPECTED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected 3 lines of 3 numbers, found 0"),
        ("1 0 0\n0 1 0\n", "found 2"),
        ("1 0 0\n0 1\n0 0 1\n", "line 2: expected 3 numbers, found 2"),
        ("1 0 0\n0 one 0\n0 0 1\n", "line 2: expected 3 numbers, found '0 one 0'"),
        ("1 0 0\n0 1 0\n0 0 nan\n", "line 3: expected finite"),
        ("1 2 3\n2 4 6\n0 0 1\n", "singular"),
        ("0 0 0\n0 0 0\n0 0 0\n", "singular"),
    ],
)
def test_bad_files_say_where(tmp_path, text, words):
    (tmp_path / "H").write_text(text)
    with pytest.raises(FormatError, match=words):
        read_homography(tmp_path / "H")


def test_missing_and_binary(tmp_path):
    with pytest.raises(FormatError, match="missing"):
        read_homography(tmp_path / "H")
    (tmp_path / "H").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="text"):
        read_homography(tmp_path / "H")


@pytest.mark.parametrize("delimiter", [" ", ","])
def test_round_trip_keeps_every_bit(tmp_path, delimiter):
    h = np.random.default_rng(0).normal(size=(3, 3)) * [[1e3], [1], [1e-7]]
    write_homography(tmp_path / "H", h, delimiter=delimiter)
    assert np.array_equal(read_homography(tmp_path / "H"), h)


def test_a_line_of_frames_is_centre_then_columns(tmp_path):
    write_frames(tmp_path / "f", np.array([[[1.0, 2, 10], [3, 4, 20]]]))
    assert (tmp_path / "f").read_text() == "10.000000,20.000000,1.000000,3.000000,2.000000,4.000000\n"


def test_frames_of_another_shape_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"\(n, 2, 3\)"):
        write_frames(tmp_path / "f", np.zeros((2, 6)))
