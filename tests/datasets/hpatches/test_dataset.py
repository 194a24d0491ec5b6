# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.core.errors import FormatError, InputError, ProblemsError
from tiepoint.datasets.hpatches.dataset import HPatchesDataset
from tiepoint.datasets.hpatches.layout import STANDARD_IMAGES
from tiepoint.datasets.validation.dataset import check_dataset
from tiepoint.formats.hpatches.patch_strip import read_strip, write_strip

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
IMAGES = ("ref", "e1", "e2", "h1", "h2")
LENGTHS = {"i_a": 4, "v_b": 6}


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    root = tmp_path / "set"
    for sequence, n in LENGTHS.items():
        for image in IMAGES:
            write_strip(root / sequence / f"{image}.png", rng.integers(0, 256, (n, 9, 9)).astype(np.uint8))
    (root / "test_set.txt").write_text("v_b\n")
    return root


def problems_of(root) -> tuple[str, ...]:
    with pytest.raises(ProblemsError) as e:
        HPatchesDataset(root)
    return e.value.problems


def test_what_a_good_folder_gives(folder):
    data = HPatchesDataset(folder)
    assert data.sequences == ("i_a", "v_b")
    assert data.lengths == LENGTHS
    assert data.images("i_a") == IMAGES
    assert (data.kind("i_a"), data.kind("v_b"), data.kind("x")) == ("i", "v", "other")
    assert (data.side, data.noises, data.has_patches) == (9, ("easy", "hard"), True)
    assert data.counts["v_b.h2"] == 6
    assert len(data.counts) == 10
    assert data.patches("v_b", "e1").shape == (6, 9, 9)
    assert np.array_equal(data.read("v_b/e1"), read_strip(folder / "v_b" / "e1.png"))
    item = data.item("v_b", "e1")
    assert (item.key, item.count) == ("v_b/e1", 6)
    assert data.item("v_b/e1") == item


def test_hashes_follow_the_content_not_the_place(folder, tmp_path):
    before = HPatchesDataset(folder)
    moved = HPatchesDataset(shutil.copytree(folder, tmp_path / "copy"))
    assert before.item("v_b", "e1").content == moved.item("v_b", "e1").content
    patches = read_strip(folder / "v_b" / "e1.png").copy()
    patches[0, 0, 0] ^= 1
    write_strip(folder / "v_b" / "e1.png", patches)
    after = HPatchesDataset(folder)
    assert after.item("v_b", "e1").content != moved.item("v_b", "e1").content
    assert after.item("v_b", "e2").content == moved.item("v_b", "e2").content


def test_all_problems_are_listed_at_once(folder):
    (folder / "i_a" / "e2.png").unlink()
    write_strip(folder / "v_b" / "h1.png", np.zeros((5, 9, 9), np.uint8))
    write_strip(folder / "v_b" / "h2.png", np.zeros((6, 8, 8), np.uint8))
    (folder / "v_b" / "e1.png").write_bytes(b"")
    (folder / "v_b" / "e2.png").write_bytes((folder / "v_b" / "e2.png").read_bytes()[:100])
    (folder / "i_empty").mkdir()
    text = "\n".join(problems_of(folder))
    for words in (
        "i_a: missing image e2, which other sequences have; add them",
        "v_b: image h1 has 5 patches but ref has 6",
        "v_b/h2.png: the strip is 8 pixels wide, but others are 9; use one width",
        "v_b/e1.png: the file is empty",
        "v_b/e2.png: is a truncated PNG",
        "i_empty: has no PNG strip",
    ):
        assert words in text
    assert len(problems_of(folder)) == 6


def test_missing_images_are_one_line_a_sequence(folder):
    for image in ("e1", "e2", "h2", "ref"):
        (folder / "i_a" / f"{image}.png").unlink()
    assert problems_of(folder) == (
        "i_a: the reference image is missing; add ref.png",
        "i_a: missing images e1, e2, h2, which other sequences have; add them",
    )


def test_missing_reference_and_wrong_mode(folder):
    (folder / "i_a" / "ref.png").unlink()
    Image.new("RGB", (9, 54)).save(folder / "v_b" / "e1.png")
    text = "\n".join(problems_of(folder))
    assert "i_a: the reference image is missing; add ref.png" in text
    assert "v_b/e1.png: is 8-bit RGB" in text


def test_wrong_level_is_named(folder):
    assert problems_of(folder.parent)[0].startswith("the sequences are one level deeper; use")
    assert str(folder) in problems_of(folder.parent)[0]
    assert str(folder.resolve()) in problems_of(folder / "v_b")[0]
    assert problems_of(folder / "nothing") == ("the folder does not exist",)
    (folder.parent / "outer").mkdir()
    shutil.copytree(folder, folder.parent / "outer" / "inner" / "set")
    found = problems_of(folder.parent / "outer")[0]
    assert found == f"the sequences are two levels deeper; use {folder.parent / 'outer' / 'inner' / 'set'}"
    (folder.parent / "void").mkdir()
    assert "has no sequence" in problems_of(folder.parent / "void")[0]


def test_full_images_are_recognised(tmp_path):
    (tmp_path / "v_x").mkdir()
    Image.new("L", (30, 20)).save(tmp_path / "v_x" / "1.png")
    (tmp_path / "v_x" / "H_1_2").write_text("1 0 0\n0 1 0\n0 0 1\n")
    assert "cut patches from them" in problems_of(tmp_path)[0]


