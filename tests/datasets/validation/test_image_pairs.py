"""`tiepoint data check` on pairs: facts, all problems at once, what is odd."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tiepoint.cli.main import run
from tiepoint.datasets.validation.dataset import check_dataset

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", "../shared/data"))
K = [[500.0, 0, 32], [0, 510, 24], [0, 0, 1]]
T = [[0.0, -1, 0, 3], [1, 0, 0, 4], [0, 0, 1, 0], [0, 0, 0, 1]]


def dataset(root: Path, *entries: dict[str, Any]) -> Path:
    for i, name in enumerate("abc"):
        pixels = np.random.default_rng(i).integers(0, 255, (48, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / f"{name}.png")
    given = {"image0": "a.png", "image1": "b.png", "K0": K, "K1": K, "T_0to1": T}
    whole = [{k: v for k, v in {**given, **entry}.items() if v is not None} for entry in entries]
    (root / "pairs.json").write_text(json.dumps(whole))
    return root


def test_facts_of_a_good_set(tmp_path: Path) -> None:
    back = {"image0": "b.png", "image1": "a.png", "overlap": 0.5, "turns": [1, 0]}
    report = check_dataset(dataset(tmp_path, {}, {**back, "turns": [0, 0]}, back))
    assert report.ok, str(report)
    assert report.facts == (
        "3 pairs of 2 images, 2 of them present",
        "1 scene, 3 pairs per scene",
        "in both directions: 1 pair",
        "with rotated images: 1 pair",
        "K and T: 3 pairs, centre of the first pixel at (0, 0)",
        "rotations of 90 to 180 degrees (orthonormal to 0), baselines of 5 to 5",
        "properties for grouping scores: overlap",
    )


def test_all_problems_and_the_facts_besides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = dataset(tmp_path, {}, {"image1": "c.png", "T_0to1": None}, {"image1": "d.png", "K0": [1]})
    data = (damaged / "c.png").read_bytes()
    (damaged / "c.png").write_bytes(data[: len(data) // 2])
    assert run(["data", "check", "--data", str(tmp_path)]) == 2
    said = capsys.readouterr().out
    assert "3 pairs of 4 images, 3 of them present" in said
    assert "4 problems:" in said
    assert "entry 2 lacks `T_0to1`, which pose needs" in said
    assert "c.png: the image cannot be decoded" in said
    assert "entry 3, K0: expected 3 x 3 numbers" in said
    assert "d.png is missing and its size is not stated" in said
    assert run(["data", "check", "--data", str(tmp_path), "--fast"]) == 2
    assert "cannot be decoded" not in capsys.readouterr().out


def test_images_of_equal_content_are_said(tmp_path: Path) -> None:
    dataset(tmp_path, {}, {"image1": "c.png"})
    shutil.copy(tmp_path / "b.png", tmp_path / "c.png")
    seen: list[tuple[int, int]] = []
    report = check_dataset(tmp_path, progress=lambda i, n: seen.append((i, n)))
    assert report.ok
    (warning,) = report.warnings
    assert "1 image has several names" in warning
    assert "their pairs are not independent" in warning
    assert seen[-1] == (3, 3)


def test_broken_files_are_problems_not_crashes(tmp_path: Path) -> None:
    (tmp_path / "pairs.json").write_text('[{"image0": ')
    report = check_dataset(tmp_path)
    assert len(report.problems) == 1
    assert "may be truncated" in report.problems[0]
    (tmp_path / "pairs.json").unlink()
    (tmp_path / "notes.txt").write_text("hello\n")
    for path in (tmp_path, tmp_path / "notes.txt"):
        report = check_dataset(path)
        assert report.problems == ("not a dataset of a known layout",)
        assert "  SEQ/ref.png (patches)" in report.hints
        assert "COLMAP" in str(report)


@pytest.mark.skipif(not (DATA / "truth").is_dir(), reason="TIEPOINT_TEST_DATA has no folder truth")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("scannet_sample", "8 pairs of 16 images, 16 of them present"),
        ("truth/scannet_test.npz", "100 scenes, 15 pairs per scene"),
        (
            "truth/scannet_test_pairs_with_gt.txt",
            "(orthonormal to 1.5e-05), baselines of 0.0104 to",
        ),
        ("truth/megadepth_1500.json", "2 scenes, 600 to 900 pairs per scene"),
        ("megadepth_sample", "K and T: 1 pair, centre of the first pixel at (0.5, 0.5)"),
        ("wxbs", "correspondences: 16 pairs, 16 to 64 each"),
        ("evd", "homographies: 8 pairs"),
        ("spair_sample", "keypoints: 3 pairs, 4 to 9 each"),
        ("pf_willow", "in both directions: 90 pairs"),
    ],
)
def test_the_samples_have_no_problem(name: str, said: str) -> None:
    report = check_dataset(DATA / name, deep=False)
    assert report.ok, str(report)
    assert said in str(report)
