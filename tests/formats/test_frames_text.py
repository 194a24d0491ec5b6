# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.formats.text.matrices import write_frames
from tiepoint.model.errors import InputError


def test_line_is_centre_then_columns(tmp_path):
    write_frames(tmp_path / "f", np.array([[[1.0, 2, 10], [3, 4, 20]]]))
    assert (tmp_path / "f").read_text() == "10.000000,20.000000,1.000000,3.000000,2.000000,4.000000\n"


def test_errors(tmp_path):
    with pytest.raises(InputError, match=r"\(n, 2, 3\)"):
        write_frames(tmp_path / "f", np.zeros((2, 6)))
