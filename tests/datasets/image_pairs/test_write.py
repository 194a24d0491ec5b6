"""Every layout, once read, can be written as JSON and read back without loss."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.datasets.image_pairs.ground_truth import PairSet, PairTruth
from tiepoint.datasets.image_pairs.native_json import write_pairs
from tiepoint.datasets.image_pairs.pair import ImagePair
from tiepoint.datasets.image_pairs.reader import read_pairs

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", "../shared/data"))


def same(first: PairSet, second: PairSet) -> None:
    assert len(first) == len(second)
    for a, b in zip(first.truths, second.truths, strict=True):
        for name in ("name", "scene", "dataset", "turns", "facts"):
            assert getattr(a.pair, name) == getattr(b.pair, name)
        assert (a.centre, a.pair.sizes()) == (b.centre, b.pair.sizes())
        assert a.pair.content(a.queries()) == b.pair.content(b.queries())
        assert a.definition() == b.definition()


@pytest.mark.parametrize("turns", [(0, 0), (1, 2), (3, 1)])
@pytest.mark.parametrize("centre", [0.0, 0.5])
def test_turned_pairs_come_back(tmp_path: Path, turns: tuple[int, int], centre: float) -> None:
    for name in ("a.png", "b.png"):
        Image.fromarray(np.zeros((30, 40, 3), np.uint8)).save(tmp_path / name)
    T = np.array([[0.0, -1, 0, 1], [1, 0, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]])
    K = np.array([[50.0, 0, 20.25], [0, 60, 15.5], [0, 0, 1]])
    pair = ImagePair("x", "s", "", tmp_path / "a.png", tmp_path / "b.png", (40, 30), (40, 30))
    upright = PairTruth(pair, K, K, T, centre)
    write_pairs(tmp_path / "pairs.json", [upright])
    text = (tmp_path / "pairs.json").read_text()
    (tmp_path / "pairs.json").write_text(text.replace('"scene"', f'"turns": {list(turns)}, "scene"'))
    turned = read_pairs(tmp_path)
    write_pairs(tmp_path / "again.json", turned.truths)
    same(turned, read_pairs(tmp_path / "again.json"))
    assert '"image0": "a.png"' in text


@pytest.mark.skipif(not (DATA / "truth").is_dir(), reason="TIEPOINT_TEST_DATA has no folder truth")
@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("scannet_sample", "pose"),
        ("truth/scannet_test.npz", "pose"),
        ("truth/megadepth_0015_0.1_0.3.npz", "pose"),
        ("wxbs", "corrs"),
        ("evd", "homography"),
        ("spair_sample", "keypoints"),
        ("pf_willow", "keypoints"),
    ],
)
def test_real_layouts_come_back(tmp_path: Path, name: str, needs: str) -> None:
    pairs = read_pairs(DATA / name, needs=needs)
    write_pairs(tmp_path / "pairs.json", pairs.truths)
    back = read_pairs(tmp_path, needs=needs)
    same(pairs, back)
