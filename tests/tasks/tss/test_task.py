# SPDX-License-Identifier: BSD-3-Clause
"""Task `tss` on pairs made on the spot: what is missing, options, groups, bad input."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tss_world import score_results

import tiepoint
from tiepoint.core import file_stamps
from tiepoint.core.errors import InputError, ProblemsError, UnknownNameError
from tiepoint.core.records import Item, Records
from tiepoint.core.scores import Score, caution_notes
from tiepoint.formats.flow.flo import write_flo
from tiepoint.formats.flow.tss import PairResult, format_scores, read_pair_result, write_pair_result
from tiepoint.formats.image.mask import write_mask
from tiepoint.methods.dense.files import DenseFiles
from tiepoint.tasks.dense.options import write_pair
from tiepoint.tasks.tss.results import subsets_without_results, tss_score_rows, write_subset_scores
from tiepoint.tasks.tss.task import TASK

PROTOCOLS = ("exact", "tss-cpp", "tss-matlab")


def make_pair(folder: Path, seed: int, *, flip: int = 0) -> dict[str, np.ndarray]:
    """Ground truth: two images of other sizes, smooth flow on a disc, unknown elsewhere."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    for i, (h, w) in enumerate(((24, 32), (30, 26)), 1):
        y, x = np.mgrid[:h, :w]
        disc = (x - w / 2) ** 2 + (y - h / 2) ** 2 < (0.4 * h) ** 2
        flow = rng.normal(0, 2, 2) + 0.05 * np.stack([x, y], axis=2)
        arrays[f"flow{i}"] = np.where(disc[..., None], flow, 1e10).astype(np.float32)
        arrays[f"mask{i}"] = np.where(disc, 255, 0).astype(np.uint8)
    folder.mkdir(parents=True)
    for i in (1, 2):
        write_flo(folder / f"flow{i}.flo", arrays[f"flow{i}"])
        write_mask(folder / f"mask{i}.png", arrays[f"mask{i}"])
        write_mask(folder / f"image{i}.png", rng.integers(0, 256, arrays[f"mask{i}"].shape).astype(np.uint8))
    (folder / "flip_gt.txt").write_text(str(flip))
    (folder / "pair.txt").write_text("Image1,Image2\na.jpg,b.jpg\n")
    return arrays


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Subset A with three pairs (one mirrored), subset B with one."""
    for k, (key, flip) in enumerate((("A/p1", 0), ("A/p2", 1), ("A/p3", 0), ("B/q1", 0))):
        make_pair(tmp_path / "data" / key, k, flip=flip)
    return tmp_path / "data"


@pytest.fixture
def results(data: Path, tmp_path: Path) -> Path:
    """Results: the truth moved by k pixels in pair k, masks with a stripe cut off."""
    out = tmp_path / "results"
    for k, key in enumerate(("A/p1", "A/p2", "A/p3", "B/q1")):
        arrays = dict(read_pair_result(data / key).arrays)
        for i in (1, 2):
            flow = arrays[f"flow{i}"].copy()
            flow[np.abs(flow) < 1e9] += k
            mask = arrays[f"mask{i}"].copy()
            mask[: 10 + k] = 0
            arrays[f"flow{i}"], arrays[f"mask{i}"] = flow, mask
        write_pair_result(out / key, arrays)
    return out


def table(scores: list[Score]) -> dict[tuple[str, str], float]:
    return {(s.metric, s.group): s.value for s in scores}


def scored(
    results: Path, data: Path, protocol: str = "exact", **options: object
) -> dict[tuple[str, str], float]:
    records, _ = score_results(results, data, protocol, options)
    return table(TASK.score(records, protocol))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_truth_as_result_is_perfect(data: Path, protocol: str) -> None:
    found = scored(data, data, protocol)
    for (metric, group), value in found.items():
        assert value == (0.0 if metric == "aepe" else 1.0), (metric, group)


def test_groups_and_weightings(results: Path, data: Path) -> None:
    found = scored(results, data)
    for metric in ("flow_accuracy", "iou", "pixel_accuracy", "aepe", "flow_auc"):
        a, b = found[metric, "subset=A"], found[metric, "subset=B"]
        assert found[metric, "all"] == pytest.approx((a + b) / 2)
        assert found[metric, "weighting=pairs"] == pytest.approx((3 * a + b) / 4)
    rows = [
        np.mean([found["iou", f"direction={d},pair=A/{p}"] for d in ("1to2", "2to1")]) for p in ("p1", "p3")
    ]
    assert found["iou", "flip=0,subset=A"] == pytest.approx(np.mean(rows))
    assert found["flow_accuracy", "all"] == found["flow_accuracy", "threshold=5"]
    curve = [found["flow_accuracy", f"threshold={t}"] for t in range(1, 51)]
    assert (np.diff(curve) >= 0).all()
    assert found["flow_auc", "all"] == pytest.approx(np.mean(curve))
    # the truth moved by (k, k): an error of k sqrt(2) in every pixel
    assert found["aepe", "subset=A"] == pytest.approx(np.mean([0, 1, 2]) * np.sqrt(2), abs=1e-5)


def test_target_image_gives_the_scale(data: Path, results: Path) -> None:
    """Pair q1 is off by 3 sqrt(2) = 4.24 px: right from 4.24/30 (1 to 2) and 4.24/32 (2 to 1) on."""
    records, _ = score_results(results, data)
    one = next(r for r in records if r.meta["pair"] == "q1")
    first = [int(np.argmax(row > 0)) + 1 for row in one["correct"]]
    assert first == [int(np.ceil(100 * 3 * np.sqrt(2) / n)) for n in (30, 32)]


def test_scene_values_give_the_score(results: Path, data: Path) -> None:
    records, _ = score_results(results, data)
    for score in TASK.score(records, "exact"):
        if score.scenes is not None:
            cells = [np.nanmean(row) for row in score.scenes.cells]
            assert np.mean(cells) == pytest.approx(score.value)
            assert len(score.scenes.scenes) == score.n


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_missing_flows(results: Path, data: Path, protocol: str) -> None:
    whole = scored(results, data, protocol)
    (results / "A" / "p1" / "flow2.flo").unlink()
    with pytest.raises(ProblemsError, match="A/p1: flow2 is missing"):
        scored(results, data, protocol, missing="error")
    one = scored(results, data, protocol, missing="skip")
    zero = scored(results, data, protocol)
    assert scored(results, data, protocol, missing="zero") == pytest.approx(zero, nan_ok=True, abs=0)
    (results / "A" / "p1" / "flow1.flo").unlink()
    none = scored(results, data, protocol, missing="skip")
    there, back = (("flow_accuracy", f"direction={d},pair=A/p1") for d in ("1to2", "2to1"))
    retained = whole[there] if protocol == "exact" else 0  # the kit drops both flows
    assert (one[there], zero[there], zero[back]) == (whole[there], retained, 0)
    assert np.isnan([one[back], none[there], none[back]]).all()
    rest = [
        whole["flow_accuracy", f"direction={d},pair=A/{p}"] for p in ("p2", "p3") for d in ("1to2", "2to1")
    ]
    assert one["flow_accuracy", "subset=A"] == pytest.approx((2 * one[there] + np.sum(rest)) / 6)
    assert none["flow_accuracy", "subset=A"] == pytest.approx(np.mean(rest))
    assert zero["flow_accuracy", "subset=A"] == pytest.approx((retained + np.sum(rest)) / 6)
    assert whole["iou", "all"] == one["iou", "all"] == none["iou", "all"] == zero["iou", "all"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_score_worst_flows_missing_does_not_raise_mean(results: Path, data: Path, protocol: str) -> None:
    whole = scored(results, data, protocol)
    for k in (1, 2):
        (results / "A" / "p3" / f"flow{k}.flo").unlink()
    found = scored(results, data, protocol)
    skip = scored(results, data, protocol, missing="skip")
    for group in ("all", "subset=A", "weighting=pairs"):
        assert found["flow_accuracy", group] <= whole["flow_accuracy", group] < skip["flow_accuracy", group]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_score_skip_says_how_many_flows_enter_mean(results: Path, data: Path, protocol: str) -> None:
    (results / "A" / "p1" / "flow2.flo").unlink()

    def notes(missing: str) -> dict[str, str]:
        records, _ = score_results(results, data, protocol, {"missing": missing})
        return {
            s.metric: " ".join(caution_notes(s.note))
            for s in TASK.score(records, protocol)
            if s.group == "all"
        }

    assert notes("skip")["flow_accuracy"] == notes("skip")["flow_auc"] == "mean of 7 of 8 flows"
    assert notes("skip")["iou"] == notes("zero")["iou"] == notes("zero")["flow_accuracy"] == ""
    (results / "A" / "p1" / "flow1.flo").unlink()
    assert notes("skip")["flow_accuracy"] == "mean of 3 of 4 pairs"
    shutil.rmtree(results / "A" / "p1")
    unseen = "mean of 3 of 4 pairs: the kit does not see a pair without a results folder"
    assert notes("zero")["flow_accuracy"] == notes("zero")["iou"] == ("" if protocol == "exact" else unseen)


def test_score_complement_missing_flow_counts_as_wrong(results: Path, data: Path) -> None:
    (results / "A" / "p1" / "flow2.flo").unlink()
    place = "flow_accuracy", "direction=2to1,pair=A/p1"
    assert scored(results, data, complement=True)[place] == 1


def test_a_pair_with_nothing_to_score(results: Path, data: Path) -> None:
    """One mask cannot be scored, and none estimated without both flows."""
    for name in ("flow1.flo", "flow2.flo", "mask2.png"):
        (results / "A" / "p1" / name).unlink()
    with pytest.raises(ProblemsError, match="A/p1: flow1 is missing"):
        scored(results, data, missing="error")
    assert scored(results, data)["iou", "direction=1to2,pair=A/p1"] == 0
    assert np.isnan(scored(results, data, missing="skip")["iou", "direction=1to2,pair=A/p1"])
    write_flo(results / "A" / "p1" / "flow2.flo", read_pair_result(data / "A" / "p1").arrays["flow2"])
    found = scored(results, data, missing="skip")
    assert found["flow_accuracy", "direction=2to1,pair=A/p1"] == 1
    assert np.isnan(found["iou", "direction=2to1,pair=A/p1"])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_flow_alone_is_resized_as_if_the_other_had_its_scale(
    results: Path, data: Path, protocol: str
) -> None:
    arrays = dict(read_pair_result(data / "B" / "q1").arrays)
    small = {"flow1": np.full((12, 16, 2), 0.5, np.float32), "flow2": np.zeros((15, 13, 2), np.float32)}
    folder = results / "B" / "q1"
    write_pair_result(folder, {**arrays, **small})
    both = scored(results, data, protocol)
    for k, direction in ((2, "1to2"), (1, "2to1")):
        write_pair_result(folder, {**arrays, **small})
        (folder / f"flow{k}.flo").unlink()
        place = "flow_accuracy", f"direction={direction},pair=B/q1"
        assert scored(results, data, protocol, missing="skip")[place] == both[place]


def test_a_pair_without_folder(results: Path, data: Path) -> None:
    shutil.rmtree(results / "A" / "p1")
    with pytest.raises(ProblemsError, match="A/p1: no results folder"):
        scored(results, data, missing="error")
    skip = scored(results, data, missing="skip")
    zero = scored(results, data, missing="zero")
    kit = scored(results, data, "tss-cpp", missing="zero")
    assert zero["iou", "subset=A"] == pytest.approx(skip["iou", "subset=A"] * 2 / 3)
    assert kit["iou", "subset=A"] == pytest.approx(skip["iou", "subset=A"])  # the kit never looks at it
    records, warnings = score_results(results, data, "tss-cpp", {"missing": "zero"})
    assert warnings == ["no results folder: 1 of 4 pairs (A/p1)"]
    assert TASK.record_warnings(records)[0] == warnings[0]  # said once, not twice
    assert [r.row for r in tss_score_rows(records, "tss-cpp")["A"]][:2] == ["p2_1to2", "p2_1to2"]
    assert tss_score_rows(records, "tss-matlab")["A"][1].row == "p2_2to1"


def test_masks_are_estimated_where_one_is_missing(results: Path, data: Path) -> None:
    (results / "B" / "q1" / "mask2.png").unlink()
    records, _ = score_results(results, data)
    one = next(r for r in records if r.meta["pair"] == "q1")
    assert one.meta["estimated_masks"]
    words = " ".join(TASK.record_warnings(records))
    assert "one mask without the other" in words
    assert "masks (not flow_accuracy) estimated from the consistency of the flows: 1 of 4 pairs" in words


def test_auto_flip_and_use_prec_have_an_effect(results: Path, data: Path) -> None:
    folder = results / "B" / "q1"
    for i in (1, 2):
        mask = read_pair_result(folder).arrays[f"mask{i}"]
        write_mask(folder / f"mask{i}.png", 255 - mask)
    plain, flipped = scored(results, data), scored(results, data, auto_flip=True)
    assert plain["iou", "subset=B"] < 0.3 < flipped["iou", "subset=B"]
    assert plain["iou", "subset=A"] == flipped["iou", "subset=A"]
    records, _ = score_results(results, data, "tss-cpp", {"use_prec": True})
    rows = tss_score_rows(records, "tss-cpp", use_prec=True)["B"]
    assert rows[0].seg == pytest.approx(1 - records[-1]["differing"][0] / records[-1]["pixels"][0])
    assert ("pixel_accuracy", "all") not in scored(results, data, "tss-matlab")


def test_use_prec_decides_the_flip(results: Path, data: Path) -> None:
    """Masks empty but for a corner: turned over they have the better IoU and the worse pixel accuracy."""
    folder = results / "B" / "q1"
    for i in (1, 2):
        mask = np.zeros_like(read_pair_result(folder).arrays[f"mask{i}"])
        mask[:2, :2] = 255
        write_mask(folder / f"mask{i}.png", mask)
    by_iou, _ = score_results(results, data, "tss-cpp", {"auto_flip": True})
    by_prec, _ = score_results(results, data, "tss-cpp", {"auto_flip": True, "use_prec": True})
    assert (by_iou[-1].meta["flipped"], by_prec[-1].meta["flipped"]) == (True, False)


def test_resized_results_are_close(results: Path, data: Path) -> None:
    """Results at half the size score nearly the same under `exact`, whatever the sizes of the two images."""
    from tiepoint.geometry.flow.resize import resize_flow_pair

    small = results.parent / "small"
    for key in ("A/p1", "A/p2", "A/p3", "B/q1"):
        arrays = dict(read_pair_result(data / key).arrays)
        smooth = [np.zeros((*arrays[f"flow{i}"].shape[:2], 2)) + 0.7 for i in (1, 2)]
        flow1, flow2 = resize_flow_pair(*smooth, (12, 16), (15, 13))
        write_pair_result(
            small / key, {"flow1": flow1, "flow2": flow2, "mask1": arrays["mask1"], "mask2": arrays["mask2"]}
        )
        write_pair_result(
            results / key,
            {"flow1": smooth[0], "flow2": smooth[1], **{k: arrays[k] for k in ("mask1", "mask2")}},
        )
    whole, part = scored(results, data), scored(small, data)
    assert part["aepe", "all"] == pytest.approx(whole["aepe", "all"], abs=1e-5)


def test_subsets_option(results: Path, data: Path) -> None:
    assert ("iou", "subset=A") not in scored(results, data, subsets="B")
    with pytest.raises(UnknownNameError, match="subset"):
        scored(results, data, subsets=["C"])


def test_one_subset_as_dataset(results: Path, data: Path) -> None:
    whole = scored(results, data)
    assert scored(results / "A", data / "A")["iou", "subset=A"] == whole["iou", "subset=A"]


def test_wrong_options_and_folders(results: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="auto_flip"):
        scored(results, data, autoflip=True)
    with pytest.raises(UnknownNameError, match="missing"):
        scored(results, data, missing="ignore")
    with pytest.raises(InputError, match="it does not exist"):
        scored(tmp_path / "nowhere", data)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no results for any of 4 pairs: the folder is empty"):
        scored(tmp_path / "empty", data)
    with pytest.raises(InputError, match="no results for any of 1 pair: the folder is empty"):
        DenseFiles(str(tmp_path / "empty")).check_items([Item("A/p1", "")])
    with pytest.raises(InputError, match="contains no pair"):
        scored(results, tmp_path / "empty")
    with pytest.raises(InputError, match="it does not exist"):
        scored(results, tmp_path / "nowhere")
    with pytest.raises(UnknownNameError, match="protocol"):
        TASK.comparison("tss")


def test_bad_ground_truth_is_listed_at_once(results: Path, data: Path) -> None:
    (data / "A" / "p1" / "mask1.png").unlink()
    write_flo(data / "A" / "p2" / "flow1.flo", np.zeros((3, 3, 2)))
    (data / "A" / "p3" / "flow2.flo").write_bytes(b"junk")
    with pytest.raises(ProblemsError) as caught:
        scored(results, data)
    words = str(caught.value)
    assert "A/p1: mask1.png is missing" in words
    assert "A/p2: flow1.flo is (3, 3), but mask1.png is (24, 32)" in words
    assert "flow2.flo" in words
    found = scored(results, data, missing="skip")
    assert ("iou", "subset=A") not in found


def test_extra_folder_is_named(results: Path, data: Path) -> None:
    shutil.copytree(results / "A" / "p1", results / "A" / "p9")
    _, warnings = score_results(results, data)
    assert warnings == ["results folder A/p9 has no ground truth and is not scored"]


def test_files_through_the_method_give_the_same(results: Path, data: Path) -> None:
    from tiepoint.core.records import Features
    from tiepoint.methods.resolve import resolve

    method = resolve(f"files:{results}", family="dense")
    opened = TASK.open(data, {})
    arrays = {i.key: method.extract(i, None) for i in opened.items}
    records = [opened.compare(u, Features(arrays.__getitem__), "exact") for u in opened.units]
    assert table(TASK.score(records, "exact")) == scored(results, data)
    keys = {method.key(i) for i in opened.items}
    assert len(keys) == 4
    assert None not in keys


def test_evaluate_flows_copied_with_their_times_change_score(
    results: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_stamps, "SETTLED_NS", 0)
    flow, other = results / "A" / "p1" / "flow1.flo", tmp_path / "other.flo"
    write_flo(other, read_pair_result(results / "A" / "p1").arrays["flow1"] + np.float32(9))
    for file in (flow, other):
        os.utime(file, ns=(10**18, 10**18))
    time.sleep(0.02)
    given: Any = {"task": "tss", "data": data, "store": tmp_path / "store", "jobs": 1}
    before = tiepoint.evaluate(f"files:{results}", **given)
    subprocess.run(["cp", "-p", other, flow], check=True)
    assert flow.stat().st_mtime_ns == 10**18
    assert tiepoint.evaluate(f"files:{results}", **given).rows() != before.rows()


def test_subset_scores_are_written(results: Path, data: Path, tmp_path: Path) -> None:
    records, _ = score_results(results, data, "tss-cpp")
    by_unit = {r.meta["scene"]: {"tss-cpp": r} for r in records}
    written = write_subset_scores(by_unit, tmp_path / "out", ["exact", "tss-cpp"])
    assert [p.relative_to(tmp_path / "out").as_posix() for p in written] == ["A/scores.csv", "B/scores.csv"]
    assert written[0].read_text().splitlines()[-2].startswith("Average,-,-,")


def test_nan_of_the_kit_is_printed_as_such(results: Path, data: Path) -> None:
    """A subset of mirrored pairs only has no row without flip."""
    (data / "B" / "q1" / "flip_gt.txt").write_text("1")
    records, _ = score_results(results, data, "tss-cpp")
    rows = tss_score_rows(records, "tss-cpp")["B"]
    assert format_scores(rows).splitlines()[-1].startswith("w/o flip,-,-,-nan,0,-nan,")
    for k in (1, 2):
        (results / "B" / "q1" / f"flow{k}.flo").unlink()
    records, _ = score_results(results, data, "tss-cpp", {"missing": "skip"})
    rows = tss_score_rows(records, "tss-cpp")["B"]
    assert format_scores(rows).splitlines()[-1] == "w/o flip,-,-,-nan,0" + "," * 50


def alone(results: Path, subset: str) -> Path:
    """The results of one subset, its pairs directly below the folder."""
    return Path(shutil.copytree(results / subset, results.parent / f"alone-{subset}"))


def test_results_of_one_subset_are_not_scored_as_another(results: Path, data: Path) -> None:
    shutil.copytree(data / "A" / "p1", data / "B" / "p1")
    own = alone(results, "A")
    for missing in ("error", "skip", "zero"):
        with pytest.raises(InputError, match="could belong to any of A, B"):
            scored(own, data, missing=missing)
    whole = scored(results, data, missing="skip")
    found = scored(own, data, subsets="A")
    assert found["iou", "subset=A"] == whole["iou", "subset=A"]
    assert ("iou", "subset=B") not in found
    shutil.copytree(own / "p1", results / "p1")  # beside folders of subsets that do have their own
    assert scored(results, data, missing="skip") == pytest.approx(whole, nan_ok=True)
    shutil.rmtree(results / "B")
    with pytest.raises(InputError, match="could belong to any of"):
        scored(results, data, missing="skip")


def test_files_method_refuses_an_unclear_subset(results: Path, data: Path) -> None:
    from tiepoint.methods.resolve import resolve

    shutil.copytree(data / "A" / "p1", data / "B" / "p1")
    method = resolve(f"files:{alone(results, 'A')}", family="dense")
    assert method.check is not None
    with pytest.raises(InputError, match="could belong to any of A, B"):
        method.check(TASK.open(data, {}).items)
    method.check(TASK.open(data, {"subsets": "A"}).items)


def test_extra_folder_of_a_subset_alone_is_named(results: Path, data: Path) -> None:
    own = alone(results, "A")
    (own / "p8").mkdir()
    _, warnings = score_results(own, data / "A")
    assert warnings == ["results folder p8 has no ground truth and is not scored"]
    (own / "p9").mkdir()
    _, warnings = score_results(own, data / "A")
    assert warnings == ["2 results folders have no ground truth and are not scored: p8, p9"]


def by_unit(records: list[Records], protocol: str) -> dict[str, dict[str, Records]]:
    return {r.meta["scene"]: {protocol: r} for r in records}


def test_scores_of_a_subset_alone_lie_beside_its_pairs(results: Path, data: Path) -> None:
    own = alone(results, "A")
    for _ in range(2):  # a second call finds the same
        records, _ = score_results(own, data / "A", "tss-cpp")
        assert write_subset_scores(by_unit(records, "tss-cpp"), own, ["tss-cpp"]) == [own / "scores.csv"]
    assert not (own / "A").exists()
    (own / "A").mkdir()
    (own / "A" / "scores.csv").touch()  # what an earlier version left there
    assert scored(own, data / "A")["iou", "subset=A"] > 0


@pytest.mark.parametrize("missing", ["skip", "zero"])
def test_no_scores_for_a_subset_without_results(results: Path, data: Path, missing: str) -> None:
    shutil.rmtree(results / "B")
    for protocol in PROTOCOLS:
        records, _ = score_results(results, data, protocol, {"missing": missing})
        units = by_unit(records, protocol)
        assert write_subset_scores(units, results, [protocol]) == [results / "A" / "scores.csv"]
        assert subsets_without_results(units) == ["B"]
    assert not (results / "B").exists()


def test_scores_that_cannot_be_written(results: Path, data: Path) -> None:
    records, _ = score_results(results, data, "tss-cpp")
    (results / "A" / "scores.csv").mkdir()
    with pytest.raises(InputError, match=r"cannot write .*scores.csv"):
        write_subset_scores(by_unit(records, "tss-cpp"), results, ["tss-cpp"])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_missing_rows_are_out_of_the_summary(results: Path, data: Path, protocol: str) -> None:
    for name in ("flow2.flo", "flow1.flo"):
        (results / "A" / "p1" / name).unlink()
        records, _ = score_results(results, data, protocol, {"missing": "skip"})
        rows = tss_score_rows(records, protocol)["A"]
        average, plain = rows[-2:]
        found = table(TASK.score(records, protocol))
        assert average.accuracy[4] == pytest.approx(found["flow_accuracy", "subset=A"])
        assert plain.accuracy[4] == pytest.approx(found["flow_accuracy", "flip=0,subset=A"])
        assert average.seg == pytest.approx(found["iou", "subset=A"])
        assert rows[1].accuracy == (None,) * 50
        assert format_scores(rows).splitlines()[2].endswith("," * 50)
    zero, _ = score_results(results, data, protocol, {"missing": "zero"})
    assert tss_score_rows(zero, protocol)["A"][-2].accuracy[4] == pytest.approx(average.accuracy[4] * 2 / 3)


@pytest.mark.parametrize("name", ["auto_flip", "use_prec"])
def test_words_for_on_and_off(data: Path, name: str) -> None:
    for value in ("False", "no", "OFF", "0", 0, False, "false"):
        assert TASK.open(data, {name: value}).options.model_dump()[name] is False, value
    for value in ("True", "yes", "On", "1", 1, True, "TRUE"):
        assert TASK.open(data, {name: value}).options.model_dump()[name] is True, value
    for value in ("maybe", "", 2, 0.5, []):
        with pytest.raises(InputError, match=f"{name} must be a Boolean"):
            TASK.open(data, {name: value})


def damage(path: Path) -> None:
    """Leave the header of a PNG and break its pixels."""
    raw = bytearray(path.read_bytes())
    at = raw.index(b"IDAT")
    raw[at + 6 : at + 12] = b"\xff" * 6
    path.write_bytes(bytes(raw))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_ground_truth_that_breaks_past_its_header(results: Path, data: Path, protocol: str) -> None:
    damage(data / "A" / "p1" / "mask1.png")
    with pytest.raises(InputError, match=r"mask1.png.*exclude this pair with `missing=\"skip\"` or "):
        scored(results, data, protocol)
    for missing in ("skip", "zero"):
        records, _ = score_results(results, data, protocol, {"missing": missing})
        found = table(TASK.score(records, protocol))
        rest = [found["iou", f"direction={d},pair=A/{p}"] for p in ("p2", "p3") for d in ("1to2", "2to1")]
        assert found["iou", "subset=A"] == pytest.approx(np.mean(rest))
        assert ("iou", "direction=1to2,pair=A/p1") not in found
        assert len(tss_score_rows(records, protocol)["A"]) == 6
        assert "ground truth cannot be used, pair left out: 1 of 4 pairs" in TASK.record_warnings(records)


def test_records_are_not_shared_between_names(data: Path) -> None:
    """The same pair under another subset's name is another unit: its records bear the name."""
    before = {u.key: u.definition for u in TASK.open(data / "B", {}).units}
    (data / "B").rename(data / "C")
    after = {u.key: u.definition for u in TASK.open(data / "C", {}).units}
    assert before["B/q1"] != after["C/q1"]


