# SPDX-License-Identifier: BSD-3-Clause
"""Readers of MMIM, SatAst and of lists with H_0to1 or landmarks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

import cross_world as world
from crossmodal_golden import golden, needs_golden
from tiepoint.core.errors import ProblemsError
from tiepoint.datasets.image_pairs.ground_truth import PairTruth
from tiepoint.datasets.image_pairs.multimodal import homography_of
from tiepoint.datasets.image_pairs.pair import ImagePair
from tiepoint.datasets.image_pairs.planes import floor_px, plane_problems, turn_matrix, turned_truth
from tiepoint.datasets.image_pairs.reader import read_pairs
from tiepoint.datasets.validation.dataset import check_dataset


@needs_golden
def test_matlab_transform_to_homography_equals_recorded() -> None:
    recorded = golden()["T_to_H"]
    assert np.allclose(
        homography_of(np.array(recorded["T_mat"])), recorded["H_zero_based"], rtol=1e-9, atol=0
    )


def test_mmim_moving_image_is_first_and_truth_is_zero_based(tmp_path: Path) -> None:
    found = read_pairs(world.write_mmim(tmp_path), needs="homography")
    assert len(found) == sum(map(len, world.NAMES.values()))
    truth = found.truth("Medical/Retina/Retina_1")
    moving, fixed = world.images(30)
    payload = truth.pair.payload()
    assert np.array_equal(payload.image0, moving)
    assert np.array_equal(payload.image1, fixed)
    assert truth.pair.sizes() == (world.SIZE0, world.SIZE1)
    assert np.allclose(truth.annotations["H"], world.H, atol=1e-12)
    assert np.allclose(truth.annotations["landmarks"], np.hstack(world.landmarks(30)), atol=1e-12)
    assert floor_px(truth) == pytest.approx(0, abs=1e-9)
    assert truth.pair.image_names()[0].endswith("Retina_1.mat#I_move")


def test_mmim_slices_of_one_number_are_one_scene(tmp_path: Path) -> None:
    pairs = read_pairs(world.write_mmim(tmp_path), needs="homography").pairs
    slices = [p for p in pairs if p.name.split("/")[1] in ("PD_T1", "PD_T2", "T1_T2")]
    assert len(slices) == 6
    assert {p.scene for p in slices} == {"Medical/PD_T1_T2/10", "Medical/PD_T1_T2/101"}
    others = [p for p in pairs if p not in slices]
    assert [p.scene for p in others] == [p.name for p in others]
    assert {p.facts["category"] for p in pairs} >= {"Medical/PD_T1", "ComputerVision/DayNight"}
    assert {p.facts["modality"] for p in pairs} == {"Medical", "RemoteSensing", "ComputerVision"}


def test_mmim_folders_above_and_below_are_recognised(tmp_path: Path) -> None:
    world.write_mmim(tmp_path)
    base = tmp_path / "Multimodal_Image_Matching_Datasets"
    names = {p.name for p in read_pairs(base, needs="homography").pairs}
    assert names == {p.name for p in read_pairs(tmp_path, needs="homography").pairs}
    medical = {p.name for p in read_pairs(base / "Medical", needs="homography").pairs}
    assert medical == {name for name in names if name.startswith("Medical/")}


def test_mmim_content_of_pair_depends_on_turn_and_mirror(tmp_path: Path) -> None:
    truth = read_pairs(world.write_mmim(tmp_path), needs="homography").truths[0]
    contents = {turned_truth(truth, k, mirror=m).pair.content() for k in range(4) for m in (False, True)}
    assert len(contents) == 8


def broken(key: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda content: {**content, key: value}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (broken("T", np.full((3, 3), np.nan)), "T must be a finite matrix"),
        (broken("T", np.eye(2)), "T must be a finite matrix"),
        (broken("I_fix", np.zeros((5, 5), np.uint8)), "image uint8"),
        (broken("I_move", np.zeros((5, 5, 3))), "image uint8"),
        (broken("Landmarks", {"LMfix": np.ones((3, 2)), "LMmov": np.ones((4, 2))}), "must both have shape"),
        (broken("Landmarks", np.ones((3, 2))), "must both have shape"),
        (lambda content: {k: v for k, v in content.items() if k != "T"}, "lacks T"),
    ],
)
def test_mmim_other_shapes_are_refused(tmp_path: Path, change: Any, said: str) -> None:
    place = tmp_path / "Multimodal_Image_Matching_Datasets" / "Medical" / "X"
    place.mkdir(parents=True)
    savemat(place / "a.mat", change(world.mat_content(0)))
    with pytest.raises(ProblemsError, match=said):
        read_pairs(tmp_path, needs="homography")


def test_mmim_truncated_and_pointer_files_are_named(tmp_path: Path) -> None:
    root = world.write_mmim(tmp_path)
    files = sorted(root.rglob("*.mat"))
    files[0].write_bytes(files[0].read_bytes()[:3000])
    files[1].write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(ProblemsError) as e:
        read_pairs(root, needs="homography")
    assert files[0].name in str(e.value)
    assert files[1].name in str(e.value)


def test_mmim_check_reports_residuals_and_tasks(tmp_path: Path) -> None:
    report = check_dataset(world.write_mmim(tmp_path, {"Medical/Retina": 3.0}))
    assert not report.problems
    assert any("largest 3.00 px" in fact for fact in report.facts)
    assert "mmim/homography" in report.uses[0].tasks


def test_satast_uses_last_round_and_finds_images(tmp_path: Path) -> None:
    found = read_pairs(world.write_satast(tmp_path), needs="keypoints")
    assert [p.name for p in found.pairs] == ["p0", "p1", "p2"]
    assert found.warnings == ("1 pair without points is skipped: without",)
    truth = found.truth("p2")
    assert np.allclose(truth.annotations["points1"], world.landmarks(2)[1])
    assert np.array_equal(truth.pair.payload().image1, world.images(2)[1])
    assert found.pairs[0].scene == found.pairs[2].scene != found.pairs[1].scene
    assert "satast/points" in check_dataset(tmp_path).uses[0].tasks


def test_satast_file_of_another_form_is_named(tmp_path: Path) -> None:
    world.write_satast(tmp_path)
    (tmp_path / "z.json").write_text("{}")
    with pytest.raises(ProblemsError, match=r"z\.json"):
        read_pairs(tmp_path, needs="keypoints")


def test_planes_scene_is_folder_of_image0_unless_stated(tmp_path: Path) -> None:
    pairs = read_pairs(world.write_planes(tmp_path, scene="mine"), needs="plane").pairs
    assert [p.scene for p in pairs] == ["mine", "f1", "f0", "f1"]


def test_planes_landmarks_may_replace_homography(tmp_path: Path) -> None:
    points, there = world.landmarks(0)
    path = world.write_planes(tmp_path, H_0to1=None, landmarks=np.hstack([points, there]).tolist())
    truth = read_pairs(path, needs="plane").truths[0]
    assert "H" not in truth.annotations
    assert np.allclose(truth.correspondences(), np.hstack([points, there]))
    with pytest.raises(ProblemsError, match="which homography needs"):
        read_pairs(path, needs="homography")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"H_0to1": [[1, 0, 0], [0, 1, 0], [0, 0, float("nan")]]}, "not finite"),
        ({"H_0to1": [[1, 0, 0], [1, 0, 0], [0, 0, 1]]}, "not invertible"),
        ({"H_0to1": None}, "`H|landmarks`|`H` or `landmarks`"),
        ({"H": np.eye(3).tolist()}, "both H and H_0to1"),
        ({"landmarks": [[1, 2, 3]]}, "landmarks: expected"),
    ],
)
def test_planes_bad_truth_is_refused(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    path = world.write_planes(tmp_path, **more)
    if "nan" in path.read_text().lower():
        path.write_text(json.dumps(json.loads(path.read_text())).replace("NaN", "1e999"))
    with pytest.raises(ProblemsError, match=said):
        read_pairs(path, needs="plane")


def test_plane_problems_name_horizon(tmp_path: Path) -> None:
    path = world.write_planes(tmp_path, H_0to1=[[1, 0, 0], [0, 1, 0], [-0.05, 0, 1]])
    assert plane_problems(read_pairs(path, needs="plane").truths) == [
        "p0: the true homography has a horizon that crosses image 0"
    ]


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("turns", range(4))
def test_turned_truth_follows_pixels(turns: int, mirror: bool) -> None:
    pixels = np.arange(12).reshape(3, 4)  # width 4, height 3
    changed = np.rot90(pixels[:, ::-1] if mirror else pixels, turns)
    M, size = turn_matrix((4, 3), turns, mirror=mirror)
    assert size == changed.shape[::-1]
    for y in range(3):
        for x in range(4):
            u, v, _ = (M @ [x, y, 1]).round().astype(int)
            assert changed[v, u] == pixels[y, x]
    marks = np.array([[1.0, 2, 3, 1]])
    pair = ImagePair("a", "a", size0=(4, 3), size1=(4, 3), turns=(0, 1))
    truth = turned_truth(
        PairTruth(pair, annotations={"H": np.eye(3), "landmarks": marks}), turns, mirror=mirror
    )
    assert np.allclose(truth.annotations["H"], M)
    assert np.allclose(truth.annotations["landmarks"][0, 2:], (M @ [3, 1, 1])[:2])


def test_turned_pair_reads_turned_image(tmp_path: Path) -> None:
    truth = read_pairs(world.write_planes(tmp_path), needs="plane").truths[0]
    image = truth.pair.payload().image1
    for turns, mirror in ((1, False), (2, True), (3, True)):
        turned = turned_truth(turned_truth(truth, 1), turns, mirror=mirror).pair
        before = np.rot90(image)
        expected = np.rot90(before[:, ::-1] if mirror else before, turns)
        assert np.array_equal(turned.payload().image1, expected)
        assert turned.sizes()[1] == expected.shape[1::-1]
