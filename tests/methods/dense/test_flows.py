# SPDX-License-Identifier: BSD-3-Clause
"""Dense methods on a texture that moved: they find it; and what a user's class may return."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from tiepoint.core.errors import InputError
from tiepoint.core.records import Item
from tiepoint.formats.flow.tss import PairResult, write_pair_result
from tiepoint.methods.dense.adapter import bind_dense
from tiepoint.methods.dense.sparse_to_dense import interpolated_flow, mutual_matches
from tiepoint.methods.registry import METHODS
from tiepoint.methods.resolve import resolve

ITEM = Item("S/p", "content")
SHIFT = (6, -4)
NEEDS_OPENCV = {
    "dis",
    "farneback",
    "tvl1",
    "deepflow",
    "pcaflow",
    "rlof",
    "sparse-to-dense",
    "homography",
    "sparse",
}


def texture(height: int, width: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rough = sum(gaussian_filter(rng.normal(size=(height, width)), s) * s for s in (1, 2, 4, 8))
    grey = (rough - rough.min()) / np.ptp(rough) * 255
    return np.repeat(grey[..., None], 3, axis=2).astype(np.uint8)


@pytest.fixture(scope="module")
def pair() -> tuple[np.ndarray, np.ndarray]:
    """Image 2 is image 1 moved by SHIFT: a point p of image 1 is at p + SHIFT in image 2."""
    whole = texture(180, 220)
    y, x = 30, 30
    return whole[y : y + 120, x : x + 160], whole[
        y - SHIFT[1] : y + 120 - SHIFT[1], x - SHIFT[0] : x + 160 - SHIFT[0]
    ]


def dense_names() -> list[str]:
    return [
        n
        for n in METHODS.names("dense")
        if n not in ("files", "torch", "exec", "zero") and METHODS.entry(n, family="dense").family == "dense"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", dense_names())
def test_every_method_finds_a_shift(name: str, pair) -> None:
    if name in NEEDS_OPENCV:
        cv2 = pytest.importorskip("cv2")
        if name in ("tvl1", "deepflow", "pcaflow", "rlof", "sparse-to-dense") and not hasattr(cv2, "optflow"):
            pytest.skip("this OpenCV has no contrib flows")
    method = resolve(name, family="dense")
    assert method.key(ITEM) is not None
    made = method.extract(ITEM, pair)
    again = method.extract(ITEM, pair)
    for i, sign in ((1, 1), (2, -1)):
        flow = made[f"flow{i}"]
        assert flow.dtype == np.float32
        assert flow.shape == (120, 160, 2)
        inner = flow[20:-20, 20:-20]
        assert np.abs(np.median(inner.reshape(-1, 2), axis=0) - sign * np.array(SHIFT)).max() < 0.75
        assert np.array_equal(flow, again[f"flow{i}"])


def test_images_of_different_size_are_matched_by_area() -> None:
    pytest.importorskip("cv2")
    from tiepoint.geometry.flow.reference_resize import resize_u8

    first = texture(90, 120)
    second = resize_u8(first, 120, 160)
    for name in ("dis", "dense-sift"):
        flow = resolve(name, family="dense").extract(ITEM, (first, second))["flow1"]
        x = np.arange(120)
        expected = (x + 0.5) * 160 / 120 - 0.5 - x
        assert np.abs(np.median(flow[..., 0], axis=0) - expected)[10:-10].max() < 1.0


def test_zero() -> None:
    made = resolve("zero", family="dense").extract(ITEM, (texture(20, 30), texture(25, 30)))
    assert not made["flow1"].any()
    assert made["flow2"].shape == (25, 30, 2)
    assert (made["mask1"] == 255).all()


def test_featureless_images_do_not_stop_a_run() -> None:
    flat = np.full((60, 80, 3), 128, np.uint8)
    for name in ("dense-sift", "zero"):
        assert np.isfinite(resolve(name, family="dense").extract(ITEM, (flat, flat))["flow1"]).all()
    pytest.importorskip("cv2")
    for name in ("homography", "sparse"):
        made = resolve(name, family="dense").extract(ITEM, (flat, flat))
        assert (made["flow1"] == 1e10).all()


class Returns:
    """A user's matcher."""

    def __init__(self, made) -> None:
        self.made = made

    def match(self, image1, image2):
        return self.made


def bound(made) -> dict[str, np.ndarray]:
    extract = bind_dense(Returns(made), name="mine", distance="l2", on_bad="error")
    return dict(extract(ITEM, (texture(20, 30), texture(20, 30))))


