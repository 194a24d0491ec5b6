# SPDX-License-Identifier: BSD-3-Clause
"""`homography/pairs`: scores against plain loops, failures, turns, canaries."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cross_world as world
import tiepoint as tp
from tiepoint.core.errors import InputError, ProblemsError
from tiepoint.core.records import Features, Records
from tiepoint.core.scores import Score
from tiepoint.tasks import TASKS

pytest.importorskip("poselib", reason="PoseLib estimates H under `exact` (tiepoint[pose])")
TASK = TASKS.load("homography/pairs")
NONE = np.full((3, 3), np.nan)


def scored(
    data: Path, arrays: Mapping[str, Any] | Any, **options: Any
) -> tuple[dict[Any, Score], list[Records]]:
    opened = TASK.open(data, options)
    read = arrays if callable(arrays) else arrays.__getitem__
    records = [opened.compare(u, Features(read), "exact") for u in opened.units]
    return {(s.metric, s.group): s for s in TASK.score(records, "exact")}, records


def test_areas_equal_plain_loops(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    given = {
        f"p{k}": {"H": -2 * (world.H + np.diag([4 * rng.normal(), 0, 0])[:, [1, 2, 0]])} for k in range(4)
    }
    given["p3"] = {"H": NONE}
    scores, _ = scored(world.write_planes(tmp_path), given)
    w, h = world.SIZE0
    for t in (1, 3, 5, 10):
        total = 0.0
        for k in range(3):
            estimate, error = given[f"p{k}"]["H"], 0.0
            for x, y in ((0, 0), (w - 1, 0), (0, h - 1), (w - 1, h - 1)):
                a, b = (world.mapped(np.array([[x, y]]), m)[0] for m in (estimate, world.H))
                error += math.dist(a, b) / 4
            total += max(0.0, 1 - error / t)
        assert scores["auc", f"tau_px={t}"].value == pytest.approx(total / 4)
    assert scores["auc", "all"].value == scores["auc", "tau_px=3"].value
    assert scores["without_model", "all"].value == 0.25
    assert scores["failures", "all"].value == 1
    assert scores["auc", "all"].scenes.scenes == ("f0", "f1")


def test_matching_accuracy_counts_pairs_without_matches_as_zero(tmp_path: Path) -> None:
    empty = {"points0": np.zeros((0, 2)), "points1": np.zeros((0, 2))}
    given = {f"p{k}": world.matches(seed=k) if k else empty for k in range(4)}
    scores, _ = scored(world.write_planes(tmp_path), given, seeds=2)
    for t in (1, 3, 5):
        shares = [0.0]
        for k in (1, 2, 3):
            found = given[f"p{k}"]
            near = [
                math.dist(a, b) <= t
                for a, b in zip(world.mapped(found["points0"]), found["points1"], strict=True)
            ]
            shares.append(sum(near) / len(near))
        assert scores["mma", f"tau_px={t}"].value == pytest.approx(sum(shares) / 4)
    assert scores["auc", "all"].value > 0.5
    assert scores["auc_seed_min", "all"].value <= scores["auc", "all"].value
    assert scores["failures", "all"].value == 1


def test_landmark_pairs_have_landmark_scores_alone(tmp_path: Path) -> None:
    points, there = world.landmarks(0, off=2.0)
    marks = np.hstack([points, there]).tolist()
    data = world.write_planes(tmp_path, 1, H_0to1=None, landmarks=marks)
    scores, _ = scored(data, {"p0": {"H": world.H}})
    assert scores["landmark_px", "all"].value == pytest.approx(2)
    assert scores["landmark_auc", "tau_px=5"].value == pytest.approx(1 - 2 / 5)
    assert not {metric for metric, _ in scores} & {"auc", "corner_px", "mma", "floor_px"}


def test_threshold_below_floor_is_cautioned_and_bracketed(tmp_path: Path) -> None:
    from tiepoint.core.scores import ScoreRow
    from tiepoint.report.cells import terminal_cell
    from tiepoint.tasks.info import metric_info

    points, there = world.landmarks(0, off=4.0)
    data = world.write_planes(tmp_path, 1, landmarks=np.hstack([points, there]).tolist())
    assert "by more than 1 px in 1, 3 px in 1 of 1 pair" in TASK.open(data, {}).warnings[-1]
    scores, _ = scored(data, {"p0": {"H": world.H}})
    assert scores["floor_px", "pair=p0"].value == pytest.approx(4)
    for t, below in ((1, True), (3, True), (5, False), (10, False)):
        score = scores["auc", f"tau_px={t}"]
        row = ScoreRow("exact", "auc", score.group, score.value, 1, note=score.note)
        text = terminal_cell(metric_info(TASK.info, "auc"), row).marked
        assert text == ("(100.00) *" if below else "100.00")


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_turned_image_is_scored_with_turned_truth(tmp_path: Path, turn: int, mirror: bool) -> None:
    from tiepoint.datasets.image_pairs.planes import turn_matrix

    M, _ = turn_matrix(world.SIZE1, turn // 90, mirror=mirror)
    data = world.write_planes(tmp_path, 1)
    right, _ = scored(data, {"p0": {"H": M @ world.H}}, turn=str(turn), mirror=str(mirror))
    assert right["auc", "tau_px=1"].value == pytest.approx(1)
    upright, _ = scored(data, {"p0": {"H": world.H}}, turn=turn, mirror=mirror)
    assert (upright["auc", "all"].value > 0.99) == (turn == 0 and not mirror)


def test_turn_other_than_quarters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown value of turn '45'\. Known: 0, 180, 270, 90"):
        TASK.options.parse(TASK.name, {"turn": "45"})


def test_horizon_in_image_0_is_refused(tmp_path: Path) -> None:
    data = world.write_planes(tmp_path, H_0to1=[[1, 0, 0], [0, 1, 0], [-0.05, 0, 1]])
    with pytest.raises(ProblemsError, match="p0: the true homography has a horizon"):
        TASK.open(data, {})


@pytest.mark.slow
def test_canaries_and_oracle(tmp_path: Path) -> None:
    data = world.write_planes(tmp_path)
    for method, low, high in (("oracle", 0.999, 1), ("random", 0, 0.2), ("constant", 0, 0.01)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            run = tp.evaluate(method, task=TASK.name, data=str(data), store=tmp_path / "store")
        value = run.scores.set_index(["metric", "group"]).value["auc", "all"]
        assert low <= value <= high, method
