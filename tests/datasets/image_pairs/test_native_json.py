"""Pairs as JSON: what is read, what is defaulted, and every kind of bad entry in one sentence."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tiepoint.core.errors import FormatError, InputError, ProblemsError, UnknownNameError
from tiepoint.datasets.image_pairs.pair import ImagePair
from tiepoint.datasets.image_pairs.reader import read_pairs

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", "../shared/data"))
K = [[500.0, 0, 32], [0, 510, 24], [0, 0, 1]]
T = [[0.0, -1, 0, 1], [1, 0, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]


def write(folder: Path, *changes: dict[str, Any], images: bool = True) -> Path:
    """A pairs.json whose entries are a good one with changes; None removes a key."""
    entries = []
    for change in changes or ({},):
        entry = {"image0": "a.png", "image1": "b.png", "K0": K, "K1": K, "T_0to1": T, **change}
        entries.append({k: v for k, v in entry.items() if v is not None})
        for name in (entry["image0"], entry["image1"]):
            if images and name and not (folder / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                pixels = np.arange(48 * 64 * 3, dtype=np.uint32).astype(np.uint8).reshape(48, 64, 3)
                Image.fromarray(pixels).save(folder / name)
    (folder / "pairs.json").write_text(json.dumps(entries))
    return folder


def problems(folder: Path, needs: str = "pose") -> str:
    with pytest.raises(ProblemsError) as caught:
        read_pairs(folder, needs=needs)
    return "\n".join(caught.value.problems)


def test_a_pair_has_its_images_sizes_and_truth(tmp_path: Path) -> None:
    pairs = read_pairs(write(tmp_path, {"dataset": "ScanNet", "overlap": 0.3, "centre": 0.5}))
    (truth,) = pairs.truths
    assert (truth.pair.name, truth.pair.scene, truth.pair.dataset, truth.centre) == (
        "a--b",
        "a",
        "scannet",
        0.5,
    )
    assert truth.pair.sizes() == ((64, 48), (64, 48))
    assert truth.pair.facts == {"overlap": 0.3}
    assert truth.pair.payload().image0.shape == (48, 64, 3)
    assert truth.pair.payload(truth.queries()).queries is None
    np.testing.assert_array_equal(truth.T_0to1, T)
    assert pairs.warnings == ()


def test_sizes_make_images_unnecessary_and_that_is_said(tmp_path: Path) -> None:
    pairs = read_pairs(write(tmp_path, {"size0": [64, 48], "size1": [64, 48]}, images=False))
    (truth,) = pairs.truths
    assert truth.pair.sizes() == ((64, 48), (64, 48))
    assert not truth.pair.has_images()
    assert len(pairs.warnings) == 1
    assert "2 images are missing (a.png, b.png)" in pairs.warnings[0]
    with pytest.raises(InputError, match=r"pair a--b: image0 \(.*a.png\) is missing"):
        truth.pair.payload(truth.queries())
    assert truth.pair.content() != ImagePair("a--b", "a", size0=(1, 1), size1=(1, 1)).content()


def test_images_may_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, {"image0": "images/a.png", "image1": "images/b.png"})
    write(tmp_path, {}, images=False)
    assert read_pairs(tmp_path).pairs[0].image0 == tmp_path / "images" / "a.png"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "pairs.json").rename(tmp_path / "elsewhere" / "other.json")
    with pytest.raises(ProblemsError, match="is missing and its size is not stated"):
        read_pairs(tmp_path / "elsewhere" / "other.json")
    assert read_pairs(tmp_path / "elsewhere" / "other.json", images=tmp_path / "images").pairs[0].has_images()


def test_slashes_of_either_direction_name_the_same_file(tmp_path: Path) -> None:
    write(tmp_path, {"image0": "s/a.png", "image1": "s/b.png"})
    write(tmp_path, {"image0": "s\\a.png", "image1": "s\\b.png"}, images=False)
    pair = read_pairs(tmp_path).pairs[0]
    assert pair.has_images()
    assert pair.name == "a--b"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"K0": [[0, 0, 1], [0, 1, 1], [0, 0, 1]]}, "entry 1, K0 is not invertible"),
        ({"K1": [[1, 0, 0], [0, 1, 0], [0, 0, 2]]}, "entry 1, K1 is not a camera matrix"),
        ({"K1": [[1, 0], [0, 1]]}, "entry 1, K1: expected 3 x 3 numbers, found shape (2, 2)"),
        ({"K1": [[1, 0, 0], [0, 1], [1]]}, "entry 1, K1: expected 3 x 3 numbers, found a list of 3"),
        ({"T_0to1": None}, "entry 1 lacks `T_0to1`, which pose needs"),
        ({"T_0to1": (2 * np.eye(4)).tolist()}, "the last row is [0., 0., 0., 2.]; expected 0, 0, 0, 1"),
        ({"T_0to1": np.diag([1.0, 1.01, 1, 1]).tolist()}, "R is not a rotation (R^T R differs"),
        ({"T_0to1": np.diag([1.0, 1, -1, 1]).tolist()}, "R is not a rotation (it reflects)"),
        ({"T_0to1": np.eye(4).tolist()}, "the translation t is 0 and has no direction"),
        ({"T_0to1": [[float("nan")] * 4] * 4}, "entry 1, T_0to1: a number is not finite"),
        ({"size0": [65, 48]}, "a.png has 64 x 48 pixels, but 65 x 48 are stated"),
        ({"size0": [64.5, 48]}, "size0: expected [width, height] in pixels, found [64.5, 48]"),
        ({"centre": 1}, "write 0 or 0.5"),
        ({"turns": [4, 0]}, "`turns` must be two numbers of quarter turns, each 0 to 3"),
        ({"image0": 3}, "image0 and image1 must be file names"),
    ],
)
def test_a_bad_entry_is_one_sentence(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    write(tmp_path, {})
    assert said in problems(write(tmp_path, change, images=False))


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, {"K0": [1]}, {"T_0to1": None, "image0": "c.png"}, {"image1": "d.png"}, images=False)
    text = problems(tmp_path)
    assert "entry 1, K0" in text
    assert "entry 2 lacks" in text
    assert "d.png is missing and its size" in text


def test_names_and_pairs_that_repeat_are_problems(tmp_path: Path) -> None:
    assert "entry 1, entry 2 have the same name 'a--b'" in problems(write(tmp_path, {}, {}))
    twice = write(tmp_path, {"name": "x"}, {"name": "x", "image0": "c.png"})
    assert "have the same name 'x'" in problems(twice)
    clash = write(tmp_path, {"name": "s/x"}, {"name": "s-x", "image0": "c.png"})
    assert "the names s/x, s-x differ only in slashes, which become `-`" in problems(clash)


def test_names_get_their_scene_where_stems_repeat(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        {"image0": "x/a.png", "image1": "x/b.png", "scene": "x"},
        {"image0": "y/a.png", "image1": "y/b.png", "scene": "y"},
    )
    pairs = read_pairs(folder)
    assert [p.name for p in pairs.pairs] == ["x/a--b", "y/a--b"]
    assert pairs.truth("y-a--b") is pairs.truth("y/a--b") is pairs.truth("y\\a--b")
    with pytest.raises(UnknownNameError, match="unknown pair 'z/a--b'; did you mean"):
        pairs.truth("z/a--b")


def test_pairs_that_share_images_are_one_scene(tmp_path: Path) -> None:
    folder = write(
        tmp_path, {}, {"image0": "b.png", "image1": "c.png"}, {"image0": "d.png", "image1": "e.png"}
    )
    assert [p.scene for p in read_pairs(folder).pairs] == ["a", "a", "d"]


def test_a_truncated_file_and_an_unknown_one_say_so(tmp_path: Path) -> None:
    write(tmp_path)
    whole = (tmp_path / "pairs.json").read_text()
    (tmp_path / "pairs.json").write_text(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match=r"pairs.json, line 1: is not JSON, it may be truncated"):
        read_pairs(tmp_path)
    (tmp_path / "pairs.json").unlink()
    with pytest.raises(InputError, match=r"found a.png, b.png\n  expected one of: "):
        read_pairs(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        read_pairs(tmp_path / "nowhere")
    with pytest.raises(UnknownNameError, match="unknown need 'poses'; did you mean 'pose'"):
        read_pairs(tmp_path, needs="poses")


def test_clicked_points_homographies_and_keypoints_in_json(tmp_path: Path) -> None:
    (tmp_path / "clicks.txt").write_text("1 2 3 4\n5 6 7 8\n")
    folder = write(tmp_path, {"corrs": "clicks.txt", "H": np.eye(3).tolist(), "box1": [0, 0, 9, 9]})
    truth = read_pairs(folder, needs="corrs").truths[0]
    assert truth.annotations["corrs"].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    queries = truth.pair.payload(truth.queries()).queries
    assert queries is not None
    assert queries.tolist() == [[1, 2], [5, 6]]
    back = truth.swapped()
    assert back.pair.name == "b--a"
    assert back.annotations["corrs"][0].tolist() == [3, 4, 1, 2]
    assert set(back.annotations) == {"corrs", "H", "box0"}
    assert truth.T_0to1 is not None
    assert back.T_0to1 is not None
    np.testing.assert_allclose(back.T_0to1 @ truth.T_0to1, np.eye(4), atol=1e-15)
    assert "lacks `points0`, `points1`, which keypoints needs" in problems(folder, needs="keypoints")
    write(tmp_path, {"points0": [[1, 2]], "points1": [[1, 2], [3, 4]]})
    assert "1 points0, 2 points1); expected equal numbers" in problems(tmp_path, needs="keypoints")
    write(tmp_path, {"H": np.ones((3, 3)).tolist()})
    assert "H: not invertible" in problems(tmp_path, needs="homography")


def test_an_exif_orientation_is_said(tmp_path: Path) -> None:
    image = Image.fromarray(np.zeros((48, 64, 3), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "a.jpg", exif=exif)
    pairs = read_pairs(write(tmp_path, {"image0": "a.jpg"}))
    assert any("1 image has an EXIF orientation (a.jpg)" in w for w in pairs.warnings)
    assert pairs.pairs[0].sizes()[0] == (64, 48)


def test_definition_and_content_change_with_what_they_cover(tmp_path: Path) -> None:
    first = read_pairs(write(tmp_path)).truths[0]
    other = read_pairs(write(tmp_path, {"centre": 0.5})).truths[0]
    assert first.pair.content() == other.pair.content()
    assert first.definition() != other.definition()
    turned = read_pairs(write(tmp_path, {"turns": [1, 0]})).truths[0]
    assert turned.pair.content() != first.pair.content()
    assert turned.pair.sizes()[0] == (48, 64)
    assert turned.pair.payload().image0.shape == (64, 48, 3)


@pytest.mark.skipif(not (DATA / "truth").is_dir(), reason="no truth of pose benchmarks in TIEPOINT_TEST_DATA")
def test_megadepth_1500_as_json() -> None:
    pairs = read_pairs(DATA / "truth" / "megadepth_1500.json")
    assert len(pairs) == 1500
    assert {p.scene for p in pairs.pairs} == {"0015", "0022"}
    assert len({p.pair.name for p in pairs.truths}) == 1500
    assert all(p.pair.dataset == "megadepth" and p.centre == 0.5 for p in pairs.truths)
    for truth in pairs.truths:  # the principal points of this dataset are in the middle of the images
        for K, (w, h) in zip((truth.K0, truth.K1), truth.pair.sizes(), strict=True):
            assert K is not None
            assert (2 * K[0, 2], 2 * K[1, 2]) == (w, h)


@pytest.mark.skipif(not (DATA / "megadepth_sample").is_dir(), reason="no sample in TIEPOINT_TEST_DATA")
def test_the_megadepth_sample() -> None:
    (truth,) = read_pairs(DATA / "megadepth_sample").truths
    assert (truth.pair.dataset, truth.centre, truth.pair.has_images()) == ("megadepth", 0.5, True)
    assert [i.shape for i in (truth.pair.payload().image0, truth.pair.payload().image1)] == [
        (1185, 1600, 3),
        (1182, 1600, 3),
    ]


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        ({"box1": [10, 10, 5, 5]}, r"box1: expected x1 < x2 and y1 < y2, found [10.0, 10.0, 5.0, 5.0]"),
        ({"ids": [1.5]}, "ids: expected integer ids of keypoints"),
        ({"corrs": [[1, 2, 3, 4]], "crossval": [1, 2]}, "1 corrs, 2 crossval); expected equal numbers"),
        ({"points0": [[True, False]]}, "points0: expected n x 2 numbers"),
    ],
)
def test_truth_that_cannot_be_is_a_problem(tmp_path: Path, truth: dict[str, Any], words: str) -> None:
    """A box from right to left made every point wrong."""
    write(tmp_path, {"points0": [[1, 2]], "points1": [[3, 4]], **truth})
    assert words in problems(tmp_path, needs="keypoints")
