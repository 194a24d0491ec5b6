# SPDX-License-Identifier: BSD-3-Clause
"""``vismatch:NAME`` with a stand-in for the package; `bench/check_vismatch.py` checks the real one."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve

STAND_IN = """
import numpy as np

available_models = ["sift-nn", "loftr"]
made = []


class Matcher:
    def __init__(self, name):
        self.name = name

    def __call__(self, img0, img1):
        assert img0.shape == (3, 40, 50) and img0.dtype == np.float32 and 0 <= img0.min() <= img0.max() <= 1
        points = np.random.random((7, 2)).astype(np.float32) * [49, 39]
        return {
            "num_inliers": 0, "H": None, "inlier_kpts0": points[:0], "inlier_kpts1": points[:0],
            "matched_kpts0": points, "matched_kpts1": points[::-1],
            "all_kpts0": np.zeros((11, 2)) if self.name == "sift-nn" else np.zeros((0, 2)),
            "all_kpts1": np.zeros((12, 2)) if self.name == "sift-nn" else np.zeros((0, 2)),
            "matched_confidences": None if self.name == "sift-nn" else np.linspace(0, 1, 7),
        }


def get_matcher(matcher_name="sift-lightglue", device="cpu", max_num_keypoints=2048, *args, **kwargs):
    made.append((matcher_name, device, max_num_keypoints))
    return Matcher(matcher_name)
"""
IMAGE = np.random.default_rng(0).integers(0, 256, (40, 50, 3)).astype(np.uint8)
ITEM = Item("a--b", "content")


@pytest.fixture
def package(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    (tmp_path / "vismatch.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "vismatch", raising=False)
    yield
    sys.modules.pop("vismatch", None)


def test_matches_of_the_package(package):
    method = resolve("vismatch:sift-nn?most=500", family="pairs")
    assert method.name == "vismatch:sift-nn?most=500"
    found = method.extract(ITEM, (IMAGE, IMAGE))
    assert found["points0"].shape == (7, 2)
    np.testing.assert_array_equal(found["points1"], found["points0"][::-1])
    assert (found["keypoints0"], found["keypoints1"]) == (11, 12)
    assert "confidence" not in found
    again = method.extract(ITEM, (IMAGE, IMAGE))
    np.testing.assert_array_equal(again["points0"], found["points0"])
    assert sys.modules["vismatch"].made == [("sift-nn", "cpu", 500)]


def test_a_matcher_without_keypoints_has_no_counts_and_its_own_confidence(package):
    found = resolve("vismatch:loftr", family="pairs").extract(ITEM, (IMAGE, IMAGE))
    assert sorted(found) == ["confidence", "points0", "points1"]


def test_names_and_settings_are_in_the_key(package):
    keys = {resolve(f"vismatch:{s}", family="pairs").key(ITEM) for s in ("loftr", "sift-nn", "loftr?seed=1")}
    assert len(keys) == 3
    with pytest.raises(InputError, match="unknown matcher of vismatch 'lofter'; did you mean 'loftr'"):
        resolve("vismatch:lofter", family="pairs")


def test_without_the_package_the_way_to_it_is_told():
    with pytest.raises(InputError, match="new environment, see docs/adding-a-method"):
        resolve("vismatch:loftr", family="pairs")