def test_what_a_class_may_return() -> None:
    flow = np.zeros((20, 30, 2))
    assert sorted(bound(flow)) == ["flow1", "flow2"]
    made = bound((flow, np.ones((20, 30), bool)))
    assert sorted(made) == ["flow1", "flow2", "mask1", "mask2"]
    assert (made["mask1"] == 255).all()
    made = bound((flow, None, np.ones((20, 30))))
    assert sorted(made) == ["conf1", "conf2", "flow1", "flow2"]
    assert bound((flow, np.full((20, 30), 7, np.uint8)))["mask2"].max() == 7


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (np.zeros((20, 30)), "or a flow"),
        (np.zeros((20, 30, 2), int), "a flow must be float"),
        ((np.zeros((20, 30, 2)), np.zeros(4)), "mask has shape"),
        ((), "a tuple of 0 elements"),
    ],
)
def test_what_a_class_may_not_return(made, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        bound(made)
    assert "'mine' on S/p" in str(caught.value)


def test_an_object_without_match() -> None:
    with pytest.raises(InputError, match=r"match\(image1, image2\) is missing"):
        bind_dense(object(), name="x", distance="l2", on_bad="error")


def test_a_feature_extractor_becomes_dense(pair) -> None:
    class Grid:
        def extract(self, image):
            y, x = np.mgrid[12:108:8, 12:148:8]
            points = np.stack([x.ravel(), y.ravel()], axis=1)
            return points, np.array(
                [image[j - 4 : j + 5, i - 4 : i + 5, 0].ravel() for i, j in points], float
            )

    image = pair[0]
    made = resolve(Grid(), family="dense").extract(ITEM, (image, image))
    assert np.abs(made["flow1"]).max() == 0


def test_files(tmp_path: Path) -> None:
    flow = np.ones((4, 5, 2), np.float32)
    write_pair_result(tmp_path / "S" / "p", {"flow1": flow, "flow2": flow})
    method = resolve(f"files:{tmp_path}", family="dense")
    assert np.array_equal(method.extract(ITEM, None)["flow1"], flow)
    assert not PairResult.from_arrays(method.extract(Item("S/q", ""), None)).present
    before = method.key(ITEM)
    write_pair_result(tmp_path / "S" / "p", {"flow1": flow + 1})
    changed = resolve(f"files:{tmp_path}", family="dense")
    assert changed.key(ITEM) != before
    assert dict(changed.config) != dict(method.config)
    inner = resolve(f"files:{tmp_path / 'S'}", family="dense")
    assert np.array_equal(inner.extract(ITEM, None)["flow1"], flow + 1)
    with pytest.raises(InputError, match="no such folder"):
        resolve(f"files:{tmp_path / 'nowhere'}", family="dense")


def test_parameters_are_checked() -> None:
    with pytest.raises(InputError, match="coarsest"):
        resolve("dense-sift?coarsest=4", family="dense")
    pytest.importorskip("cv2")
    with pytest.raises(InputError, match="preset"):
        resolve("dis?preset=slow", family="dense")
    with pytest.raises(InputError, match="features"):
        resolve("sparse?features=surf", family="dense")
    assert resolve("dis?preset=fast", family="dense").config != resolve("dis", family="dense").config


def test_mutual_matches_by_hand() -> None:
    first = np.array([[0.0], [1.0], [9.0]])
    second = np.array([[1.2], [8.0], [8.9]])
    i, j = mutual_matches(first, second)
    assert (i.tolist(), j.tolist()) == ([1, 2], [0, 2])
    bits = np.array([[0b1111], [0b0000]], np.uint8)
    i, j = mutual_matches(bits, bits[::-1], hamming=True)
    assert (i.tolist(), j.tolist()) == ([0, 1], [1, 0])


def test_interpolation_is_linear_between_matches() -> None:
    start = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    moved = start * 1.5 + [1, 2]
    flow = interpolated_flow(start, moved, (11, 11))
    y, x = np.mgrid[:11, :11]
    assert np.allclose(flow[..., 0], 0.5 * x + 1, atol=1e-5)
    assert np.allclose(flow[..., 1], 0.5 * y + 2, atol=1e-5)
    on_a_line = interpolated_flow(start[[0, 1, 1]], moved[[0, 1, 1]], (3, 3))
    assert np.isfinite(on_a_line).all()


def test_sparse_without_opencv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(InputError, match=r"pip install 'tiepoint\[opencv\]'"):
        resolve("sparse", family="dense")


def test_on_bad_is_refused() -> None:
    with pytest.raises(InputError, match='`on_bad="miss"` applies to descriptors'):
        resolve("zero", family="dense", on_bad="miss")


def test_a_folder_is_not_taken_apart(tmp_path: Path) -> None:
    """Nothing in the name of a results folder is a parameter or a transform, here and in a worker."""
    from tiepoint.methods.keypoints.spec import locate_keypoint_sets
    from tiepoint.methods.spec import FilesSpec

    folder = tmp_path / "a?b=1+l2@set:x"
    folder.mkdir()
    spec = locate_keypoint_sets(FilesSpec(f"files:{folder}"), tmp_path)
    method = resolve(spec, family="dense")
    again = resolve(pickle.loads(pickle.dumps(method.spec)), family="dense")
    assert method.name == again.name == f"files:{folder}"
    assert method.spec == f"files:{folder}"
