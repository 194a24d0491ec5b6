"""Keypoint pairs: SPair-71k in both layouts, PF-PASCAL and PF-WILLOW."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from tiepoint.core.errors import InputError, ProblemsError
from tiepoint.datasets.image_pairs.reader import read_pairs

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", "../shared/data"))


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((30, 40, 3), np.uint8)).save(path)


def spair(root: Path, **changes: Any) -> Path:
    for name in ("2008_1", "2009_2"):
        picture(root / "JPEGImages" / "cat" / f"{name}.jpg")
    entry = {
        "src_imname": "2008_1.jpg", "trg_imname": "2009_2.jpg", "src_imsize": [40, 30, 3],
        "trg_imsize": [40, 30, 3], "src_kps": [[1, 2], [3, 4]], "trg_kps": [[5, 6], [7, 8]],
        "kps_ids": ["0", "9"], "src_bndbox": [0, 0, 20, 20], "trg_bndbox": [1, 2, 30, 29],
        "category": "cat", "viewpoint_variation": 2, "scale_variation": 0, "truncation": 1, "occlusion": 0,
        **changes,
    }  # fmt: skip
    for split in ("test", "val"):
        (root / "PairAnnotation" / split).mkdir(parents=True, exist_ok=True)
        (root / "PairAnnotation" / split / "000001-2008_1-2009_2:cat.json").write_text(json.dumps(entry))
    return root


def test_spair_as_published(tmp_path: Path) -> None:
    (truth,) = read_pairs(spair(tmp_path), needs="keypoints").truths
    assert truth.pair.name == "000001-2008_1-2009_2:cat"
    assert truth.pair.has_images()
    assert {k: v.tolist() for k, v in truth.annotations.items()} == {
        "points0": [[1, 2], [3, 4]],
        "points1": [[5, 6], [7, 8]],
        "box0": [0, 0, 20, 20],
        "box1": [1, 2, 30, 29],
        "ids": [0, 9],
    }
    assert truth.pair.facts == {
        "category": "cat", "viewpoint_variation": 2, "scale_variation": 0, "truncation": 1, "occlusion": 0,
        "split": "test",
    }  # fmt: skip
    val = read_pairs(tmp_path / "PairAnnotation" / "val", needs="keypoints")
    assert val.truths[0].pair.facts["split"] == "val"
    assert val.truths[0].pair.has_images()


def test_spair_names_what_is_wrong(tmp_path: Path) -> None:
    spair(tmp_path, src_imsize=[41, 30, 3], trg_kps=[[5, 6]])
    with pytest.raises(ProblemsError) as caught:
        read_pairs(tmp_path, needs="keypoints")
    assert "has 40 x 30 pixels, but 41 x 30 are stated" in str(caught.value)
    assert "2 points0, 1 points1, 2 ids); expected equal numbers" in str(caught.value)
    file = tmp_path / "PairAnnotation" / "test" / "000001-2008_1-2009_2:cat.json"
    file.write_text(file.read_text()[:50])
    with pytest.raises(ProblemsError, match="may be truncated"):
        read_pairs(tmp_path, needs="keypoints")
    file.unlink()
    file.parent.rmdir()
    with pytest.raises(InputError, match="pass the folder of an existing split"):
        read_pairs(tmp_path, needs="keypoints")


def pascal(root: Path, points: np.ndarray, rows: str = "JPEGImages/a.jpg,JPEGImages/b.jpg,8\n") -> Path:
    for name, shift in (("a", 0), ("b", 1)):
        picture(root / "JPEGImages" / f"{name}.jpg")
        (root / "Annotations" / "cat").mkdir(parents=True, exist_ok=True)
        savemat(root / "Annotations" / "cat" / f"{name}.mat", {"kps": points + shift})
    (root / "test_pairs.csv").write_text("source_image,target_image,class\n" + rows)
    return root


def test_pf_pascal_keeps_the_keypoints_both_images_have(tmp_path: Path) -> None:
    points = np.array([[1.0, 2], [np.nan, np.nan], [5, 6]])
    (truth,) = read_pairs(pascal(tmp_path, points), needs="keypoints").truths
    assert (truth.pair.name, truth.pair.dataset, truth.pair.facts) == (
        "a--b",
        "pf-pascal",
        {"category": "cat"},
    )
    assert truth.annotations["points1"].tolist() == [[2, 3], [6, 7]]
    assert truth.annotations["ids"].tolist() == [0, 2]


def test_pf_pascal_names_what_is_absent(tmp_path: Path) -> None:
    pascal(tmp_path, np.ones((3, 2)), "a.jpg,c.jpg,8\n")
    with pytest.raises(ProblemsError) as caught:
        read_pairs(tmp_path / "test_pairs.csv", needs="keypoints")
    assert "c.mat: the file does not exist" in str(caught.value)
    assert "c.jpg is missing" in str(caught.value)


def test_pf_willow_as_a_list(tmp_path: Path) -> None:
    for name in "ab":
        picture(tmp_path / "car(S)" / f"{name}.png")
    numbers = ",".join(str(v) for v in range(40))
    (tmp_path / "test_pairs.csv").write_text(
        f"imageA,imageB,XA1\nPF-dataset/car(S)/a.png,PF-dataset/car(S)/b.png,{numbers}\n"
    )
    (truth,) = read_pairs(tmp_path, needs="keypoints").truths
    assert truth.pair.facts == {"category": "car(S)"}
    assert truth.annotations["points0"][:2].tolist() == [[0, 10], [1, 11]]
    assert truth.annotations["points1"][-1].tolist() == [29, 39]


def test_pf_willow_classes_drop_padding(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        picture(tmp_path / "duck(S)" / f"{name}.png")
        coordinates = np.array([[1.0, 2, -1], [3, 4, -1]])
        savemat(tmp_path / "duck(S)" / f"{name}.mat", {"pts_coord": coordinates})
    pairs = read_pairs(tmp_path, needs="keypoints")
    assert len(pairs) == 6
    assert {p.pair.scene for p in pairs.truths} == {"duck(S)"}
    assert pairs.truths[0].annotations["points0"].tolist() == [[1, 3], [2, 4]]


@pytest.mark.skipif(not (DATA / "spair_sample").is_dir(), reason="TIEPOINT_TEST_DATA has no SPair sample")
def test_the_samples() -> None:
    pairs = read_pairs(DATA / "spair_sample", needs="keypoints").pairs
    assert [p.facts["category"] for p in pairs] == ["pottedplant", "dog", "cow"]
    assert all(p.has_images() for p in pairs)
    with pytest.raises(ProblemsError, match="images are missing and have no stated size"):
        read_pairs(DATA / "spair_sample" / "annotations_test_360.json", needs="keypoints")
    assert len(read_pairs(DATA / "pf_willow", needs="keypoints")) == 2 * 90


def test_keypoints_that_only_the_target_has_are_known(tmp_path: Path) -> None:
    spair(tmp_path)
    folder = tmp_path / "ImageAnnotation" / "cat"
    folder.mkdir(parents=True)
    for name, there in (("2008_1", "0 9"), ("2009_2", "0 1 9")):
        kps = {str(i): [1, 2] if str(i) in there.split() else None for i in range(12)}
        (folder / f"{name}.json").write_text(json.dumps({"kps": kps}))
    (truth,) = read_pairs(tmp_path, needs="keypoints").truths
    assert truth.annotations["visible1"].tolist() == [0, 1, 9]
    assert truth.swapped().annotations["visible1"].tolist() == [0, 9]
    (folder / "2009_2.json").write_text(json.dumps({"kps": []}))
    with pytest.raises(ProblemsError, match="`kps` must map keypoint numbers"):
        read_pairs(tmp_path, needs="keypoints")
