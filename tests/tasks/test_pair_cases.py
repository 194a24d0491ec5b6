# SPDX-License-Identifier: BSD-3-Clause
"""Cases of the tasks on images: the score of each agrees with its matches, or its flow, made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keypoint_world
import numpy as np
import pytest
from pairs_world import noisy_matches, small_flow, write_pairs

from tiepoint.core.records import Features
from tiepoint.formats.flow.flo import write_flo
from tiepoint.formats.image.mask import write_mask
from tiepoint.formats.image.reader import write_image
from tiepoint.report.case_detail import dense_view
from tiepoint.tasks import TASKS
from tiepoint.tasks.keypoints.retrieval.score import query_aps

KEYPOINTS = ("ranking", "matching", "geometry", "images", "retrieval", "verification")
BY_SCENE = {"ranking": "true_map_micro", "geometry": "mma", "verification": "ap"}


@pytest.mark.parametrize("name", KEYPOINTS)
@pytest.mark.parametrize("style", ["real", "ties"])
def test_the_mean_of_keypoint_cases_is_the_score_of_the_scene(name: str, style: str, tmp_path: Path) -> None:
    task, root = TASKS.load(f"keypoints/{name}"), keypoint_world.make_scenes(tmp_path)
    options = {"tau_px": 9} if name in ("ranking", "matching", "retrieval", "verification") else {}
    scores, records = keypoint_world.run_task(
        task, root, lambda opened: keypoint_world.make_features(opened, style=style, fail=0.1), **options
    )
    for record in records:
        scene = record.meta["scene"]
        cases = task.cases(records, scene)
        true = scores[BY_SCENE.get(name, "map"), f"scene={scene}"].value
        if name == "images":  # which ranks all images at once: right before all others or not
            assert (cases.score.min() == 1) == (true == 1)
        elif name == "ranking":  # a mean over queries, of which images have different numbers
            counts = [p["answered"] for p in record.meta["pairs"]]
            assert np.nansum(cases.score * counts) / sum(counts) == pytest.approx(true)
        else:
            assert np.nanmean(cases.score) == pytest.approx(true)
        assert cases.label(0) == ("draw 1" if name in ("retrieval", "verification") else "image 2")
    assert task.cases(records, "nothing") is None


def test_first_neighbours_made_again_are_as_right_as_the_records_say(tmp_path: Path) -> None:
    task, root = TASKS.load("keypoints/matching"), keypoint_world.make_scenes(tmp_path)
    opened = task.open(root, {"tau_px": 9})
    features = keypoint_world.make_features(opened, style="real", fail=0.1)
    records = [opened.compare(unit, features, "exact") for unit in opened.units]
    found = 0
    for record in records:
        for number, pair in enumerate(record.meta["pairs"]):
            name = opened.case_pair(record.meta["scene"], pair["image"])
            made = opened.draw_matches(name, features)
            rows = (record["image"] == number) & np.isfinite(record["distance"])
            assert len(made) == rows.sum()
            assert (made.errors_px <= 9).sum() == record["right"][rows].sum()
            assert made.confidence.shape == (len(made),)
            assert ((made.confidence >= 0) & (made.confidence <= 1)).all()
            found += int((made.errors_px <= 9).sum())
            assert made.name == name == f"{record.meta['scene']}/1-{pair['image']}"
    assert found > 0
    assert opened.case_pair("i_one", "1") is None
    assert opened.case_pair("i_one", "99") is None
    assert not opened.drawable_pairs()


@pytest.mark.parametrize("name", ["retrieval", "verification"])
def test_the_worst_query_of_a_draw(name: str, tmp_path: Path) -> None:
    task, root = TASKS.load(f"keypoints/{name}"), keypoint_world.make_scenes(tmp_path)
    opened = task.open(root, {"tau_px": 9, "iterations": 2})
    features = keypoint_world.make_features(opened, style="real", fail=0.1)
    for unit in opened.units:
        record = opened.compare(unit, features, "exact")
        for iteration in np.unique(record["iteration"]).tolist():
            made = opened.replay_query(unit.key, str(iteration), features)
            rows = record["iteration"] == iteration
            for answer in (*made.chosen, *made.right):
                same = np.isclose(record["distance"][rows], answer.distance)
                assert (record["right"][rows][same] == answer.right).any()
            if name == "retrieval":
                values, rounds, _ = query_aps(record, "expected")
                assert made.score == pytest.approx(values[rounds == iteration].min())
            assert made.query.startswith(f"{unit.key}/1@")
            xy = np.array(made.query.partition("@")[2].split(","), float)
            places = features.arrays(f"{unit.key}/1")["keypoints"][:, :2]
            assert np.abs(places - xy).max(axis=1).min() <= 0.06
        assert opened.replay_query(unit.key, "0", None) is None
    whole = task.open(root, {"distractors": "every"}) if name == "retrieval" else None
    assert whole is None or whole.replay_query("i_one", "0", features) is None


def test_a_border_holds_for_the_matches_made_again(tmp_path: Path) -> None:
    task, root = TASKS.load("keypoints/matching"), keypoint_world.make_scenes(tmp_path)
    opened = task.open(root, {"border_px": 12})
    features = keypoint_world.make_features(opened, style="real", given=False)
    made = opened.draw_matches("v_two/1-2", features)
    assert len(made) > 0
    assert made.points0.min() >= 12
    record = opened.compare(next(u for u in opened.units if u.key == "v_two"), features, "exact")
    assert len(made) == (record["image"] == 0).sum()


@pytest.mark.parametrize("name", ["geometry", "images"])
def test_mutual_matches_made_again(name: str, tmp_path: Path) -> None:
    task, root = TASKS.load(f"keypoints/{name}"), keypoint_world.make_scenes(tmp_path)
    opened = task.open(root, {})
    features = keypoint_world.make_features(opened, style="real")
    records = [opened.compare(unit, features, "exact") for unit in opened.units]
    for record in records:
        cases = task.cases(records, record.meta["scene"])
        for i, key in enumerate(cases.keys.tolist()):
            made = opened.draw_matches(opened.case_pair(record.meta["scene"], key), features)
            if name == "geometry":
                assert (made.errors_px <= 3).mean() == pytest.approx(cases.score[i])
            else:
                at = record.meta["images"].index(f"{record.meta['scene']}/{key}")
                assert len(made) == record["score"][at]


PAIR_TASKS = {
    "wxbs/fundamental": noisy_matches,
    "wxbs/points": small_flow,
    "evd/homography": noisy_matches,
    "homography/pairs": noisy_matches,
    "mmim/homography": noisy_matches,
    "satast/points": small_flow,
    "semantic/pck": small_flow,
}


@pytest.mark.parametrize("name", list(PAIR_TASKS))
def test_pairs_of_a_scene(name: str, tmp_path: Path) -> None:
    pytest.importorskip("poselib", reason="PoseLib estimates F and H under `exact` (tiepoint[pose])")
    task, features = TASKS.load(name), Features(PAIR_TASKS[name])
    opened = task.open(write_pairs(tmp_path), {})
    records = [opened.compare(u, features, task.comparison("exact")) for u in opened.units]
    shares = dict(task.pair_accuracy(records))
    for pair, share in shares.items():
        scene = f"s{pair[1:]}"
        cases = task.cases(records, scene)
        assert cases.keys.tolist() == [pair]
        assert cases.score.tolist() == [pytest.approx(share)]
        made = opened.draw_matches(opened.case_pair(scene, pair), features)
        if name == "semantic/pck":
            assert (made.errors_px <= 0.1 * 40).mean() == pytest.approx(share)
        assert made.errors_px is not None
        assert made.images[0].shape == (50, 60, 3)
    assert len(shares) >= 3
    assert task.cases(records, "nothing") is None
    assert opened.case_pair("s0", "nothing") is None


def tss_data(root: Path) -> Path:
    """A pair of images of other sizes than one another, with flow on the upper half."""
    rng = np.random.default_rng(0)
    folder = root / "A" / "p1"
    folder.mkdir(parents=True)
    for i, (h, w) in enumerate(((24, 32), (30, 26)), 1):
        flow = np.full((h, w, 2), (1.0, 2.0), np.float32)
        flow[h // 2 :] = 1e10
        write_flo(folder / f"flow{i}.flo", flow)
        write_mask(folder / f"mask{i}.png", np.where(flow[..., 0] < 1e9, 255, 0).astype(np.uint8))
        write_image(folder / f"image{i}.png", rng.integers(0, 256, (h, w, 3)).astype(np.uint8))
    (folder / "flip_gt.txt").write_text("0")
    (folder / "pair.txt").write_text("Image1,Image2\na.jpg,b.jpg\n")
    return root


@pytest.mark.parametrize("scale", [1, 2])
def test_flows_of_tss_at_their_own_and_at_another_size(scale: int, tmp_path: Path) -> None:
    task = TASKS.load("tss")
    opened = task.open(tss_data(tmp_path), {})
    rng = np.random.default_rng(1)

    def arrays(_: str) -> dict[str, Any]:
        sizes = ((24, 32), (30, 26))
        return {
            f"flow{i}": (rng.normal(1.5, 1.5, (h // scale, w // scale, 2)) / scale).astype(np.float32)
            for i, (h, w) in enumerate(sizes, 1)
        }

    kept = arrays("")
    features = Features(lambda _: kept)
    records = [opened.compare(u, features, "exact") for u in opened.units]
    cases = task.cases(records, "A/p1")
    assert cases.keys.tolist() == ["1to2", "2to1"]
    assert cases.label(1) == "image 2 onto image 1"
    for key, score, source, target in zip(
        cases.keys, cases.score, ((24, 32), (30, 26)), ((30, 26), (24, 32)), strict=True
    ):
        view = dense_view(opened.replay_flow("A/p1", str(key), features))
        assert view.source.shape == view.flow.shape == view.warped.shape == view.error.shape == (*source, 3)
        assert view.target.shape == (*target, 3)
        known = view.errors_px[~np.isnan(view.errors_px)]
        assert (known <= 0.05 * max(target)).mean() == pytest.approx(score)
        assert np.isnan(view.errors_px[source[0] // 2 :]).all()
    bare = opened.replay_flow("A/p1", "1to2", None)
    assert bare.flow is None
    assert dense_view(bare) is None
    assert task.cases(records, "A/p2") is None


def test_dense_pairs_with_a_true_flow_or_points(tmp_path: Path) -> None:
    data = tss_data(tmp_path)
    (data / "A" / "p1" / "corr.txt").write_text("4 5 6 7\n20 8 20 12\n10 10 30 20\n")
    kept = {"flow1": np.full((24, 32, 2), 2.0, np.float32), "flow2": np.zeros((30, 26, 2), np.float32)}
    features = Features(lambda _: kept)
    for name in ("dense/flow", "dense/pck"):
        task = TASKS.load(name)
        opened = task.open(data, {})
        records = [opened.compare(u, features, "x") for u in opened.units]
        cases = task.cases(records, "A/p1")
        assert len(cases) == len(records)
        for key, score in zip(cases.keys.tolist(), cases.score, strict=True):
            view = dense_view(opened.replay_flow("A/p1", key, features))
            assert view.flow.shape[:2] == ((24, 32) if key.endswith("1to2") else (30, 26))
            if name == "dense/flow":
                known = view.errors_px[~np.isnan(view.errors_px)]
                assert (known <= 5).mean() == pytest.approx(score)
            else:
                record = next(r for r in records if r.meta["pair"] == key)
                errors = np.linalg.norm(view.estimated_points - view.true_points, axis=1)
                assert errors == pytest.approx(record["distance_px"])
                length = record.meta["lengths"][record.meta["scale"]]
                assert (errors <= 0.1 * length).mean() == pytest.approx(score)
        assert opened.replay_flow("A/p1", "nothing", features) is None
        assert task.cases(records, "nothing") is None
