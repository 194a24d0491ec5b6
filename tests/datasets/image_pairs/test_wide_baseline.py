"""WxBS, EVD, and clicked correspondences of one's own."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.core.errors import ProblemsError
from tiepoint.datasets.image_pairs.reader import read_pairs

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", "../shared/data"))


def picture(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    Image.fromarray(rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)).save(path)


def clicked(root: Path, name: str, seed: int, rows: str = "1 2 3 4\n5 6 7 8.5\n") -> Path:
    for number in (1, 2):
        picture(root / name / f"0{number}.png", 10 * seed + number)
    (root / name / "corrs.txt").write_text(rows)
    return root / name


def test_names_splits_and_categories(tmp_path: Path) -> None:
    clicked(tmp_path / "v1.1", "WGBS/kn-church", 1)
    clicked(tmp_path / "v1.1", "WGABS/petrzin", 2)
    pairs = read_pairs(tmp_path, needs="corrs").truths
    assert [p.pair.name for p in pairs] == ["WGABS/petrzin", "WGBS/kn-church"]
    assert [p.pair.facts for p in pairs] == [
        {"category": "WGABS", "split": "val"},
        {"category": "WGBS", "split": "test"},
    ]
    assert pairs[0].pair.dataset == "wxbs"
    assert pairs[0].annotations["corrs"].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8.5]]


def test_a_pair_without_image_01_is_left_out_and_named(tmp_path: Path) -> None:
    clicked(tmp_path, "WGBS/a", 1)
    (clicked(tmp_path, "WLABS/ministry", 2) / "01.png").unlink()
    pairs = read_pairs(tmp_path, needs="corrs")
    assert [p.name for p in pairs.pairs] == ["WGBS/a"]
    assert pairs.warnings == ("1 of 2 pairs lack an image and are skipped: WLABS/ministry (01)",)


def test_png_is_looked_for_before_jpg_and_a_third_image_is_not_used(tmp_path: Path) -> None:
    folder = clicked(tmp_path, "WGBS/a", 1)
    picture(folder / "01.jpg", 7)
    picture(folder / "03.png", 8)
    (pair,) = read_pairs(tmp_path, needs="corrs").pairs
    assert pair.image0 == folder / "01.png"


def test_pairs_with_one_image_file_in_common_are_one_scene(tmp_path: Path) -> None:
    a = clicked(tmp_path, "WGALBS/doll", 1)
    b = clicked(tmp_path, "WGALBS/doll2", 2)
    clicked(tmp_path, "WGALBS/other", 3)
    (b / "02.png").write_bytes((a / "01.png").read_bytes())
    pairs = read_pairs(tmp_path, needs="corrs")
    assert [p.scene for p in pairs.pairs] == ["WGALBS/doll", "WGALBS/doll", "WGALBS/other"]
    assert any("share an image file and count as one scene" in w for w in pairs.warnings)


def test_clicks_of_ones_own_need_no_categories(tmp_path: Path) -> None:
    clicked(tmp_path, "kitchen", 1)
    (pair,) = read_pairs(tmp_path, needs="corrs").pairs
    assert (pair.name, pair.dataset, pair.facts) == ("kitchen", "", {})


@pytest.mark.parametrize(
    ("rows", "said"),
    [("1 2 3\n", "expected 4 numbers"), ("1 2 3 x\n", "column 4: expected a number"), ("", "is empty")],
)
def test_bad_clicks_are_named(tmp_path: Path, rows: str, said: str) -> None:
    clicked(tmp_path, "kitchen", 1, rows)
    with pytest.raises(ProblemsError, match=r"corrs\.txt") as caught:
        read_pairs(tmp_path, needs="corrs")
    assert said in str(caught.value)


def planes(root: Path) -> Path:
    picture(root / "1" / "cat.png", 1)
    picture(root / "2" / "cat.png", 2)
    (root / "h").mkdir()
    (root / "h" / "cat.txt").write_text("2\t0 6\n0 2 8\n0 0 2\n")
    return root


def test_homographies_are_divided_by_their_last_number(tmp_path: Path) -> None:
    planes(tmp_path / "EVD")
    (truth,) = read_pairs(tmp_path, needs="homography").truths
    assert (truth.pair.name, truth.pair.dataset) == ("cat", "evd")
    assert truth.annotations["H"].tolist() == [[1, 0, 3], [0, 1, 4], [0, 0, 1]]


def test_what_a_plane_lacks_is_told(tmp_path: Path) -> None:
    planes(tmp_path)
    picture(tmp_path / "1" / "dog.png", 3)
    (tmp_path / "2" / "cat.png").unlink()
    with pytest.raises(ProblemsError) as caught:
        read_pairs(tmp_path, needs="homography")
    text = str(caught.value)
    assert "the image 2/cat.png is missing" in text
    assert "dog.txt: the file does not exist" in text


@pytest.mark.skipif(not (DATA / "wxbs").is_dir(), reason="TIEPOINT_TEST_DATA has no WxBS sample")
def test_the_samples() -> None:
    pairs = read_pairs(DATA / "wxbs", needs="corrs").truths
    assert len(pairs) == 16
    assert [p.pair.name for p in pairs if p.pair.facts["split"] == "val"] == ["WGABS/petrzin"]
    assert all(p.annotations["corrs"].shape == (len(p.annotations["crossval"]), 4) for p in pairs)
    planes = read_pairs(DATA / "evd", needs="homography").truths
    assert len(planes) == 8
    assert all(p.annotations["H"][2, 2] == 1 for p in planes)
