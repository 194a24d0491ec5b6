# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import FormatError, InputError, ProblemsError, UnknownNameError
from tiepoint.datasets.image_sequences import ImageSequences
from tiepoint.formats.image.reader import write_image
from tiepoint.formats.text.numbers import write_homography

REAL = (
    Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
    / "sequences"
)


def write_scene(folder, *, n=3, image="{}.png", h="H_1_{}", seed=0):
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for k in range(1, n + 1):
        write_image(folder / image.format(k), rng.integers(0, 256, (20 + k, 30, 3)).astype(np.uint8))
        if k > 1:
            write_homography(folder / h.format(k), np.diag([1.0, k, 1.0]))


@pytest.fixture
def root(tmp_path):
    write_scene(tmp_path / "v_wall")
    write_scene(tmp_path / "i_lamp", n=2, image="{}.ppm", seed=1)
    write_scene(tmp_path / "boat", n=12, image="img{}.ppm", h="H1to{}p", seed=2)
    (tmp_path / "notes").mkdir()
    (tmp_path / "readme.txt").write_text("x")
    return tmp_path


def test_both_layouts(root):
    data = ImageSequences(root)
    assert data.scenes == ("boat", "i_lamp", "v_wall")
    assert [data.kind(s) for s in data.scenes] == ["other", "i", "v"]
    assert data.images("boat") == tuple(str(k) for k in range(1, 13))
    assert data.size("v_wall", "3") == (30, 23)
    assert data.image("v_wall", 3).shape == (23, 30, 3)
    assert data.homography("boat", 12)[1, 1] == 12
    assert np.array_equal(data.homography("boat", "1"), np.eye(3))
    assert data.check() == []


def test_one_folder_is_one_sequence(root):
    assert ImageSequences(root / "v_wall").scenes == ("v_wall",)


def test_selection_and_unknown_names(root):
    data = ImageSequences(root, ["v_wall"])
    assert data.scenes == ("v_wall",)
    with pytest.raises(UnknownNameError, match="did you mean 'v_wall'"):
        ImageSequences(root, ["v_wal"])
    with pytest.raises(UnknownNameError, match="image of v_wall"):
        data.image("v_wall", "7")
    with pytest.raises(UnknownNameError, match="image of v_wall"):
        data.homography("v_wall", "01")
    with pytest.raises(UnknownNameError, match="sequence"):
        data.images("boat")


def test_hash_follows_content_not_place(root, tmp_path_factory):
    before = ImageSequences(root).data_hash
    copy = tmp_path_factory.mktemp("copy") / "deep"
    shutil.copytree(root, copy)
    assert ImageSequences(copy).data_hash == before
    write_homography(copy / "v_wall" / "H_1_2", np.diag([1.0, 2.0000001, 1.0]))
    changed = ImageSequences(copy).data_hash
    assert changed != before
    shutil.copy(copy / "v_wall" / "1.png", copy / "v_wall" / "2.png")
    assert ImageSequences(copy).data_hash not in (before, changed)


def test_all_problems_at_once(root):
    (root / "v_wall" / "2.png").unlink()
    (root / "i_lamp" / "H_1_2").unlink()
    (root / "boat" / "H1to4p").write_text("1 2 3\n2 4 6\n0 0 1\n")
    (root / "boat" / "img5.ppm").write_text("junk")
    shutil.copy(root / "boat" / "img7.ppm", root / "boat" / "7.ppm")
    write_scene(root / "alone", n=1)
    with pytest.raises(ProblemsError) as e:
        ImageSequences(root)
    text = str(e.value)
    for words in (
        "v_wall: image 2 is missing",
        "H_1_2 exists, but image 2 is missing",
        "i_lamp: the homography from image 1 to image 2 is missing",
        "H1to4p: the homography is singular",
        "img5.ppm: is not an image",
        "are both image 7",
        "alone has only one image",
    ):
        assert words in text
    assert len(e.value.problems) == 7


def test_truncated_image_is_found_when_read(root):
    path = root / "v_wall" / "3.png"
    path.write_bytes(path.read_bytes()[:600])
    data = ImageSequences(root)
    assert len(data.check()) == 1
    with pytest.raises(FormatError, match="truncated"):
        data.image("v_wall", 3)


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match="no image sequence"):
        ImageSequences(tmp_path)
    with pytest.raises(InputError, match="it does not exist"):
        ImageSequences(tmp_path / "x")


@pytest.mark.skipif(not REAL.is_dir(), reason=f"real sequences are not in {REAL}")
def test_real_sequences():
    data = ImageSequences(REAL)
    assert len(data.scenes) == 6
    assert data.size("v_graffiti", 1) == (800, 640)
    assert {data.kind(s) for s in data.scenes} == {"i", "v", "other"}


def test_a_number_that_is_a_date_is_one_problem(tmp_path):
    """Twenty million sentences took 3 GB and 18 s."""
    write_scene(tmp_path / "v_a", n=2)
    write_image(tmp_path / "v_a" / "20240101.png", np.zeros((20, 30, 3), np.uint8))
    with pytest.raises(ProblemsError) as caught:
        ImageSequences(tmp_path)
    assert "20240098 of images 1 to 20240101 are missing" in caught.value.problems[0]
    assert len(caught.value.problems) == 2
