# SPDX-License-Identifier: BSD-3-Clause
"""`mmim/homography`: category means, one unit per slice, the figures of MINIMA, steps between protocols."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cross_world as world
from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.core.records import Features, Records
from tiepoint.core.scores import Score
from tiepoint.tasks import TASKS
from tiepoint.tasks.mmim.steps import ARROW

pytest.importorskip("poselib", reason="PoseLib estimates H under `exact` (tiepoint[pose])")
pytest.importorskip("cv2", reason="OpenCV estimates H under `minima` (tiepoint[opencv])")
TASK = TASKS.load("mmim/homography")
Scores = dict[tuple[str, str], Score]


@pytest.fixture(scope="module")
def mmim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.write_mmim(tmp_path_factory.mktemp("mmim"), {"RemoteSensing/CrossSeason": 6.0})


def records_of(data: Path, arrays: Callable[[str], Any], comparison: str, **options: Any) -> list[Records]:
    opened = TASK.open(data, options)
    return [opened.compare(u, Features(arrays), comparison) for u in opened.units]


def scores_of(data: Path, arrays: Callable[[str], Any], protocol: str = "exact", **options: Any) -> Scores:
    records = records_of(data, arrays, protocol, **options)
    return {(s.metric, s.group): s for s in TASK.score(records, protocol)}


def shifted(name: str) -> dict[str, Any]:
    """The true homography, off by another number of pixels in every pair."""
    off = 1.0 + sum(map(ord, name)) % 7
    return {"H": np.array([[1, 0, off], [0, 1, 0], [0, 0, 1]]) @ world.H}


def test_headline_is_mean_over_categories(mmim: Path) -> None:
    scores = scores_of(mmim, shifted)
    areas = defaultdict(list)
    for folder, names in world.NAMES.items():
        category = "/".join(folder.split("/")[:2])
        for name in names:
            error = 1.0 + sum(map(ord, f"{folder}/{name}")) % 7
            areas[category].append(max(0.0, 1 - error / 10))
    means = {category: sum(values) / len(values) for category, values in areas.items()}
    assert scores["auc", "all"].value == pytest.approx(sum(means.values()) / len(means), abs=1e-9)
    for category, value in means.items():
        assert scores["auc", f"category={category}"].value == pytest.approx(value, abs=1e-9)
    medical = [value for category, value in means.items() if category.startswith("Medical/")]
    assert scores["auc", "modality=Medical"].value == pytest.approx(sum(medical) / 4, abs=1e-9)


def test_slices_of_one_number_are_one_unit_of_resampling(mmim: Path) -> None:
    scenes = scores_of(mmim, shifted)["auc", "all"].scenes
    assert scenes is not None
    assert sum("PD_T1_T2" in name for name in scenes.scenes) == 2  # not 6
    assert len(scenes.scenes) == 2 + sum(
        len(v) for k, v in world.NAMES.items() if "T1" not in k and "T2" not in k
    )
    medical = scores_of(mmim, shifted)["auc", "modality=Medical"]
    assert medical.scenes is not None
    assert medical.scenes.cells.shape == (4, 4)


def test_floor_of_a_category_brackets_its_thresholds(mmim: Path) -> None:
    scores = scores_of(mmim, shifted)
    season = "category=RemoteSensing/CrossSeason"
    assert scores["floor_px", season].value == pytest.approx(6)
    assert "below the residual" in str(scores["auc", f"{season},tau_px=3"].note)
    assert "below the residual" not in str(scores["auc", f"{season},tau_px=10"].note)
    assert scores["landmark_px", "category=Medical/Retina"].value > 0
    assert "3 px in 2, 5 px in 2 of 14 pairs" in TASK.open(mmim, {}).warnings[-1]


def test_minima_gives_categories_and_float32_means(mmim: Path) -> None:
    scores = scores_of(mmim, shifted, "minima")
    categories = [g for m, g in scores if m == "auc" and g.startswith("category=") and "tau_px" not in g]
    assert "category=ComputerVision/CrossSeason" not in categories
    medical = [scores["auc", g].value for g in categories if "Medical" in g]
    assert scores["auc", "modality=Medical"].value == float(np.mean(np.array(medical, np.float32)))
    assert scores["auc", "all"].note is not None
    errors = [1.0 + sum(map(ord, f"Medical/Retina/Retina_{k}")) % 7 for k in (1, 2)]
    low, high = sorted(errors)
    area = low * 0.25 + (high - low) * 0.75 + (15 - high)  # trapezoids through (low, 1/2) and (high, 1)
    assert scores["auc", "category=Medical/Retina,tau_px=15"].value == pytest.approx(area / 15, abs=1e-5)
    assert scores["finite_mean_px", "category=Medical/Retina"].value == pytest.approx(
        np.mean(errors), abs=1e-4
    )


def test_half_turn_has_small_error_under_minima_alone(mmim: Path) -> None:
    given = lambda name: {"H": world.H}  # noqa: E731
    minima = scores_of(mmim, given, "minima", turn=180, categories="Medical")
    exact = scores_of(mmim, given, turn=180, categories="Medical")
    assert minima["auc", "modality=Medical"].value > 0.5  # the upright answer, entirely wrong
    assert exact["auc", "all"].value == 0


def test_nan_error_stays_in_the_list_under_minima_and_fails_under_exact(mmim: Path) -> None:
    w = world.SIZE0[0]
    corner = np.array([[1.0, 0, 0], [0, 1, 0], [-1 / (w - 1), 0, 1]])  # one corner at infinity
    given = lambda name: {"H": corner if name.endswith("Retina_1") else world.H}  # noqa: E731
    minima = scores_of(mmim, given, "minima", categories="Medical/Retina")
    exact = scores_of(mmim, given, categories="Medical/Retina")
    assert minima["auc", "category=Medical/Retina"].value == 0  # NaN first: one of two is right
    swapped = lambda name: given(name[:-1] + ("2" if name[-1] == "1" else "1"))  # noqa: E731
    last = scores_of(mmim, swapped, "minima", categories="Medical/Retina")
    assert last["auc", "category=Medical/Retina"].value == pytest.approx(0.5)
    assert minima["failures", "all"].value == 0
    assert exact["auc", "category=Medical/Retina"].value == pytest.approx(0.5)
    assert exact["failures", "all"].value == 1


def test_matching_accuracy_of_minima_is_pooled_and_per_pair(mmim: Path) -> None:
    few = {"points0": np.zeros((3, 2)), "points1": np.zeros((3, 2))}
    sizes = {"Retina_1": 40, "Retina_2": 3}
    given = lambda name: world.matches(count=40) if name.endswith("_1") else few  # noqa: E731
    scores = scores_of(mmim, given, "minima", categories="Medical/Retina")
    found = world.matches(count=40)
    near = np.linalg.norm(world.mapped(found["points0"]) - found["points1"], axis=1) <= 3
    group = "category=Medical/Retina,per={},tau_px=3"
    assert scores["mma", group.format("pair")].value == pytest.approx(near.mean() / 2)
    assert scores["mma", group.format("match")].value == pytest.approx(near.sum() / sum(sizes.values()))


def test_estimators_find_the_plane_and_steps_lead_to_exact(mmim: Path) -> None:
    given = lambda name: world.matches(seed=sum(map(ord, name)))  # noqa: E731
    by = {c: records_of(mmim, given, c, seeds=2) for c in ("exact", "minima", ARROW)}
    tables = TASK.convention_steps_between(by)
    exact = {(s.metric, s.group): s.value for s in TASK.score(by["exact"], "exact")}
    minima = {(s.metric, s.group): s.value for s in TASK.score(by["minima"], "minima")}
    assert exact["auc", "all"] > 0.9
    for table, t in zip(tables, (3, 5, 10, 20), strict=True):
        assert table.steps[0][1] == minima["auc", f"tau_px={t}"]
        assert table.steps[-1] == ("categories: all", pytest.approx(exact["auc", f"tau_px={t}"]))
    assert TASK.intermediate_comparisons(["exact", "minima"]) == (ARROW,)
    assert TASK.intermediate_comparisons(["exact"]) == ()


@pytest.mark.parametrize("name", ["minima-depth", "minima-event", "cima"])
def test_truth_that_depends_on_the_path_is_not_offered(mmim: Path, name: str) -> None:
    with pytest.raises(UnknownNameError, match="Known: minima, exact"):
        TASK.comparison(name)
    assert f"{name}/homography" not in TASKS


def test_unknown_category_and_other_data_are_refused(mmim: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Medical/Retina"):
        TASK.open(mmim, {"categories": "Medical/Retinas"})
    with pytest.raises(InputError, match="use homography/pairs"):
        TASK.open(world.write_planes(tmp_path), {})


def test_reports_have_no_pictures_of_the_dataset() -> None:
    from types import SimpleNamespace

    from tiepoint.report.html_page import _pictures

    assert _pictures(SimpleNamespace(definition=TASK)) is None  # type: ignore[arg-type]
