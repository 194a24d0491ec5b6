# SPDX-License-Identifier: BSD-3-Clause
"""Tasks `dense/flow` and `dense/pck` on data made on the spot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import InputError, ProblemsError, UnknownNameError
from tiepoint.core.records import Features
from tiepoint.core.scores import caution_notes
from tiepoint.datasets.dense_pairs import BrokenPair, find_pairs
from tiepoint.formats.flow.reader import write_flow
from tiepoint.formats.flow.tss import PairResult
from tiepoint.formats.image.reader import write_image
from tiepoint.methods.resolve import resolve
from tiepoint.tasks import TASKS

RNG = np.random.default_rng(0)


def picture(h: int, w: int) -> np.ndarray:
    return RNG.integers(0, 256, (h, w, 3)).astype(np.uint8)


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    """Two pairs with flow (2, 1) and (0, 10), some of it unknown; sizes differ."""
    for name, shape, flow in (("x/one", (20, 30), (2, 1)), ("x/two", (10, 40), (0, 10))):
        folder = tmp_path / "flows" / name
        folder.mkdir(parents=True)
        truth = np.full((*shape, 2), flow, np.float32)
        truth[:5] = 1e10
        write_image(folder / "image1.png", picture(*shape))
        write_image(folder / "image2.jpg", picture(*shape))
        write_flow(folder / "flow.png", truth)
    return tmp_path / "flows"


@pytest.fixture
def sequences(tmp_path: Path) -> Path:
    folder = tmp_path / "sequences" / "v_made"
    folder.mkdir(parents=True)
    for k in (1, 2, 3):
        write_image(folder / f"{k}.png", picture(24, 32))
        if k > 1:
            (folder / f"H_1_{k}").write_text(f"1 0 {k}\n0 1 -1\n0 0 1\n")
    return tmp_path / "sequences"


@pytest.fixture
def willow(tmp_path: Path) -> Path:
    from scipy.io import savemat

    folder = tmp_path / "willow" / "car(S)"
    folder.mkdir(parents=True)
    for k in range(3):
        write_image(folder / f"im{k}.png", picture(50, 60))
        points = np.array([[10.0, 30.0, 20.0, -1.0], [10.0, 10.0, 25.0, -1.0]])
        points[:, :3] += 2 * k
        savemat(folder / f"im{k}.mat", {"pts_coord": points})
    return tmp_path / "willow"


def run(task: str, data: Path, arrays, **options: object) -> dict[tuple[str, str], float]:
    opened = TASKS.load(task).open(data, options)
    records = [opened.compare(u, Features(arrays), "x") for u in opened.units]
    return {(s.metric, s.group): s.value for s in TASKS.load(task).score(records, "exact")}


def of_method(spec: str, task: str, data: Path):
    method = resolve(spec, family="dense")
    opened = TASKS.load(task).open(data, {})
    made = {i.key: method.extract(i, opened.read_item(i.key)) for i in opened.items}
    return made.__getitem__


def test_flow_scores_by_hand(flows: Path) -> None:
    found = run("dense/flow", flows, of_method("zero", "dense/flow", flows))
    lengths = np.hypot(2, 1), 10.0
    assert found["aepe", "all"] == pytest.approx(np.mean(lengths))
    n = 15 * 30, 5 * 40
    assert found["aepe", "per=pixel"] == pytest.approx(np.dot(lengths, n) / sum(n))
    assert found["fl", "all"] == 0.5
    assert found["fl", "per=pixel"] == pytest.approx(n[1] / sum(n))
    by_px = [found["flow_accuracy", f"threshold_px={t}"] for t in (1, 3, 5, 10)]
    assert by_px == [0.0, 0.5, 0.5, 1.0]
    assert found["flow_accuracy", "all"] == 0.5
    assert found["flow_accuracy", "alpha=0.1"] == 0.5  # 3 px of 30, 4 px of 40


def test_homography_truth_and_its_own_method(sequences: Path) -> None:
    """Scoring the true flow gives 1; pixels that leave image 2 do not count."""
    opened = TASKS.load("dense/flow").open(sequences, {})
    assert [u.key for u in opened.units] == ["v_made/1_2:1to2", "v_made/1_3:1to2"]
    y, x = np.mgrid[:24, :32]

    def truth(key: str) -> dict[str, np.ndarray]:
        k = int(key[-1])
        return {"flow1": np.full((24, 32, 2), (k, -1.0)), "flow2": np.zeros((24, 32, 2))}

    found = run("dense/flow", sequences, truth)
    assert found["aepe", "all"] == 0.0
    assert found["flow_accuracy", "threshold_px=1"] == 1.0
    record = opened.compare(opened.units[0], Features(truth), "x")
    assert record["valid"][0] == ((x + 2 <= 31) & (y - 1 >= 0)).sum()


def test_results_of_another_size_are_resized(sequences: Path) -> None:
    def small(key: str) -> dict[str, np.ndarray]:
        k = int(key[-1])
        return {"flow1": np.full((12, 16, 2), (k / 2, -0.5)), "flow2": np.zeros((12, 16, 2))}

    assert run("dense/flow", sequences, small)["aepe", "all"] == pytest.approx(0, abs=1e-6)
    alone = run("dense/flow", sequences, lambda key: {"flow1": small(key)["flow1"]})
    assert alone["aepe", "all"] == pytest.approx(0, abs=1e-6)


def test_flow_alone_of_other_aspect_ratio_is_resized_by_axis(sequences: Path) -> None:
    def stretched(key: str) -> dict[str, np.ndarray]:
        return {"flow1": np.full((12, 64, 2), (2.0 * int(key[-1]), -0.5))}

    assert run("dense/flow", sequences, stretched)["aepe", "all"] == pytest.approx(0, abs=1e-6)


def test_pck_by_hand(willow: Path) -> None:
    """Zero flow: points are off by (2, 2) or (4, 4); padding is no point; the extent is 20, the image 60."""
    found = run("dense/pck", willow, of_method("zero", "dense/pck", willow))
    assert found["pck", "alpha=0.1,per=pair,scale=keypoints"] == 0.0  # 2 px < 2.83
    assert found["pck", "alpha=0.15,per=pair,scale=keypoints"] == pytest.approx(4 / 6)  # 3 px: neighbours
    assert found["pck", "alpha=0.05,per=point,scale=image"] == pytest.approx(4 / 6)
    assert found["pck", "alpha=0.1,per=point,scale=image"] == 1.0
    assert found["pck", "all"] == 0.0
    opened = TASKS.load("dense/pck").open(willow, {})
    record = opened.compare(opened.units[0], Features(of_method("zero", "dense/pck", willow)), "x")
    assert len(record) == 3
    assert record.meta["padded"] == 1


def test_pck_of_the_right_flow_and_scale_option(willow: Path) -> None:
    def right(key: str) -> dict[str, np.ndarray]:
        a, b = (int(p[2:]) for p in key.split("/")[1].split("-"))
        return {f"flow{i}": np.full((50, 60, 2), s * 2.0 * (b - a)) for i, s in ((1, 1), (2, -1))}

    found = run("dense/pck", willow, right)
    assert {v for (m, _), v in found.items() if m == "pck"} == {1.0}
    with pytest.raises(InputError, match="no reference length for scale 'box'"):
        run("dense/pck", willow, right, scale="box")
    with pytest.raises(UnknownNameError, match="scale"):
        run("dense/pck", willow, right, scale="bbox")
    zero = run("dense/pck", willow, of_method("zero", "dense/pck", willow), scale="image", alphas="0.05,0.1")
    assert zero["pck", "all"] == 1.0


@pytest.mark.parametrize("task", ["dense/flow", "dense/pck"])
def test_missing_flow(task: str, flows: Path, willow: Path) -> None:
    data = flows if task == "dense/flow" else willow
    whole = of_method("zero", task, data)
    first = TASKS.load(task).open(data, {}).items[0].key

    def gap(key: str) -> dict[str, np.ndarray]:
        return PairResult({}).to_arrays() if key == first else whole(key)

    with pytest.raises(InputError, match="flow1 is missing"):
        run(task, data, gap, missing="error")
    skip, zero = run(task, data, gap, missing="skip"), run(task, data, gap, missing="zero")
    assert run(task, data, gap) == zero
    if task == "dense/flow":
        assert (skip["flow_accuracy", "threshold_px=10"], zero["flow_accuracy", "threshold_px=10"]) == (
            1.0,
            0.5,
        )
        assert skip["aepe", "all"] == zero["aepe", "all"] == 10.0
    else:
        name = ("pck", "alpha=0.1,per=pair,scale=image")
        assert (skip[name], zero[name]) == (1.0, pytest.approx(4 / 6))


@pytest.mark.parametrize("missing", ["skip", "zero"])
def test_score_with_missing_flow_says_how_many_pairs_enter_mean(missing: str, flows: Path) -> None:
    task = TASKS.load("dense/flow")
    whole = of_method("zero", "dense/flow", flows)
    opened = task.open(flows, {"missing": missing})
    first = opened.items[0].key
    features = Features(lambda key: PairResult({}).to_arrays() if key == first else whole(key))
    found = {
        (s.metric, s.group): " ".join(caution_notes(s.note))
        for s in task.score([opened.compare(u, features, "x") for u in opened.units], "exact")
    }
    said = "mean of 1 of 2 directed pairs"
    assert found["aepe", "all"] == said
    assert found["flow_accuracy", "all"] == (said if missing == "skip" else "")


def make_kit_pair(folder: Path, *, target_x: int) -> None:
    """A pair that does not move, with one keypoint that is at `target_x` (1-based) in image 2."""
    folder.mkdir(parents=True)
    for i, shape in ((1, (20, 30)), (2, (25, 35))):
        write_image(folder / f"image{i}.png", picture(*shape))
        mask = np.zeros(shape, np.uint8)
        mask[5:15, 8:20] = 255
        write_image(folder / f"mask{i}.png", mask)
        write_flow(folder / f"flow{i}.flo", np.where(np.dstack([mask, mask]) > 0, 0.0, 1e10))
    (folder / "corr.txt").write_text(f"{11 / 30}\t{11 / 20}\t{target_x / 35}\t{11 / 25}\n")


def test_tss_layout_serves_both_tasks(tmp_path: Path) -> None:
    make_kit_pair(tmp_path / "S" / "p", target_x=11)
    pairs = find_pairs(tmp_path)
    assert [p.key for p in pairs] == ["S/p:1to2", "S/p:2to1"]
    assert pairs[0].box is not None
    assert pairs[0].box() == (8, 5, 20, 15)
    found = run("dense/pck", tmp_path, of_method("zero", "dense/pck", tmp_path), scale="box")
    assert found["pck", "all"] == 1.0
    assert run("dense/flow", tmp_path, of_method("zero", "dense/flow", tmp_path))["aepe", "all"] == 0.0


def test_options_and_folders(flows: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="thresholds_px"):
        TASKS.load("dense/flow").open(flows, {"threshold_px": 3})
    with pytest.raises(InputError, match="positive numbers"):
        run("dense/flow", flows, of_method("zero", "dense/flow", flows), thresholds_px="0,1")
    with pytest.raises(InputError, match="no pair in"):
        TASKS.load("dense/pck").open(flows, {})
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="contains no pairs"):
        TASKS.load("dense/flow").open(tmp_path / "empty", {})
    with pytest.raises(UnknownNameError, match="kind"):
        TASKS.load("dense/flow").open(flows, {"kinds": "nowhere"})


def test_scene_values_give_the_scores(flows: Path) -> None:
    opened = TASKS.load("dense/flow").open(flows, {})
    arrays = of_method("zero", "dense/flow", flows)
    records = [opened.compare(u, Features(arrays), "x") for u in opened.units]
    for score in TASKS.load("dense/flow").score(records, "exact"):
        assert score.scenes is not None
        weights = score.scenes.weights
        assert weights is not None
        assert np.average(score.scenes.cells[0], weights=weights[0]) == pytest.approx(score.value)


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """Two pairs of subset S in the layout of the kit, with keypoints."""
    for k in (1, 2):
        make_kit_pair(tmp_path / "kit" / "S" / f"p{k}", target_x=14)
    return tmp_path / "kit"


def test_a_changed_mask_is_other_truth(kit: Path) -> None:
    """The box comes from the mask: the point is 3 px off, and the box of 12 px becomes one of 31 px."""
    task = TASKS.load("dense/pck")
    before = task.open(kit, {"scale": "box"})
    zero = of_method("zero", "dense/pck", kit)
    assert run("dense/pck", kit, zero, scale="box")["pck", "all"] == 0.0
    for k in (1, 2):
        for i, (h, w) in ((1, (20, 30)), (2, (25, 35))):
            mask = np.zeros((h, w), np.uint8)
            mask[2 : h - 2, 1 : w - 3] = 255
            write_image(kit / "S" / f"p{k}" / f"mask{i}.png", mask)
    assert run("dense/pck", kit, zero, scale="box")["pck", "all"] == 0.5
    after = task.open(kit, {"scale": "box"})
    assert before.data_hash != after.data_hash
    assert {u.definition for u in before.units}.isdisjoint({u.definition for u in after.units})


@pytest.mark.parametrize("task", ["dense/flow", "dense/pck"])
@pytest.mark.parametrize("broken", ["flow1.flo", "mask2.png", "image1.png", "image2.png"])
def test_broken_pairs_follow_missing(kit: Path, task: str, broken: str) -> None:
    file = kit / "S" / "p1" / broken
    if broken.endswith(".flo"):
        file.write_bytes(file.read_bytes()[:100])
    else:
        file.unlink()
    with pytest.raises(ProblemsError, match=broken):
        TASKS.load(task).open(kit, {})
    for missing in ("skip", "zero"):
        opened = TASKS.load(task).open(kit, {"missing": missing})
        assert [u.key for u in opened.units] == ["S/p2:1to2", "S/p2:2to1"]
        assert broken in opened.warnings[0]
    (kit / "S" / "p2" / "mask1.png").unlink()
    with pytest.raises(ProblemsError, match=r"no usable image pair"):
        TASKS.load(task).open(kit, {"missing": "skip"})


def test_a_pair_without_any_truth_is_broken_too(kit: Path) -> None:
    for name in ("flow1.flo", "flow2.flo", "mask1.png", "mask2.png"):
        (kit / "S" / "p1" / name).unlink()
    with pytest.raises(ProblemsError, match=r"S/p1: flow1\.flo is missing"):
        TASKS.load("dense/flow").open(kit, {})


@pytest.mark.parametrize("second", ["flow.npy", "image2.png"])
def test_a_flow_folder_with_two_of_a_kind_is_broken(flows: Path, second: str) -> None:
    """The first by name was the truth, or the image, without a word."""
    (flows / "x" / "one" / second).write_bytes(b"")
    broken: list[BrokenPair] = []
    find_pairs(flows, broken)
    assert [b.item for b in broken] == ["x/one"]
    assert second in broken[0].reason
    assert "remove one" in broken[0].reason


def test_a_flow_folder_that_lacks_an_image(flows: Path) -> None:
    (flows / "x" / "one" / "image1.png").unlink()
    with pytest.raises(ProblemsError, match="x/one: image1 is missing"):
        TASKS.load("dense/flow").open(flows, {})
    opened = TASKS.load("dense/flow").open(flows, {"missing": "skip"})
    assert [u.key for u in opened.units] == ["x/two:1to2"]


@pytest.mark.parametrize("size", [(1, 1), (20, 31), (21, 30)])
def test_true_flow_of_another_size(flows: Path, size: tuple[int, int]) -> None:
    (flows / "x" / "one" / "flow.png").unlink()
    write_flow(flows / "x" / "one" / "flow.flo", np.zeros((*size, 2), np.float32))
    arrays = of_method("zero", "dense/flow", flows)
    with pytest.raises(InputError, match=r"x/one.*the true flow is .*its image is \(20, 30\)"):
        run("dense/flow", flows, arrays)
    assert run("dense/flow", flows, arrays, missing="skip")["aepe", "all"] == 10.0
    opened = TASKS.load("dense/flow").open(flows, {"missing": "skip"})
    records = [opened.compare(u, Features(arrays), "x") for u in opened.units]
    words = TASKS.load("dense/flow").record_warnings(records)
    assert words[0].startswith(
        "1 of 2 directed pairs were excluded, because their ground truth cannot be used"
    )


def test_empty_mask_matters_only_for_the_box(kit: Path) -> None:
    write_image(kit / "S" / "p1" / "mask2.png", np.zeros((25, 35), np.uint8))
    arrays = of_method("zero", "dense/pck", kit)
    found = run("dense/pck", kit, arrays)
    assert found["pck", "alpha=0.1,per=pair,scale=image"] == 1.0
    assert ("pck", "alpha=0.1,per=pair,scale=box") not in found  # not all pairs have one
    with pytest.raises(InputError, match=r"mask2.png: the mask is empty"):
        run("dense/pck", kit, arrays, scale="box")
    assert run("dense/pck", kit, arrays, scale="box", missing="skip")["pck", "all"] == 0.0


def test_keypoint_files_of_different_length(willow: Path) -> None:
    from scipy.io import savemat

    savemat(willow / "car(S)" / "im1.mat", {"pts_coord": np.full((2, 7), 5.0)})
    arrays = of_method("zero", "dense/pck", willow)
    with pytest.raises(
        InputError, match=r"im1.mat: all files of a class must .* this file has 7, im0.mat has 4"
    ):
        run("dense/pck", willow, arrays)
    assert run("dense/pck", willow, arrays, missing="skip")["pck", "alpha=0.1,per=pair,scale=image"] == 1.0


def test_repeated_numbers_and_the_headline(flows: Path, willow: Path) -> None:
    arrays = of_method("zero", "dense/flow", flows)
    for task, data, options in (
        ("dense/flow", flows, {"thresholds_px": "2,2", "alphas": "0.1,0.1"}),
        ("dense/flow", flows, {"thresholds_px": 2}),
        ("dense/pck", willow, {"alphas": [0.05, 0.05]}),
    ):
        opened = TASKS.load(task).open(data, options)
        made = arrays if task == "dense/flow" else of_method("zero", task, data)
        records = [opened.compare(u, Features(made), "x") for u in opened.units]
        names = [(s.metric, s.group) for s in TASKS.load(task).score(records, "exact")]
        assert len(names) == len(set(names))
        assert ("flow_accuracy" if task == "dense/flow" else "pck", "all") in names
    with pytest.raises(InputError, match="expected numbers"):
        TASKS.load("dense/flow").open(flows, {"thresholds_px": "two"})


def test_nothing_left_is_said(flows: Path, willow: Path) -> None:
    """With every flow missing the scores are there and have no value."""
    for task, data in (("dense/flow", flows), ("dense/pck", willow)):
        found = run(task, data, lambda _: PairResult({}).to_arrays(), missing="skip")
        assert found
        assert all(np.isnan(v) for v in found.values())


def test_results_folder_is_checked(kit: Path, tmp_path: Path) -> None:
    task = TASKS.load("dense/flow")
    opened = task.open(kit, {"missing": "skip"})
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="no results for any of 2 pairs"):
        task.check_results(opened, tmp_path / "out")
    for name in ("p1", "p9"):
        (tmp_path / "out" / "S" / name).mkdir(parents=True)
    assert task.check_results(opened, tmp_path / "out") == [
        "no results folder: 1 of 2 pairs (S/p2)",
        "results folder S/p9 has no ground truth and is not scored",
    ]
