"""The indices of ScanNet-1500 and MegaDepth-1500, and pickles that ask for more than arrays."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tiepoint.core.errors import FormatError, ProblemsError
from tiepoint.datasets.image_pairs.reader import read_pairs

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", "../shared/data"))
TRUTH = DATA / "truth"
needs_truth = pytest.mark.skipif(
    not TRUTH.is_dir(), reason="no truth of pose benchmarks in TIEPOINT_TEST_DATA"
)
K = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])


def pose(degrees: float, t: tuple[float, float, float]) -> np.ndarray:
    c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    return np.array([[c, -s, 0, t[0]], [s, c, 0, t[1]], [0, 0, 1, t[2]], [0, 0, 0, 1]])


def index(**changes: Any) -> dict[str, Any]:
    def objects(*values: Any) -> np.ndarray:
        array = np.empty(len(values), object)
        array[:] = values
        return array

    return {
        "image_paths": objects(
            "Undistorted_SfM/0022/images/a.jpg", None, "Undistorted_SfM/0022/images/b.jpg"
        ),
        "depth_paths": objects(None, None, None),
        "intrinsics": objects(K, None, 2 * K - np.diag([0, 0, 1.0])),
        "poses": objects(pose(10, (1, 2, 3)), None, pose(40, (0, 1, 0))),
        "pair_infos": [(np.array([0, 2]), 0.25, np.zeros(2))],
        **changes,
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickled_index_is_read_without_being_run(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "0022_0.1_0.3.npz").write_bytes(pickle.dumps(index(), protocol=protocol))
    (truth,) = read_pairs(tmp_path).truths
    assert (truth.pair.name, truth.pair.scene, truth.pair.dataset, truth.centre) == (
        "a--b",
        "0022",
        "megadepth",
        0.5,
    )
    assert truth.pair.facts == {"overlap": 0.25}
    assert truth.pair.sizes() == ((640, 480), (1280, 960))
    expected = pose(40, (0, 1, 0)) @ np.linalg.inv(pose(10, (1, 2, 3)))
    np.testing.assert_allclose(truth.T_0to1, expected, atol=1e-12)


class Foreign:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("exit 1",)


@pytest.mark.parametrize("where", ["poses", "extra", "pair_infos"])
def test_a_foreign_global_is_refused_wherever_it_is(tmp_path: Path, where: str) -> None:
    changes: dict[str, Any] = {where: [Foreign()]}
    (tmp_path / "index.npz").write_bytes(pickle.dumps(index(**changes)))
    with pytest.raises(FormatError, match=r"contains (posix|nt)\.system, which is refused"):
        read_pairs(tmp_path / "index.npz")


def test_a_truncated_pickle_and_other_pickles_say_so(tmp_path: Path) -> None:
    file = tmp_path / "index.npz"
    whole = pickle.dumps(index())
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match=r"index\.npz: is a corrupt (or unsafe )?pickle"):
        read_pairs(file)
    file.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(FormatError, match="lacks image_paths, intrinsics, poses, pair_infos"):
        read_pairs(file)
    file.write_bytes(pickle.dumps(index(pair_infos=[(np.array([0, 1]), 0.2, 0), (np.array([0, 9]), 0.2, 0)])))
    with pytest.raises(ProblemsError) as caught:
        read_pairs(file)
    assert "pair 0 is invalid (ValueError: image_paths[1] is None)" in str(caught.value)
    assert "pair 1 is invalid (ValueError: there is no image_paths[9])" in str(caught.value)


def scannet(root: Path, **changes: Any) -> Path:
    names = np.array([[707, 0, 15, 585], [711, 1, 3, 4]], np.uint16)
    T = pose(20, (1, 0, 0))[:3].ravel().astype(np.float32)
    arrays = {"name": names, "rel_pose": np.stack([T, T]), **changes}
    np.savez(root / "test.npz", **{k: v for k, v in arrays.items() if v is not None})
    np.savez(root / "intrinsics.npz", scene0707_00=K, scene0711_01=K)
    return root


def test_the_scannet_index_belongs_to_640_x_480(tmp_path: Path) -> None:
    pairs = read_pairs(scannet(tmp_path))
    assert [p.pair.name for p in pairs.truths] == ["scene0707_00/15--585", "scene0711_01/3--4"]
    assert [p.pair.scene for p in pairs.truths] == ["scene0707", "scene0711"]
    assert pairs.truths[0].pair.sizes() == ((640, 480), (640, 480))
    assert pairs.truths[0].K0 is not None
    np.testing.assert_array_equal(pairs.truths[0].K0, K)


def test_k_follows_images_of_another_size(tmp_path: Path) -> None:
    scannet(tmp_path)
    (tmp_path / "scene0707_00" / "color").mkdir(parents=True)
    image = Image.fromarray(np.zeros((968, 1296, 3), np.uint8))
    image.save(tmp_path / "scene0707_00" / "color" / "15.jpg")
    truth = read_pairs(tmp_path / "test.npz").truths[0]
    assert truth.pair.sizes() == ((1296, 968), (640, 480))
    assert truth.K0 is not None
    assert truth.K0[0].tolist() == [500 * 1296 / 640, 0, 320 * 1296 / 640]


def test_a_damaged_scannet_index_says_what_it_lacks(tmp_path: Path) -> None:
    scannet(tmp_path, rel_pose=None)
    with pytest.raises(FormatError, match=r"test\.npz: lacks rel_pose, found name"):
        read_pairs(tmp_path)
    scannet(tmp_path, name=np.array([[1, 0, 2, 3], [707, 0, 2, 3]], np.uint16))
    with pytest.raises(
        ProblemsError, match=r"row 0: intrinsics\.npz has no camera matrix K for scene0001_00"
    ):
        read_pairs(tmp_path)
    whole = (tmp_path / "test.npz").read_bytes()
    (tmp_path / "test.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match=r"test\.npz: is not a readable \.npz"):
        read_pairs(tmp_path)
    scannet(tmp_path)
    (tmp_path / "intrinsics.npz").unlink()
    with pytest.raises(FormatError, match=r"intrinsics\.npz: is missing"):
        read_pairs(tmp_path)


@needs_truth
def test_both_encodings_of_scannet_1500_agree() -> None:
    text = read_pairs(TRUTH / "scannet_test_pairs_with_gt.txt").truths
    arrays = read_pairs(TRUTH / "scannet_test.npz").truths
    assert len(text) == len(arrays) == 1500
    scale = np.array([[640 / 1296], [480 / 968], [1]])
    for a, b in zip(text, arrays, strict=True):
        np.testing.assert_allclose(a.T_0to1, b.T_0to1, atol=2.4e-7)
        assert a.K0 is not None
        np.testing.assert_allclose(a.K0 * scale, b.K0, atol=1e-12)


@needs_truth
def test_the_index_of_megadepth_agrees_with_its_json_twin() -> None:
    index = read_pairs(TRUTH / "megadepth_0015_0.1_0.3.npz").truths
    twin = {p.pair.name: p for p in read_pairs(TRUTH / "megadepth_1500.json").truths}
    assert len(index) == 300
    for truth in index:
        other = twin[truth.pair.name]
        np.testing.assert_allclose(truth.T_0to1, other.T_0to1, atol=1e-6)
        np.testing.assert_allclose(truth.K0, other.K0, rtol=1e-7)
        assert truth.pair.sizes() == other.pair.sizes()
        assert truth.pair.scene == other.pair.scene == "0015"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pair_infos": [(np.array([0, -1]), 0.2)]}, r"there is no image_paths\[-1\]"),
        ({"pair_infos": [(np.array([0.0, 2.9]), 0.2)]}, "TypeError"),
        ({"pair_infos": [(np.array([0, 2]),)]}, "IndexError"),
        ({"pair_infos": [(np.array([0, 2]), float("nan"))]}, "the overlap is not finite"),
        ({"pair_infos": 3}, "pair_infos is int, expected a list"),
        ({"pair_infos": None}, "pair_infos is NoneType, expected a list"),
        ({"image_paths": "abc"}, "image_paths is str, expected a list"),
        ({"image_paths": [b"a.jpg", None, b"b.jpg"]}, r"image_paths\[0\] is not text"),
        ({"poses": [np.eye(4).astype(str)] * 3}, "expected numbers"),
    ],
)
def test_an_index_that_names_what_is_not_there_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    """-1 took the last image, 2.9 the one before, and a pair without overlap ended in a traceback."""
    (tmp_path / "index.npz").write_bytes(pickle.dumps(index(**changes)))
    with pytest.raises((FormatError, ProblemsError), match=words):
        read_pairs(tmp_path)


@pytest.mark.parametrize("kind", [float, str, bool, complex])
def test_names_of_a_scannet_index_are_numbers(tmp_path: Path, kind: type) -> None:
    names = np.array([[707, 0, 15, 585]]).astype(kind)
    np.savez(tmp_path / "test.npz", name=names, rel_pose=pose(10, (1, 0, 0))[:3].reshape(1, 12))
    np.savez(tmp_path / "intrinsics.npz", scene0707_00=K)
    with pytest.raises(FormatError, match="expected the non-negative integers scene, scan, frame, frame"):
        read_pairs(tmp_path)
