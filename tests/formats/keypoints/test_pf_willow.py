# SPDX-License-Identifier: BSD-3-Clause
"""The small MATLAB reader against SciPy's."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats.keypoints.pf_willow import read_mat5_matrix, read_pf_keypoints

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).normal(size=(2, 10)),
        np.arange(12.0).reshape(3, 4),
        np.array([[7.0]]),
        np.zeros((0, 3)),
    ],
)
def test_as_scipy_reads_it(tmp_path: Path, values: np.ndarray, compressed: bool) -> None:
    from scipy.io import loadmat, savemat

    content = {"before": np.ones((2, 2)), "text": "words", "x": values, "after": np.arange(3)}
    savemat(tmp_path / "a.mat", content, do_compression=compressed)
    found = read_mat5_matrix(tmp_path / "a.mat", "x")
    assert np.array_equal(found, loadmat(tmp_path / "a.mat")["x"])


def test_what_is_not_a_real_matrix(tmp_path: Path) -> None:
    from scipy.io import savemat

    savemat(tmp_path / "a.mat", {"c": np.array([1j]), "i": np.array([1], np.int32), "s": "text"})
    for name in ("c", "i", "s", "nowhere"):
        with pytest.raises(FormatError, match="no matrix"):
            read_mat5_matrix(tmp_path / "a.mat", name)


@pytest.mark.skipif(not (DATA / "pf_willow").is_dir(), reason=f"no PF-WILLOW sample in {DATA}")
def test_real_keypoints_as_scipy_reads_them() -> None:
    from scipy.io import loadmat

    files = sorted((DATA / "pf_willow").glob("*/*.mat"))
    assert len(files) == 20
    for file in files:
        assert np.array_equal(read_pf_keypoints(file), loadmat(file)["pts_coord"].T)
