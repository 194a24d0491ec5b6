# SPDX-License-Identifier: BSD-3-Clause
"""Descriptors with a known score, through the whole command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tiepoint.cli.main import run as tiepoint
from tiepoint.formats.image.reader import write_image


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    photo = pytest.importorskip("skimage.data").astronaut()
    root = tmp_path_factory.mktemp("sequences")
    for scene, (y, x) in {"v_a": (60, 40), "i_b": (150, 200), "v_c": (20, 160)}.items():
        (root / scene).mkdir()
        write_image(root / scene / "1.png", np.ascontiguousarray(photo[y : y + 160, x : x + 200]))
        write_image(root / scene / "2.png", np.ascontiguousarray(photo[y - 8 : y + 150, x + 9 : x + 210]))
        np.savetxt(root / scene / "H_1_2", [[1, 0, -9], [0, 1, 8], [0, 0, 1]])
    return root


def scores(capsys, *words):
    capsys.readouterr()
    assert tiepoint([*words, "--jobs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["scores"]
    return {(s["method"], s["protocol"], s["metric"], s["group"]): s for s in found}


def test_chance_and_certainty(folder, tmp_path, capsys):
    pytest.importorskip("cv2")
    store = ["--data", str(folder), "--store", str(tmp_path / "s")]
    make = ["keypoints", "make", "p", "--detector", "sift", "--mode", "projected", "--max-features", "60"]
    assert tiepoint([*make, "--border-px", "5", "--min-distance-px", "7", *store]) == 0
    found = scores(
        capsys, "run", "constant@set:p", "random@set:p", "oracle@set:p", "--task", "keypoints/ranking",
        "--protocol", "exact,workbench", *store,
    )  # fmt: skip
    for protocol in ("exact", "workbench"):
        assert found["oracle@set:p", protocol, "true_map_micro", "all"]["value"] == 1
        for name in ("constant", "random"):
            assert found[f"{name}@set:p", protocol, "true_map_micro", "all"]["value"] < 0.2
    # ties in random order: a constant descriptor scores the harmonic mean H_N / N of its gallery
    keypoints = found["constant@set:p", "exact", "gallery_size", "all"]["value"]
    assert keypoints > 20
    assert found["constant@set:p", "exact", "true_map_micro", "all"]["value"] == pytest.approx(
        np.mean([_harmonic(n) for n in _sizes(tmp_path)]), rel=1e-9
    )


def _harmonic(n):
    return sum(1 / k for k in range(1, n + 1)) / n


def _sizes(tmp_path):
    """Gallery of every query: each scene's set, once for every row."""
    counts = json.loads((tmp_path / "s" / "keypoint_sets" / "p" / "set.json").read_text())["images"]
    return [n for key, n in counts.items() if key.endswith("/2") for _ in range(n)]