def test_unknown_names(folder):
    data = HPatchesDataset(folder)
    with pytest.raises(InputError, match="unknown sequence 'v_c'; did you mean 'v_b'"):
        data.count("v_c")
    with pytest.raises(InputError, match="unknown image of v_b 't1'"):
        data.item("v_b", "t1")
    assert data.missing(["v_b"], ["ref", "e1"]) == []
    lack = data.missing(["v_b", "v_q"], ["ref", "t1", "t2"])
    assert lack == ["sequence 'v_b' has no image t1, t2", "unknown sequence 'v_q'; did you mean 'v_b'?"]


@pytest.mark.parametrize("as_folder", [True, False])
def test_lengths_without_patches(tmp_path, as_folder):
    path = tmp_path / "lengths.json"
    path.write_text(json.dumps({"v_b": [6], "i_a": 4}))
    data = HPatchesDataset(tmp_path if as_folder else path)
    assert data.lengths == LENGTHS
    assert data.images("v_b") == STANDARD_IMAGES
    assert not data.has_patches
    assert data.item("v_b/t5").count == 6
    assert data.item("v_b/t5").content != data.item("v_b/t4").content
    with pytest.raises(InputError, match="but no pixels"):
        data.read("v_b/ref")
    path.write_text(json.dumps({"lengths": LENGTHS, "images": ["e1", "ref"]}))
    assert HPatchesDataset(path).images("i_a") == ("ref", "e1")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{", "not JSON"),
        ("[]", "maps sequences to numbers"),
        ('{"a": 0}', "a: expected a number"),
        ('{"a": 5, "b": "x"}', "b: expected a number"),
        ('{"a": 5, "b": [4, 3]}', "b: expected a number"),
        ('{"a": 5, "b": [3, 4, 5]}', "b: expected a number"),
        ('{"a": [3, 4]}', "every number of patches is an interval"),
        ('{"lengths": {"a": 1}, "image": []}', "unknown key 'image'"),
        ('{"lengths": {"a": 1}, "images": []}', "images must be a list of names"),
        ('{"a": 1000000000000}', "a: expected a number"),
        ('{"../a": 1}', "the sequence '../a' cannot be part of a path"),
        ('{"v.a": 1}', "the sequence 'v.a': a name must not have a dot"),
        ('{"lengths": {"a": 1}, "images": ["ref", "e1", "e1"]}', "duplicate image 'e1'"),
        ('{"lengths": {"a": 1}, "images": ["ref", "../x"]}', "the image '../x' cannot be part of a path"),
    ],
)
def test_bad_lengths(tmp_path, value, words):
    (tmp_path / "l.json").write_text(value)
    with pytest.raises((FormatError, ProblemsError), match=words):
        HPatchesDataset(tmp_path / "l.json")


def test_a_length_may_be_an_interval(tmp_path):
    path = tmp_path / "l.json"
    path.write_text(json.dumps({"v_b": [6, 6], "i_a": 4, "v_c": [7, 9]}))
    data = HPatchesDataset(path)
    assert data.lengths == LENGTHS
    assert data.open_lengths == {"v_c": (7, 9)}
    assert data.missing(["v_c"]) == [
        "the number of patches of 'v_c' is not known exactly (7 to 9); state one number in the lengths file"
    ]
    assert "sequences without an exact number of patches were skipped: v_c" in str(check_dataset(path))


def test_check_says_what_is_there(folder):
    report = check_dataset(folder)
    assert report.ok
    assert "2 sequences: 1 illumination, 1 viewpoint, 0 other" in str(report)
    assert str(report).endswith("no problems")
    assert not check_dataset(folder / "none").ok


def test_check_decodes_and_compares(folder):
    good = (folder / "v_b" / "e1.png").read_bytes()
    middle = len(good) // 2
    (folder / "v_b" / "e1.png").write_bytes(good[:middle] + b"\0" * 40 + good[middle + 40 :])
    assert HPatchesDataset(folder).count("v_b") == 6
    seen = []
    report = check_dataset(folder, progress=lambda i, n: seen.append((i, n)))
    assert [p.split(":")[0] for p in report.problems] == ["v_b/e1.png"]
    assert seen[-1] == (10, 10)
    assert check_dataset(folder, deep=False).ok
    (folder / "v_b" / "e1.png").write_bytes(good)
    shutil.copytree(folder / "v_b", folder / "v_c")
    write_strip(folder / "i_a" / "ref.png", np.full((4, 9, 9), 7, np.uint8))
    report = check_dataset(folder)
    assert report.ok
    assert report.warnings == (
        "v_b, v_c have the same reference patches, so they show one scene",
        "the dataset has 4 reference patches of almost no contrast (deviation below 5 grey levels)",
    )


def test_check_of_a_broken_folder_lists_all(folder):
    (folder / "i_a" / "e2.png").unlink()
    good = (folder / "v_b" / "e1.png").read_bytes()
    middle = len(good) // 2
    (folder / "v_b" / "e1.png").write_bytes(good[:middle] + b"\0" * 40 + good[middle + 40 :])
    report = check_dataset(folder)
    assert len(report.problems) == 2
    assert str(report).splitlines()[1] == "2 problems:"


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not here (TIEPOINT_TEST_DATA)")
@pytest.mark.parametrize(("name", "words"), [("tss", "pairs with flow"), ("sequences", "image sequences")])
def test_check_of_other_layouts(name, words):
    report = check_dataset(DATA / name)
    assert words in report.title
    assert report.ok, str(report)


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not here (TIEPOINT_TEST_DATA)")
def test_the_genuine_strip():
    data = HPatchesDataset(DATA / "patches")
    assert (data.count("v_graffiti"), data.side, data.noises) == (1123, 65, ())
