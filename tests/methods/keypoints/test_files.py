# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import FormatError, InputError, ProblemsError
from tiepoint.core.keypoints import Keypoints
from tiepoint.core.records import Item
from tiepoint.formats.keypoints.features import read_features, write_keypoint_csv
from tiepoint.methods.keypoints.files import find_file
from tiepoint.methods.resolve import resolve

IMAGE = np.random.default_rng(0).integers(0, 256, (120, 160, 3)).astype(np.uint8)
ITEM = Item("v_a/1", "content")


@pytest.fixture
def features(tmp_path):
    (tmp_path / "v_a").mkdir()
    rng = np.random.default_rng(1)
    arrays = {
        "keypoints": rng.random((5, 2)) * 100,
        "descriptors": rng.random((5, 8)),
        "scores": np.arange(5.0),
    }
    np.savez(tmp_path / "v_a" / "1.ppm.npz", **arrays)
    return tmp_path, arrays


def test_features_of_another_program(features):
    root, arrays = features
    method = resolve(f"files:{root}", family="keypoints")
    assert not method.needs_payload
    found = method.extract(ITEM, None)
    assert np.array_equal(found["keypoints"][:, :2], arrays["keypoints"])
    assert np.array_equal(found["keypoints"][:, 4], arrays["scores"])
    assert np.allclose(found["values"], arrays["descriptors"])
    before = method.key(ITEM)
    np.savez(root / "v_a" / "1.ppm.npz", **{**arrays, "descriptors": arrays["descriptors"] + 1})
    assert resolve(f"files:{root}", family="keypoints").key(ITEM) != before


def test_other_endings_and_bits(tmp_path):
    (tmp_path / "v_a").mkdir()
    table = np.array([[3.0, 4.0, 9.0], [5.0, 6.0, 8.0]])
    with (tmp_path / "v_a" / "1.png.d2-net").open("wb") as f:
        np.savez(f, keypoints=table, descriptors=np.eye(2, 16, dtype=bool))
    found = resolve(f"files:{tmp_path}?suffix=.d2-net&distance=hamming", family="keypoints").extract(
        ITEM, None
    )
    assert found["keypoints"][:, 2].tolist() == [9, 8]
    assert found["values"].shape == (2, 2)


def test_missing_and_damaged_files_are_named(features):
    root, arrays = features
    method = resolve(f"files:{root}", family="keypoints")
    with pytest.raises(ProblemsError, match="v_a/2"):
        method.check([ITEM, Item("v_a/2", "x")])
    (root / "v_a" / "1.ppm.npz").write_bytes(b"no")
    with pytest.raises(FormatError, match=r"is not a readable \.npz"):
        method.extract(ITEM, None)
    np.savez(root / "v_a" / "1.ppm.npz", keypoints=arrays["keypoints"])
    with pytest.raises(FormatError, match="no array 'descriptors'"):
        method.extract(ITEM, None)
    with pytest.raises(InputError, match="not a folder"):
        resolve("files:nowhere", family="keypoints")


def test_places_from_csv(tmp_path):
    pytest.importorskip("cv2")
    (tmp_path / "v_a").mkdir()
    places = Keypoints.at([[50, 40], [80, 60]], size_px=9.0, angle_deg=30.0)
    write_keypoint_csv(tmp_path / "v_a" / "1ppm.csv", places)
    method = resolve(f"sift@files:{tmp_path}", family="keypoints")
    found = method.extract(ITEM, IMAGE)
    assert np.array_equal(found["keypoints"], places.to_array())
    before = method.key(ITEM)
    write_keypoint_csv(tmp_path / "v_a" / "1ppm.csv", places[:1])
    assert method.key(ITEM) != before
    with pytest.raises(ProblemsError, match="1 problem"):
        method.check([ITEM, Item("i_b/1", "x")])
    write_keypoint_csv(tmp_path / "v_a" / "1ppm.csv", Keypoints.at([[500, 40]]))
    with pytest.raises(InputError, match="outside the image"):
        method.extract(ITEM, IMAGE)


def test_two_files_of_one_image_are_refused(tmp_path):
    """The first by an order of endings was taken."""
    (tmp_path / "v_a").mkdir()
    for name in ("1.csv", "1.ppm.csv"):
        write_keypoint_csv(tmp_path / "v_a" / name, Keypoints.at([[50, 40]]))
    with pytest.raises(
        InputError, match=r"1\.csv and 1\.ppm\.csv: both belong to the same image; remove one"
    ):
        find_file(tmp_path, "v_a/1", (".csv",))


def test_octaves_that_are_no_numbers_name_the_file(tmp_path):
    np.savez(tmp_path / "1.npz", keypoints=np.full((1, 7), np.nan), descriptors=np.ones((1, 4)))
    with pytest.raises(FormatError, match=r"1\.npz: keypoint octaves and classes must be integers"):
        read_features(tmp_path / "1.npz")