def test_many_problems_of_ground_truth_become_few_words(data: Path, results: Path) -> None:
    for k in range(12):
        (data / "A" / f"x{k}").mkdir()
        (data / "A" / f"x{k}" / "pair.txt").touch()
    warnings = TASK.open(data, {"missing": "skip"}).warnings
    assert len(warnings) == 6
    assert warnings[-1] == "and 43 more problems of ground truth"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_written_masks_are_those_the_task_scores(results: Path, data: Path, protocol: str) -> None:
    """A method without masks: what is written scores as what was estimated, whatever its flows' size."""
    opened = TASK.open(data, {})
    flows = {k: v for k, v in read_pair_result(results / "A" / "p2").arrays.items() if k.startswith("flow")}
    from tiepoint.tasks.tss.data import compare_result

    own = compare_result(opened.dataset["A/p2"], PairResult(flows), protocol, opened.options)
    assert own.meta["estimated_masks"]
    out = results.parent / "written"
    folder = write_pair(out, "A/p2", flows, sizes=opened.sizes("A/p2"), rule=protocol)
    written = read_pair_result(folder)
    assert sorted(written.arrays) == ["flow1", "flow2", "mask1", "mask2"]
    again = compare_result(opened.dataset["A/p2"], written, protocol, opened.options)
    for name in ("intersection", "union", "differing"):
        assert (again[name] == own[name]).all(), name


def test_masks_of_a_method_are_written_as_they_are(tmp_path: Path) -> None:
    mask = np.zeros((4, 5), np.uint8)
    arrays = {f"flow{i}": np.zeros((4, 5, 2), np.float32) for i in (1, 2)} | {"mask1": mask, "mask2": mask}
    folder = write_pair(tmp_path, "A/p", arrays, sizes=((4, 5), (4, 5)))
    assert not read_pair_result(folder).arrays["mask1"].any()
