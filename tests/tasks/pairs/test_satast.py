# SPDX-License-Identifier: BSD-3-Clause
"""`satast/points`: recorded figures, orientations, re-encoding, and the two rules of RoMa v2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cross_world as world
from crossmodal_golden import golden, needs_golden
from tiepoint.core.errors import InputError
from tiepoint.core.records import Features, Records
from tiepoint.core.scores import Score
from tiepoint.metrics.error_curves import auc_exact, auc_trapezoid
from tiepoint.tasks import TASKS
from tiepoint.tasks.satast.compare import mapped_normalised, normalised

pytest.importorskip("poselib", reason="PoseLib estimates H under `exact` (tiepoint[pose])")
pytest.importorskip("cv2", reason="OpenCV estimates H under `romav2-homography` (tiepoint[opencv])")
TASK = TASKS.load("satast/points")


@pytest.fixture(scope="module")
def satast(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.write_satast(tmp_path_factory.mktemp("satast"))


def compared(
    data: Path, arrays: Callable[[Any], Any], comparison: str = "exact", **options: Any
) -> list[Records]:
    opened = TASK.open(data, options)
    features = Features(lambda key: arrays(opened.truth(key)))
    return [opened.compare(u, features, comparison) for u in opened.units]


def scores_of(records: list[Records], protocol: str = "exact") -> dict[tuple[str, str], Score]:
    return {(s.metric, s.group): s for s in TASK.score(records, protocol)}


@needs_golden
def test_errors_and_areas_equal_recorded() -> None:
    recorded = golden()["satast"]
    w0, h0, w1, h1 = recorded["sizes"]
    sizes = (w0, h0), (w1, h1)
    found = mapped_normalised(np.array(recorded["H_norm"]), np.array(recorded["src"]), sizes)
    errors = np.linalg.norm(found - recorded["dst"], axis=1)
    assert np.allclose(errors, recorded["errors"], rtol=1e-9)
    failed = np.concatenate([errors, np.full(3, np.inf)])
    for i, t in enumerate((5, 10, 20, 30)):
        wanted = recorded["auc_5_10_20_30 with 3 failed points"][i]
        assert auc_trapezoid(failed, t) == pytest.approx(wanted, rel=1e-9)
        assert auc_exact(failed, t) == pytest.approx(recorded["exact_area_5_10_20_30"][i], rel=1e-9)


@needs_golden
def test_threshold_of_romav2_is_an_ellipse_in_pixels() -> None:
    recorded = golden()["satast"]
    axes = recorded["threshold_px_in_image2 (half axes x, y of .001)"]
    w, h = recorded["sizes"][2:]
    for axis, step in zip(axes, np.eye(2), strict=True):
        moved = normalised(axis * step, (w, h)) - normalised(np.zeros(2), (w, h))
        assert np.linalg.norm(moved) == pytest.approx(0.001)


def answers_off(px: float) -> Callable[[Any], Any]:
    """Answers that are `px` right of the clicked points in every orientation."""
    return lambda truth: {"answers": truth.annotations["points1"] + [px, 0.0]}


def test_areas_are_means_over_pairs_and_orientations(satast: Path) -> None:
    records = compared(satast, answers_off(4.0))
    scores = scores_of(records)
    assert scores["auc", "all"].value == pytest.approx(0.6)
    for turn in (0, 90, 180, 270):
        assert scores["auc", f"tau_px=5,turn={turn}"].value == pytest.approx(0.2)
    assert scores["auc", "all"].scenes.scenes == ("images/q0.png", "images/q1.png")
    assert scores["auc", "all"].scenes.cells.shape == (4, 2)


def test_warp_pools_four_times_the_points(satast: Path) -> None:
    records = compared(satast, answers_off(4.0), "romav2-warp")
    scores = scores_of(records, "romav2-warp")
    assert scores["auc", "all"].n == 4 * 3 * 6
    assert scores["auc", "all"].value == pytest.approx(auc_trapezoid(np.full(72, 4.0), 10))


def test_point_at_edge_is_turned_back_without_shift(satast: Path) -> None:
    """A method that always finds the same place in the scene has the same errors in every orientation."""
    from tiepoint.datasets.image_pairs.planes import turn_matrix

    def same_place(truth: Any) -> Any:
        M, _ = turn_matrix(world.SIZE1, truth.pair.turns[1])
        return {"answers": world.mapped(np.tile([[7.0, 11.0]], (6, 1)), M)}

    for record in compared(satast, same_place):
        errors = np.asarray(record["error_px"]).reshape(4, -1)
        assert np.allclose(errors, errors[0], atol=1e-9)


def test_homography_protocol_uses_encoded_image_and_fails_with_infinite_errors(satast: Path) -> None:
    seen = []

    def given(truth: Any) -> Any:
        seen.append((truth.pair.name, truth.pair.jpeg))
        if truth.pair.name.startswith("p0"):
            return {"points0": np.zeros((2, 2)), "points1": np.zeros((2, 2))}
        return world.matches(noise=0.05)

    records = compared(satast, given, "romav2-homography")
    assert set(seen) == {(f"p{k}@jpeg", True) for k in range(3)}
    scores = scores_of(records, "romav2-homography")
    assert scores["unanswered", "all"].value == pytest.approx(1 / 3)
    assert 0.5 < scores["auc", "all"].value <= 2 / 3 + 1e-9
    assert scores["failures", "all"].value == 1


def test_encoded_image_differs_and_is_another_item(satast: Path) -> None:
    opened = TASK.open(satast, {})
    assert len(opened.items) == 3 * 5
    assert len({item.content for item in opened.items}) == 15
    plain, again = opened.read_item("p0"), opened.read_item("p0@jpeg")
    assert np.array_equal(plain.image0, again.image0)
    assert not np.array_equal(plain.image1, again.image1)
    assert opened.read_item("p0@90").image1.shape[:2] == plain.image1.shape[1::-1]


@pytest.mark.parametrize(("protocol", "option"), [("romav2-warp", "turned"), ("romav2-homography", "jpeg")])
def test_protocol_without_its_images_is_refused(protocol: str, option: str) -> None:
    with pytest.raises(InputError, match=f"remove {option}=no"):
        TASK.options.check_protocols(TASK.name, {option: "no"}, [protocol])


def test_transfer_by_homography_and_by_points_differ(satast: Path) -> None:
    def both(truth: Any) -> Any:
        M = np.eye(3)
        if truth.pair.turns[1]:
            from tiepoint.datasets.image_pairs.planes import turn_matrix

            M, _ = turn_matrix(world.SIZE1, truth.pair.turns[1])
        return {**answers_off(4.0)(truth), **world.matches(M @ world.H, noise=0.05)}

    auto = scores_of(compared(satast, both))["auc", "all"].value
    plane = scores_of(compared(satast, both, by="homography", seeds=2))["auc", "all"].value
    assert auto == pytest.approx(0.6)
    assert plane > 0.95


def test_steps_lead_from_both_protocols_to_exact(satast: Path) -> None:
    def given(truth: Any) -> Any:
        from tiepoint.datasets.image_pairs.planes import turn_matrix

        M, _ = turn_matrix(world.SIZE1, truth.pair.turns[1])
        return world.matches(M @ world.H)

    names = ("romav2-homography", "romav2-warp")
    wanted = TASK.intermediate_comparisons(["exact", *names])
    by = {c: compared(satast, given, c, seeds=2) for c in ("exact", *names, *wanted)}
    tables = TASK.convention_steps_between(by)
    exact = scores_of(by["exact"])
    assert len(tables) == 8
    for table, t in zip(tables, 2 * (5, 10, 20, 30), strict=True):
        name = table.subject.partition(" ")[0]
        assert table.steps[0][1] == scores_of(by[name], name)["auc", f"tau_px={t}"].value
        assert table.steps[-1][1] == pytest.approx(exact["auc", f"tau_px={t}"].value)
