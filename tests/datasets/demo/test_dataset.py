# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.datasets.demo import views as demo_photos
from tiepoint.datasets.demo.dataset import PAIRS, SCENES, make_demo
from tiepoint.datasets.image_sequences import ImageSequences
from tiepoint.formats.flow.flo import read_flo
from tiepoint.formats.image.reader import read_image, to_grey
from tiepoint.geometry.patch_sampling import render_view

pytest.importorskip("skimage", reason="the photographs lie in scikit-image")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return make_demo(tmp_path_factory.mktemp("demo"), scenes=("i_coffee", "v_astronaut", "v_camera"))


def test_every_photograph_is_in_the_wheel():
    for name in demo_photos.PHOTOS:
        assert demo_photos.photo_path(name).is_file()
    assert len({s.split("_")[1] for s in SCENES}) == len(SCENES) == 8


@pytest.mark.slow
def test_it_is_a_valid_folder_of_sequences(demo):
    data = ImageSequences(demo.sequences)
    assert data.scenes == ("i_coffee", "v_astronaut", "v_camera")
    assert all(data.images(s) == tuple("123456") for s in data.scenes)
    assert data.size("v_camera", 6) == (320, 240)
    assert data.check() == []


def correlation_after_alignment(data, scene, k, error_px=0.0):
    """Correlation of image 1 with image k drawn back by H, on the part both show."""
    h = data.homography(scene, k) @ np.array([[1, 0, error_px], [0, 1, 0], [0, 0, 1.0]])
    first = to_grey(data.image(scene, 1)).astype(float)
    other = to_grey(data.image(scene, k)).astype(float)
    alpha = np.pad(np.ones((236, 316)), 2)
    back = render_view(np.dstack([other, alpha]), h, (320, 240))
    seen = back[:, :, 1] > 0.99
    assert seen.mean() > 0.25
    return np.corrcoef(first[seen], back[:, :, 0][seen])[0, 1]


@pytest.mark.parametrize("k", [2, 4, 6])
@pytest.mark.parametrize("scene", ["v_astronaut", "v_camera"])
def test_the_homographies_align_the_images(demo, scene, k):
    data = ImageSequences(demo.sequences)
    right = correlation_after_alignment(data, scene, k)
    assert right > 0.93
    assert right > correlation_after_alignment(data, scene, k, error_px=1.5)


def test_illumination_changes_brightness_and_the_camera_shakes(demo):
    data = ImageSequences(demo.sequences)
    means = [data.image("i_coffee", k).mean() for k in range(1, 7)]
    assert max(means) - min(means) > 15
    for k in range(2, 7):
        h = data.homography("i_coffee", k)
        assert not np.allclose(h, np.eye(3), atol=1e-6)
        assert np.abs(h[:2, 2]).max() < 4


@pytest.mark.slow
def test_same_seed_same_bytes_whatever_else_is_made(demo, tmp_path):
    again = make_demo(tmp_path / "a", scenes=("v_camera",))
    other = make_demo(tmp_path / "b", scenes=("v_camera",), seed=1)
    first = ImageSequences(demo.sequences, ["v_camera"]).data_hash
    assert ImageSequences(again.sequences).data_hash == first
    assert ImageSequences(other.sequences).data_hash != first


@pytest.mark.parametrize("pair", PAIRS)
def test_dense_pairs(demo, pair):
    folder = demo.dense / "DEMO" / pair
    flip = PAIRS[pair][3]
    assert (folder / "flip_gt.txt").read_text().strip() == str(int(flip))
    images = [read_image(folder / f"image{k}.png").astype(float) for k in (1, 2)]
    masks = [read_image(folder / f"mask{k}.png")[:, :, 0] for k in (1, 2)]
    flows = [read_flo(folder / f"flow{k}.flo").astype(float) for k in (1, 2)]
    assert set(np.unique(masks[0])) == {0, 255}
    for here, there in ((0, 1), (1, 0)):
        known = np.abs(flows[here]).max(axis=2) < 1e9
        assert np.array_equal(known, masks[here] > 0)
        assert known.mean() > 0.1
        y, x = np.nonzero(known)
        target = np.stack([x, y], axis=1) + flows[here][y, x]
        tx, ty = np.rint(target).astype(int).T
        assert tx.min() >= 0
        assert ty.min() >= 0
        assert tx.max() < images[there].shape[1]
        assert ty.max() < images[there].shape[0]
        moved = np.abs(images[here][y, x] - images[there][ty, tx]).mean()
        assert moved < 0.5 * np.abs(images[here][y, x] - images[there][y, x]).mean()
    y, x = np.nonzero(masks[0])
    assert (np.corrcoef(x, x + flows[0][y, x, 0])[0, 1] < 0) == flip


def test_bad_requests(tmp_path, monkeypatch):
    with pytest.raises(UnknownNameError, match="demo scene"):
        make_demo(tmp_path, scenes=("camera",))
    with pytest.raises(UnknownNameError, match="did you mean 'camera'"):
        make_demo(tmp_path, scenes=("v_camra",))
    with pytest.raises(InputError, match="64 x 64"):
        make_demo(tmp_path, size=(32, 32))
    monkeypatch.setattr(demo_photos.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"tiepoint\[demo\]"):
        make_demo(tmp_path)
