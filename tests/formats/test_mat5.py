# SPDX-License-Identifier: BSD-3-Clause
"""MATLAB files with images and structs, against SciPy's writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from tiepoint.core.errors import FormatError
from tiepoint.formats.mat5 import read_mat5

MOST = 1 << 20
IMAGE = np.random.default_rng(0).integers(0, 256, (7, 5, 3)).astype(np.uint8)
CONTENT: dict[str, Any] = {
    "image": IMAGE,
    "T": np.eye(3) * 1.5,
    "small": np.arange(6, dtype=np.float64).reshape(2, 3),
    "S": {"a": np.arange(8.0).reshape(4, 2), "b": np.ones((4, 2)), "text": "words"},
}


@pytest.mark.parametrize("compressed", [False, True])
def test_read_mat5_arrays_and_structs_equal_written(tmp_path: Path, compressed: bool) -> None:
    savemat(tmp_path / "x.mat", CONTENT, do_compression=compressed)
    found = read_mat5(tmp_path / "x.mat", most=MOST)
    assert set(found) == set(CONTENT)
    assert found["image"].shape == IMAGE.shape
    assert found["image"].type_name == "u1"
    for name in ("image", "T", "small"):
        array = found[name].array()
        assert array.dtype == CONTENT[name].dtype
        assert np.array_equal(array, CONTENT[name])
    fields = found["S"].fields()
    assert set(fields) == {"a", "b"}
    assert np.array_equal(fields["a"], CONTENT["S"]["a"])
    assert found["T"].fields() == {}
    with pytest.raises(FormatError, match="not an array of real numbers"):
        found["S"].array()


@pytest.mark.parametrize("compressed", [False, True])
def test_read_mat5_truncated_or_changed_raises_only_format_errors(tmp_path: Path, compressed: bool) -> None:
    savemat(tmp_path / "x.mat", CONTENT, do_compression=compressed)
    data = (tmp_path / "x.mat").read_bytes()
    rng = np.random.default_rng(1)
    broken = [data[:n] for n in range(0, len(data), 37)]
    for _ in range(150):
        copy = bytearray(data)
        copy[rng.integers(126, len(data))] = rng.integers(0, 256)
        broken.append(bytes(copy))
    refused = 0
    for content in broken:
        (tmp_path / "y.mat").write_bytes(content)
        try:
            for variable in read_mat5(tmp_path / "y.mat", most=MOST).values():
                variable.fields()
                if variable.type_name:
                    variable.array()
        except FormatError:
            refused += 1
    assert refused > 50


def test_read_mat5_larger_than_limit_raises(tmp_path: Path) -> None:
    savemat(tmp_path / "x.mat", {"zeros": np.zeros((400, 400))}, do_compression=True)
    with pytest.raises(FormatError, match="limit of 100000"):
        read_mat5(tmp_path / "x.mat", most=100_000)["zeros"].array()
