# SPDX-License-Identifier: BSD-3-Clause
"""Runs on a device and on the processor leave the same store: the device is in no key and no record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiepoint.cli.main import run as tiepoint
from tiepoint.kernels import get_device, set_device

PATCHES = "hpatches/verification,hpatches/matching,hpatches/retrieval"
KEYPOINTS = "keypoints/ranking,keypoints/matching,keypoints/verification,keypoints/retrieval"


def bits(root: Path, command: list[str]) -> dict[str, bytes]:
    """Records of a run by their name, and its scores as they are exported."""
    out = root / "scores.csv"
    assert tiepoint(["run", *command, "--store", str(root / "store")]) == 0
    assert tiepoint(["report", "--store", str(root / "store"), "--format", "csv", "--out", str(out)]) == 0
    files = sorted((root / "store" / "records").glob("*/*.parquet"))
    scores = b"".join(line for line in out.read_bytes().splitlines(True) if b"processing_time_ms" not in line)
    return {"scores": scores} | {f.name: f.read_bytes() for f in files}


@pytest.mark.slow
@pytest.mark.parametrize("family", ["patches", "keypoints"])
def test_the_torch_path_leaves_the_same_store(family, request, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the kernels on a device need torch")
    data = request.getfixturevalue("patches" if family == "patches" else "sequences")
    method, tasks = ("resize,orb", PATCHES) if family == "patches" else ("orb,sift", KEYPOINTS)
    methods = method.split(",")
    command = [*methods, "--task", tasks, "--data", str(data), "--on-bad", "miss"]
    plain = bits(tmp_path / "plain", command)
    monkeypatch.setenv("TIEPOINT_KERNELS", "torch")
    used = []
    from tiepoint.kernels.torch_backend import nearest_scan

    made = nearest_scan.DeviceScores.__init__
    monkeypatch.setattr(
        nearest_scan.DeviceScores,
        "__init__",
        lambda self, *given: used.append(get_device()) or made(self, *given),
    )
    try:
        assert bits(tmp_path / "torch", command) == plain
    finally:
        set_device(None)
    assert set(used) == {"torch:cpu"}
