# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.formats.text.frames_text import read_frames, write_frames
from tiepoint.model.errors import FormatError, InputError


def test_line_is_centre_then_columns(tmp_path):
    write_frames(tmp_path / "f", np.array([[[1.0, 2, 10], [3, 4, 20]]]))
    assert (tmp_path / "f").read_text() == "10.000000,20.000000,1.000000,3.000000,2.000000,4.000000\n"
    assert read_frames(tmp_path / "f").tolist() == [[[1, 2, 10], [3, 4, 20]]]


def test_round_trip(tmp_path):
    frames = np.random.default_rng(0).normal(size=(7, 2, 3)) * 100
    write_frames(tmp_path / "f", frames)
    assert np.abs(read_frames(tmp_path / "f") - frames).max() <= 5.1e-7


def test_errors(tmp_path):
    with pytest.raises(InputError, match=r"\(n, 2, 3\)"):
        write_frames(tmp_path / "f", np.zeros((2, 6)))
    with pytest.raises(FormatError, match="cannot be read"):
        read_frames(tmp_path / "f")
    for text in ("1,2,3,4,5\n", "1,2,3,4,5,x\n", "1,2,3,4,5,nan\n"):
        (tmp_path / "f").write_text("1,2,3,4,5,6\n" + text)
        with pytest.raises(FormatError, match="line 2"):
            read_frames(tmp_path / "f")
