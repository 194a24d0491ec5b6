"""Pairs as text with 38 fields, and images that are turned together with their K and pose."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.core.errors import ProblemsError
from tiepoint.datasets.image_pairs.reader import read_pairs

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", "../shared/data"))
GOLDEN = DATA.parent / "golden" / "pose.json"
K = np.array([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])


def rotation(degrees: float) -> np.ndarray:
    c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def line(T: np.ndarray, turns: tuple[int, int], names: str = "a.png b.png") -> str:
    numbers = [*K.ravel(), *K.ravel(), *T.ravel()]
    return f"{names} {turns[0]} {turns[1]} {' '.join(repr(float(v)) for v in numbers)}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name in ("a.png", "b.png"):
        Image.fromarray(rng.integers(0, 255, (480, 640, 3), dtype=np.uint8)).save(tmp_path / name)
    return tmp_path


def pose() -> np.ndarray:
    T = np.eye(4)
    T[:3, :3] = rotation(10)
    T[:3, 3] = [1, 0.1, 0.2]
    return T


@pytest.mark.parametrize("turns", [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (0, 2), (1, 3)])
def test_turned_images_see_the_same_points(folder: Path, turns: tuple[int, int]) -> None:
    """A point in space projects with the turned K and T to where its pixel went."""
    T = pose()
    (folder / "pairs_with_gt.txt").write_text(line(T, turns) + "\n")
    truth = read_pairs(folder).truths[0]
    assert truth.pair.turns == turns
    assert truth.pair.name == "a--b" + ("" if turns == (0, 0) else f"-turned-{turns[0]}-{turns[1]}")
    X0 = np.array([0.3, -0.2, 4.0])
    X1 = T[:3, :3] @ X0 + T[:3, 3]
    images = truth.pair.payload(truth.queries())
    size = (640, 480)
    assert truth.T_0to1 is not None
    depths = []
    for side, X in enumerate((X0, X1)):
        x, y = (K @ X / X[2])[:2]
        w, h = size
        quarter = {0: (x, y), 1: (y, w - 1 - x), 2: (w - 1 - x, h - 1 - y), 3: (h - 1 - y, x)}[turns[side]]
        Kt = (truth.K0, truth.K1)[side]
        assert Kt is not None
        ray = np.linalg.solve(Kt, [*quarter, 1.0])
        depths.append(ray / ray[2] * X[2])
        assert (images.image0, images.image1)[side].shape[:2] == truth.pair.sizes()[side][::-1]
    np.testing.assert_allclose(truth.T_0to1[:3, :3] @ depths[0] + truth.T_0to1[:3, 3], depths[1], atol=1e-6)


@pytest.mark.skipif(not GOLDEN.is_file(), reason="golden/pose.json is not beside TIEPOINT_TEST_DATA")
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_turned_intrinsics_equal_the_golden_ones(folder: Path, turns: int) -> None:
    golden = json.loads(GOLDEN.read_text())["superglue.rotate_intrinsics"][str(turns)]
    (folder / "pairs_with_gt.txt").write_text(line(pose(), (turns, turns)) + "\n")
    truth = read_pairs(folder).truths[0]
    np.testing.assert_array_equal(truth.K0, golden)
    np.testing.assert_array_equal(truth.K1, golden)


@pytest.mark.skipif(not GOLDEN.is_file(), reason="golden/pose.json is not beside TIEPOINT_TEST_DATA")
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_turned_poses_equal_the_golden_ones(folder: Path, turns: int) -> None:
    golden = json.loads(GOLDEN.read_text())["superglue.rotate_pose_inplane"][str(turns)]
    (folder / "pairs_with_gt.txt").write_text(line(pose(), (0, turns)) + "\n")
    np.testing.assert_allclose(read_pairs(folder).truths[0].T_0to1, golden, atol=1e-15)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.png b.png 1 2 3", "line 1 has 5 fields; expected 38 (names, turns, K0, K1, T_0to1); 4"),
        ("a.png b.png", "line 1 lacks `K0`, `K1`, `T_0to1`, which pose needs"),
        ("a.png b.png 0 7", "line 1: fields 3 and 4 must be quarter turns, each 0 to 3, found ['0', '7']"),
        (line(pose(), (0, 0)).replace("500.0", "5x", 1), "line 1: could not convert string to float: '5x'"),
        (line(pose(), (0, 0), "a.png c.png"), "c.png is missing and its size is not stated"),
    ],
)
def test_a_bad_line_is_named(folder: Path, text: str, said: str) -> None:
    (folder / "pairs_with_gt.txt").write_text("# comment\n" + line(pose(), (0, 0)) + f"\n{text}\n")
    with pytest.raises(ProblemsError) as caught:
        read_pairs(folder)
    assert said.replace("line 1", "line 3") in "\n".join(caught.value.problems)


def test_lines_without_truth_are_pairs_where_none_is_needed(folder: Path) -> None:
    (folder / "pairs_with_gt.txt").write_text("a.png b.png 0 1\nb.png a.png\n")
    pairs = read_pairs(folder, needs="any")
    assert [p.turns for p in pairs.pairs] == [(0, 1), (0, 0)]
    assert pairs.pairs[0].sizes() == ((640, 480), (480, 640))


@pytest.mark.skipif(not (DATA / "scannet_sample").is_dir(), reason="TIEPOINT_TEST_DATA has no ScanNet sample")
def test_scannet() -> None:
    sample = read_pairs(DATA / "scannet_sample")
    assert (len(sample), len({p.scene for p in sample.pairs})) == (8, 8)
    assert all(p.dataset == "scannet" and p.has_images() for p in sample.pairs)
    whole = read_pairs(DATA / "truth" / "scannet_test_pairs_with_gt.txt")
    assert (len(whole), len({p.scene for p in whole.pairs})) == (1500, 100)
    assert len({p.name for p in whole.pairs}) == 1500
    assert whole.pairs[0].name == "scene0707/frame-000015.color--frame-000585.color"
    assert all(p.sizes() == ((1296, 968), (1296, 968)) for p in whole.pairs)
    assert any("follows from dataset and K: 1296 x 968" in w for w in whole.warnings)
