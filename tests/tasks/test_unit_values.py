# SPDX-License-Identifier: BSD-3-Clause
"""Unit weights and values: their weighted sum is the score; scores of other forms are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hpatches_world
import keypoint_world
import numpy as np
import pairs_world
import pytest
import relative_world as pose
import tss_world

from less_golden import DATA
from tiepoint.core.records import Features, Records
from tiepoint.core.scores import Score
from tiepoint.formats.flow.reader import write_flow
from tiepoint.formats.image.reader import write_image
from tiepoint.tasks import TASKS
from tiepoint.tasks.capabilities import HasUnitValues
from tiepoint.tasks.pairs.data import PairsTask
from tiepoint.tasks.unit_values import NotRaceableError

MOST = 5
"""Scores of each metric to check; the first have the most different groups."""
World = tuple[Any, Any, dict[str, Records]]
"""Task, opened data, records by unit."""


def compared(task: str, data: Path, arrays: Callable[[str], Any], protocol: str, **options: Any) -> World:
    rule = TASKS.load(task)
    opened = rule.open(data, options)
    features = Features(arrays, None)
    comparison = rule.comparison(protocol)
    return rule, opened, {u.key: opened.compare(u, features, comparison) for u in opened.units}


def relative(tmp_path: Path, protocol: str) -> World:
    """Pairs of several scenes, some without a pose, one in both directions."""
    pairs = {}
    for k, (n, wrong) in enumerate(((200, 0), (200, 60), (80, 32), (12, 6), (3, 3))):
        given = pose.pair(f"p{k}", f"s{k % 3}", pose.motion(5.0 + 4 * k), image0=Path(f"{k}a"))
        pairs[f"p{k}"] = (given, pose.seen(given, n, 0.7 * k, wrong, seed=k))
    given = pose.pair("p0b", "s0", pose.motion(7.0), image0=Path("b.png"), image1=Path("0a"))
    pairs["p0b"] = (given, pose.seen(given, 60, 2.0, 20))
    data, _ = pose.write_world(tmp_path / "world", pairs)
    arrays = {n: {"points0": m.points0, "points1": m.points1} for n, (_, m) in pairs.items()}
    return compared("pose/relative", data, arrays.__getitem__, protocol)


def check(world: World, protocol: str, *, slack: float = 1e-12) -> int:
    """Compare the weighted sum with every score that can be raced. Return the number of these scores."""
    task, opened, records = world
    assert isinstance(task, HasUnitValues)
    scores: Sequence[Score] = task.score(list(records.values()), protocol)
    before = task.unit_facts(opened)
    after = task.record_facts(records)
    raced = 0
    tried: dict[str, int] = {}
    for score in scores:
        tried[score.metric] = tried.get(score.metric, 0) + 1
        if tried[score.metric] > MOST and protocol != "d2net":
            continue
        try:
            weights = task.unit_weights(before, protocol, score.metric, score.group)
        except NotRaceableError:
            continue
        raced += 1
        where = f"{score.metric} {score.group} {protocol}"
        assert task.unit_weights(after, protocol, score.metric, score.group) == weights, where
        assert sum(weights.weights.values()) == pytest.approx(1, abs=1e-12), where
        values = task.unit_values(records, protocol, score.metric, score.group)
        assert all(0 <= values[k] <= 1 for k in weights.weights), where
        mean = sum(w * values[k] for k, w in weights.weights.items())
        near = 1 / (2 * len(weights.weights)) + 5e-5 if weights.note else slack
        assert mean == pytest.approx(score.value, abs=near), where
        if weights.note:
            assert mean <= score.value + 1e-9 + 5e-5, where
    return raced


SOME = ("exact", "superglue", "loftr", "roma", "dad", "glue-factory", "zeb")
POSE_PROTOCOLS = [p for p in TASKS.load("pose/relative").protocols if p in SOME]


@pytest.mark.parametrize("protocol", POSE_PROTOCOLS)
def test_unit_values_relative_pose_sum_to_scores(tmp_path: Path, protocol: str) -> None:
    pytest.importorskip("poselib")
    world = relative(tmp_path, protocol)
    assert check(world, protocol) >= 5


@pytest.mark.parametrize("task", ["wxbs/fundamental", "wxbs/points", "evd/homography"])
@pytest.mark.parametrize("protocol", ["exact", "wxbs-benchmark"])
def test_unit_values_wide_baselines_sum_to_scores(tmp_path: Path, task: str, protocol: str) -> None:
    pytest.importorskip("poselib")
    data = pairs_world.write_pairs(tmp_path)
    arrays = pairs_world.small_flow if task == "wxbs/points" else pairs_world.noisy_matches
    rule, opened, _ = compared(task, data, arrays, protocol)
    features = {}
    for item in opened.items:
        features[item.key] = arrays(item.key)
    assert check(compared(task, data, features.__getitem__, protocol), protocol) >= 6
    assert isinstance(rule, PairsTask)


@pytest.mark.parametrize("task", ["homography/pairs", "mmim/homography", "satast/points"])
def test_unit_values_homographies_sum_to_scores(tmp_path: Path, task: str) -> None:
    pytest.importorskip("poselib")
    data = pairs_world.write_pairs(tmp_path)
    assert check(compared(task, data, pairs_world.noisy_matches, "exact"), "exact") >= 5


@pytest.mark.parametrize("protocol", ["exact", "hpf", "geoaware"])
def test_unit_values_semantic_sum_to_scores(tmp_path: Path, protocol: str) -> None:
    data = pairs_world.write_pairs(tmp_path)
    assert check(compared("semantic/pck", data, pairs_world.noisy_matches, protocol), protocol) >= 5


@pytest.mark.parametrize("protocol", ["exact", "loftr", "dad", "d2net"])
def test_unit_values_keypoint_geometry_sum_to_scores(tmp_path: Path, protocol: str) -> None:
    pytest.importorskip("cv2")
    task = TASKS.load("keypoints/geometry")
    root = keypoint_world.make_scenes(tmp_path)
    opened = task.open(root, {})
    made = keypoint_world.make_features(opened, style="real", count=60)
    records = {u.key: opened.compare(u, made, task.comparison(protocol)) for u in opened.units}
    assert check((task, opened, records), protocol) >= 4


@pytest.mark.parametrize("protocol", ["exact", "hpatches-python", "hpatches-matlab"])
def test_unit_values_hpatches_matching_sum_to_scores(tmp_path: Path, protocol: str) -> None:
    task = TASKS.load("hpatches/matching")
    world = hpatches_world.make_world(tmp_path)
    features = hpatches_world.features_of(hpatches_world.make_descriptors("ties"))
    opened, records = hpatches_world.run_task(task, world, features, sequences="all")
    by_unit = {u.key: r for u, r in zip(opened.units, records, strict=True)}
    assert check((task, opened, by_unit), protocol) >= 9


@pytest.mark.parametrize("task", ["dense/flow", "dense/pck"])
def test_unit_values_dense_sum_to_scores(tmp_path: Path, task: str) -> None:
    rng = np.random.default_rng(0)
    if task == "dense/flow":
        for k, name in enumerate(("x/one", "x/two", "y/three")):
            folder = tmp_path / name
            folder.mkdir(parents=True)
            truth = np.full((20, 30, 2), (2, k), np.float32)
            truth[: 2 + k] = 1e10
            for side in ("image1", "image2"):
                write_image(folder / f"{side}.png", rng.integers(0, 256, (20, 30, 3)).astype(np.uint8))
            write_flow(folder / "flow.png", truth)
    else:
        pytest.importorskip("scipy")
        from scipy.io import savemat

        folder = tmp_path / "car(S)"
        folder.mkdir(parents=True)
        for k in range(3):
            write_image(folder / f"im{k}.png", rng.integers(0, 256, (50, 60, 3)).astype(np.uint8))
            points = rng.uniform(5, 45, (10, 2))
            savemat(folder / f"im{k}.mat", {"pts_coord": points.T})
    opened = TASKS.load(task).open(tmp_path, {})

    def arrays(key: str) -> Any:
        height, width = opened.sizes(key)[0]
        flow = rng.normal(1, 2, (height, width, 2)).astype(np.float32)
        return {"flow1": flow, "flow2": -flow}

    made = {item.key: arrays(item.key) for item in opened.items}
    assert check(compared(task, tmp_path, made.__getitem__, "exact"), "exact") >= 4


@pytest.mark.skipif(not (DATA / "tss").is_dir(), reason=f"no TSS sample at {DATA / 'tss'}")
@pytest.mark.parametrize("protocol", ["exact", "tss-cpp"])
def test_unit_values_tss_sum_to_scores(protocol: str) -> None:
    records, _ = tss_world.score_results(
        DATA / "tss" / "Results", DATA / "tss" / "Dataset", protocol, {"missing": "zero"}
    )
    task = TASKS.load("tss")
    opened = task.open(DATA / "tss" / "Dataset", {"missing": "zero"})
    by_unit = {f"{r.meta['subset']}/{r.meta['pair']}": r for r in records}
    assert check((task, opened, by_unit), protocol) >= 6


@pytest.mark.parametrize(
    ("task", "metric", "group", "protocol", "said"),
    [
        ("pose/relative", "rotation_error_deg", "all", "exact", "median"),
        ("pose/relative", "auc_seed_sd", "all", "exact", "spread over seeds"),
        ("pose/relative", "matches", "all", "exact", "not bounded"),
        ("pose/relative", "auc", "rotation_deg=0-15,threshold_deg=5", "exact", "depend on rotation_deg"),
        ("evd/homography", "median_error_px", "all", "exact", "median"),
        ("wxbs/points", "unanswered", "all", "exact", "pools"),
        ("homography/pairs", "corner_px", "all", "exact", "median"),
        ("mmim/homography", "auc", "all", "minima", "sorted errors"),
        ("satast/points", "auc", "all", "romav2-warp", "pools the points"),
        ("dense/flow", "aepe", "all", "exact", "errors in px are not bounded"),
        ("dense/flow", "flow_accuracy", "per=pixel", "exact", "depend on per"),
        ("keypoints/geometry", "repeatability", "all", "exact", "depends on the method"),
        ("keypoints/geometry", "mma", "all", "d2net", "mma_of_pairs"),
    ],
)
def test_unit_weights_refused_scores_state_reason(
    task: str, metric: str, group: str, protocol: str, said: str
) -> None:
    from tiepoint.tasks.unit_values import UnitFacts

    with pytest.raises(NotRaceableError, match=said):
        TASKS.load(task).unit_weights({"a": UnitFacts("s")}, protocol, metric, group)


def test_unit_weights_pose_threshold_chosen_on_results_is_refused() -> None:
    from tiepoint.tasks.unit_values import UnitFacts

    with pytest.raises(NotRaceableError, match="chooses the threshold"):
        TASKS.load("pose/relative").unit_weights({"a": UnitFacts("s", "scannet")}, "xfeat", "auc", "all")


def test_unit_values_imported_hpatches_results_sum_to_scores() -> None:
    task = TASKS.load("hpatches/matching")
    rng = np.random.default_rng(0)
    scenes = [f"{kind}_s{k}" for k in range(6) for kind in ("v", "i")][:-1]
    cells = [(s, z) for s in range(len(scenes)) for z in range(3) for _ in range(5)]
    record = Records(
        "rank",
        {
            "scene": np.array([s for s, _ in cells]),
            "noise": np.array([z for _, z in cells]),
            "image": np.arange(len(cells)) % 5,
            "map": rng.random(len(cells)),
        },
        {
            "form": "ap",
            "protocol": "hpatches-python",
            "scenes": scenes,
            "kinds": [s[0] for s in scenes],
            "noises": ["easy", "hard", "tough"],
        },
    )
    records = {"all": record}
    facts = task.record_facts(records)
    assert sorted(facts) == sorted(scenes)
    for score in task.score([record], "hpatches-python"):
        if score.group.startswith("scene="):
            continue
        weights = task.unit_weights(facts, "hpatches-python", score.metric, score.group).weights
        values = task.unit_values(records, "hpatches-python", score.metric, score.group)
        mean = sum(w * values[k] for k, w in weights.items())
        assert mean == pytest.approx(score.value, abs=1e-12), score.group
