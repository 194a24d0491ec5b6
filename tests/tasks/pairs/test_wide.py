# SPDX-License-Identifier: BSD-3-Clause
"""`wxbs/fundamental`, `wxbs/points` and `evd/homography`: recorded figures, traps, canaries."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import crossmodal_golden as crossmodal
import tiepoint as tp
from pose_golden import DATA, assert_close, golden, matches, needs_golden, same_versions
from tiepoint.core.errors import InputError
from tiepoint.core.records import Records
from tiepoint.formats.matches.native import write_matches
from tiepoint.geometry.two_view.estimator import estimator_library_versions
from tiepoint.geometry.two_view.homography_errors import visible_error, visible_error_float32
from tiepoint.geometry.two_view.linear_estimation import estimate_homography
from tiepoint.geometry.two_view.pose_estimation import estimate_fundamental
from tiepoint.tasks import TASKS
from tiepoint.tasks.evd.task import EXAMPLE, THRESHOLDS_PX
from tiepoint.tasks.wxbs.task import README

pytest.importorskip("poselib", reason="PoseLib estimates F and H under `exact` (tiepoint[pose])")
TOOL = "wxbs-benchmark"
WXBS, EVD = DATA / "wxbs" / "v1.1", DATA / "evd"
needs_wxbs = pytest.mark.skipif(not WXBS.is_dir(), reason=f"no WxBS pairs at {WXBS}")
needs_evd = pytest.mark.skipif(not EVD.is_dir(), reason=f"no EVD pairs at {EVD}")
Scores = dict[tuple[str, str], dict[str, Any]]


def run(method: Any, task: str, data: Path, store: Path, protocol: str = "exact", **options: Any) -> Scores:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        made = tp.evaluate(method, task=task, data=str(data), protocol=protocol, store=store, **options)
    assert set(made.scores.metric) <= set(TASKS.load(task).info.metrics)
    return {(s["metric"], s["group"]): s for s in made.scores.to_dict("records")}


def recall(scores: Scores, labels: Any = range(20)) -> list[float]:
    return [scores["recall", f"threshold_px={t}"]["value"] for t in labels]


def write(folder: Path, name: str, **arrays: Any) -> None:
    write_matches(folder, name, **arrays)


@needs_golden
@needs_wxbs
@pytest.mark.parametrize("split", ["test", "val"])
def test_recorded_recall_of_given_fundamental_matrices(tmp_path: Path, split: str) -> None:
    recorded = golden()["wide"][f"wxbs.evaluate_Fs {split}"]
    for name, v in recorded["pairs"].items():
        write(tmp_path / "F", name, F=np.array(v["F"]))
    given = f"files:{tmp_path / 'F'}"
    scores = run(given, "wxbs/fundamental", WXBS, tmp_path / "store", TOOL, split=split)
    assert_close(recall(scores), recorded["average"], 1e-7)
    assert scores["maa", "all"]["value"] == pytest.approx(np.mean(recorded["average"]), abs=1e-7)
    assert scores["maa", "all"]["n"] == len(recorded["pairs"])
    exact = run(given, "wxbs/fundamental", WXBS, tmp_path / "store", split=split)
    assert_close(recall(exact), recorded["average"], 1e-7)  # the same F: only the rounding differs
    for name, v in recorded["pairs"].items():
        assert_close(exact["maa", f"pair={name}"]["value"], np.mean(v["recall"]), 1e-7)


@needs_golden
@needs_wxbs
@pytest.mark.parametrize("split", ["test", "val"])
def test_recorded_share_of_carried_points(tmp_path: Path, split: str) -> None:
    recorded = golden()["wide"][f"wxbs.evaluate_corrs {split}"]
    answers = {}
    for name in recorded["pairs"]:
        corrs = np.loadtxt(WXBS / name / "corrs.txt")
        r = np.random.RandomState(len(corrs))
        answers[name] = (corrs[:, 2:] + r.normal(scale=5, size=(len(corrs), 2))).tolist()
        answers[f"{name}-back"] = (corrs[:, :2] + r.normal(scale=9, size=(len(corrs), 2))).tolist()
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "points.json").write_text(json.dumps(answers))
    given = f"files:{tmp_path / 'made'}"
    scores = run(given, "wxbs/points", WXBS, tmp_path / "store", TOOL, split=split)
    assert_close(recall(scores), recorded["average"], 1e-7)
    exact = run(given, "wxbs/points", WXBS, tmp_path / "store", split=split)
    for name, values in recorded["pairs"].items():
        assert_close(exact["maa", f"pair={name}"]["value"], np.mean(values), 1e-7)


@needs_golden
def test_recorded_errors_of_planes() -> None:
    recorded = golden()["wide"]["evd.evaluate_Hs"]
    errors = []
    for v in recorded["pairs"].values():
        sizes = tuple(v["shape1"][::-1]), tuple(v["shape2"][::-1])
        errors.append(visible_error_float32(v["H"], v["H_gt"], *sizes))
        assert_close(errors[-1], v["mean_error"], 1e-5)
    assert_close(THRESHOLDS_PX, recorded["thresholds"], 1e-12)
    share = (np.array(errors)[:, None] <= THRESHOLDS_PX).mean(axis=0)
    assert_close(share, recorded["average"], 1e-12)


@needs_golden
@needs_evd
def test_recorded_recall_of_given_homographies(tmp_path: Path) -> None:
    recorded = golden()["wide"]["evd.evaluate_Hs"]
    for name, v in recorded["pairs"].items():
        write(tmp_path / "H", name, H=np.array(v["H"]))
    scores = run(f"files:{tmp_path / 'H'}", "evd/homography", EVD, tmp_path / "store", TOOL)
    labels = [f"{t:.4g}" for t in THRESHOLDS_PX]
    assert_close(recall(scores, labels), recorded["average"], 1e-12)
    assert scores["maa", "all"]["value"] == pytest.approx(np.mean(recorded["average"]))


@needs_golden
def test_the_estimators_of_the_tool_give_the_recorded_matrices() -> None:
    if not same_versions(estimator_library_versions("cv2")):
        pytest.skip("another OpenCV draws other samples")
    found = matches("wide")
    wide = golden()["wide"]

    def points(name: str) -> tuple[Any, Any]:
        ending = f"{name.replace('/', '-')}.pts0"
        key = next(k.removesuffix(".pts0") for k in found if k.endswith(ending))
        return found[f"{key}.pts0"], found[f"{key}.pts1"]

    for name in ("WGBS/kn-church", "WGLBS/berlin"):
        F = estimate_fundamental(README, *points(name)).F
        assert_close(F, wide["wxbs.evaluate_Fs test"]["pairs"][name]["F"], 1e-9)
    for name in ("cat", "face", "girl", "mag", "shop", "vin"):  # those of the others were made from the truth
        H = estimate_homography(EXAMPLE, *points(name)).H
        assert_close(H, wide["evd.evaluate_Hs"]["pairs"][name]["H"], 1e-9)


# Data made here.

SIZE = (160, 120)
F_TRUE = np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # the same line y in both images


@pytest.fixture
def clicked(tmp_path: Path) -> Path:
    """Seven pairs of two categories, image 02 moved by (8, 0); one more without its first image."""
    root = tmp_path / "v1.1"
    rng = np.random.default_rng(0)
    for k in range(8):
        folder = root / ("WGABS" if k % 2 else "WGBS") / f"pair{k}"
        folder.mkdir(parents=True)
        image = rng.integers(0, 255, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
        for i, moved in (("01", image), ("02", np.roll(image, 8, axis=1))):
            if (k, i) != (7, "01"):
                Image.fromarray(moved).save(folder / f"{i}.png")
        x = rng.integers(5, 110, (12, 2)).astype(np.float64)
        np.savetxt(folder / "corrs.txt", np.hstack([x, x + np.array([8, 0])]))
    return root


class Move:
    name = "move"

    def __init__(self, by: tuple[float, float]) -> None:
        self.by = by

    def match_points(self, image1: Any, image2: Any, points: np.ndarray) -> np.ndarray:
        return points + self.by


def test_a_pair_without_its_first_image_is_left_out_and_counted(clicked: Path) -> None:
    """Trap: the published copy lacks an image, and the tool skips the pair silently."""
    opened = TASKS.load("wxbs/points").open(clicked, {})
    assert len(opened.pairs) == 7
    assert any("1 of 8 pairs lack an image and are skipped: WGABS/pair7 (01)" in w for w in opened.warnings)
    assert any("7 of the 32 pairs of WxBS test are used" in w for w in opened.warnings)
    assert opened.split == "test"
    with pytest.raises(InputError, match="no pair of the split 'val'"):
        TASKS.load("wxbs/points").open(clicked, {"split": "val"})


def test_points_are_carried_both_ways(clicked: Path, tmp_path: Path) -> None:
    scores = run(Move((8, 0)), "wxbs/points", clicked, tmp_path / "store")
    there, back = (np.arange(20) >= 0).mean(), (np.arange(20) >= 16).mean()  # back it is 16 px off
    assert scores["maa", "all"]["value"] == pytest.approx((there + back) / 2)
    assert scores["area", "all"]["value"] == pytest.approx((1 + 1 - 16 / 20) / 2)
    assert scores["maa", "category=WGABS"]["n"] == 3
    assert np.isnan(scores["maa", "all"]["low"])  # all pairs have the same value
    chance = scores["recall", "threshold_px=5"]["chance"]
    assert 0.002 < chance <= 1.001 * np.pi * 25 / (SIZE[0] * SIZE[1])
    tool = run(Move((8, 0)), "wxbs/points", clicked, tmp_path / "store", TOOL)
    assert ("area", "all") not in tool
    assert tool["maa", "all"]["value"] == pytest.approx((there + back) / 2)


@pytest.mark.parametrize("task", ["wxbs/points", "wxbs/fundamental"])
@pytest.mark.parametrize(
    ("method", "low", "high"), [("oracle", 0.9, 1.0), ("constant", 0.0, 0.3), ("random", 0.0, 0.4)]
)
def test_canaries_on_clicked_pairs(
    clicked: Path, tmp_path: Path, task: str, method: str, low: float, high: float
) -> None:
    few: dict[str, Any] = {"scenes": ("WGBS/pair0", "WGABS/pair1")}
    few |= {"seeds": 1} if task == "wxbs/fundamental" else {}
    value = run(method, task, clicked, tmp_path / "store", **few)["maa", "all"]["value"]
    assert low <= value <= high


def test_matches_from_files_serve_both_directions(clicked: Path, tmp_path: Path) -> None:
    for k in range(7):
        name = f"{'WGABS' if k % 2 else 'WGBS'}/pair{k}"
        corrs = np.loadtxt(clicked / name / "corrs.txt")
        write(tmp_path / "m", name, points0=corrs[:, :2], points1=corrs[:, 2:])
    scores = run(f"files:{tmp_path / 'm'}", "wxbs/points", clicked, tmp_path / "store")
    assert scores["maa", "all"]["value"] > 0.9
    assert scores["failures", "all"]["value"] == 0


def test_a_pair_without_a_model_counts_as_zero(clicked: Path, tmp_path: Path) -> None:
    for k in range(7):
        name = f"{'WGABS' if k % 2 else 'WGBS'}/pair{k}"
        write(tmp_path / "F", name, F=F_TRUE if k else np.full((3, 3), np.nan))
    for protocol in ("exact", TOOL):
        scores = run(f"files:{tmp_path / 'F'}", "wxbs/fundamental", clicked, tmp_path / "store", protocol)
        assert scores["maa", "all"]["value"] == pytest.approx(6 / 7 * (19 / 20 + 1 / 20), abs=0.06)
        assert scores["failures", "all"]["value"] == 1
        assert ("matches", "all") not in scores


@pytest.mark.slow
def test_seeds_have_a_spread_and_the_order_of_matches_does_not_count(clicked: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for k in range(7):
        name = f"{'WGABS' if k % 2 else 'WGBS'}/pair{k}"
        x0, x1 = rng.uniform(0, 110, (40, 2)), rng.uniform(0, 110, (40, 2))
        x1[:20] = x0[:20] + np.array([8, 0]) + rng.normal(0, 0.4, (20, 2))
        write(tmp_path / "a", name, points0=x0, points1=x1)
        order = rng.permutation(40)
        write(tmp_path / "b", name, points0=x0[order], points1=x1[order])
    one, two = (
        run(f"files:{tmp_path / d}", "wxbs/fundamental", clicked, tmp_path / "store") for d in ("a", "b")
    )
    assert one["maa", "all"]["value"] == two["maa", "all"]["value"]
    assert one["maa_seed_sd", "all"]["value"] > 0
    low, high = (one[f"maa_seed_{k}", "all"]["value"] for k in ("min", "max"))
    assert low <= one["maa", "all"]["value"] <= high


def test_f_of_another_shape_is_refused(clicked: Path, tmp_path: Path) -> None:
    for k in range(7):
        write(tmp_path / "F", f"{'WGABS' if k % 2 else 'WGBS'}/pair{k}", F=np.zeros((3, 4)))
    with pytest.raises(InputError, match=r"F has shape \(3, 4\), expected \(3, 3\)"):
        run(f"files:{tmp_path / 'F'}", "wxbs/fundamental", clicked, tmp_path / "store")


@pytest.fixture
def planes(tmp_path: Path) -> Path:
    """Six planes under known homographies."""
    root = tmp_path / "EVD"
    for side in "12h":
        (root / side).mkdir(parents=True)
    rng = np.random.default_rng(3)
    for k in range(6):
        for side in "12":
            image = rng.integers(0, 255, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
            Image.fromarray(image).save(root / side / f"plane{k}.png")
        H = np.array([[0.9, 0.02 * k, 5], [0.01, 0.95, 3], [1e-4, 0, 1]])
        np.savetxt(root / "h" / f"plane{k}.txt", H)
    return root


@pytest.mark.parametrize("protocol", ["exact", TOOL])
def test_planes_by_an_oracle_and_by_chance(planes: Path, tmp_path: Path, protocol: str) -> None:
    oracle = run("oracle", "evd/homography", planes, tmp_path / "store", protocol)
    assert oracle["maa", "all"]["value"] == 1
    assert oracle["median_error_px", "all"]["value"] < 1e-3
    blind = run("random", "evd/homography", planes, tmp_path / "store", protocol)
    assert blind["maa", "all"]["value"] < 0.2


def test_no_homography_is_never_recalled_and_the_identity_for_the_tool(planes: Path, tmp_path: Path) -> None:
    for path in (planes / "h").iterdir():
        np.savetxt(path, np.array([[1.0, 0, 3], [0, 1, 0], [0, 0, 1]]))
        write(tmp_path / "H", path.stem, H=np.full((3, 3), np.nan))
    given = f"files:{tmp_path / 'H'}"
    exact = run(given, "evd/homography", planes, tmp_path / "store")
    tool = run(given, "evd/homography", planes, tmp_path / "store", TOOL)
    assert exact["maa", "all"]["value"] == 0
    assert tool["maa", "all"]["value"] == pytest.approx((THRESHOLDS_PX >= 3).mean())  # 3 px off
    assert exact["failures", "all"]["value"] == tool["failures", "all"]["value"] == 6


def test_the_area_is_over_the_logarithm_of_the_error(planes: Path, tmp_path: Path) -> None:
    for path in (planes / "h").iterdir():
        H = np.loadtxt(path)
        shift = np.array([[1.0, 0, 20**0.5], [0, 1, 0], [0, 0, 1]])
        write(tmp_path / "H", path.stem, H=shift @ H)
    scores = run(f"files:{tmp_path / 'H'}", "evd/homography", planes, tmp_path / "store")
    assert scores["area", "all"]["value"] == pytest.approx(0.5, abs=1e-9)
    assert scores["median_error_px", "all"]["value"] == pytest.approx(20**0.5)


def test_a_homography_to_infinity_has_an_infinite_error() -> None:
    away = np.array([[1.0, 0, 0], [0, 1, 0], [0.5, 0, -1]])  # the column x = 2 goes to infinity
    assert visible_error(away, np.eye(3), (9, 7), (9, 7)) == np.inf
    assert np.isfinite(visible_error_float32(away, np.eye(3), (9, 7), (9, 7)))


def test_the_reversed_homography_is_used_for_files_of_the_other_direction(tmp_path: Path) -> None:
    from tiepoint.methods.pairs.files import turned_around

    H = np.array([[2.0, 0, 1], [0, 2, 0], [0, 0, 1]])
    turned = turned_around({"H": H, "F": np.arange(9.0).reshape(3, 3)}, "here")
    np.testing.assert_allclose(turned["H"] @ H, np.eye(3), atol=1e-12)
    assert turned["F"][0, 1] == 3
    shutil.rmtree(tmp_path)


HORIZONTAL = crossmodal.golden().get("wxbs_without_a_model_F_horizontal", {})


@crossmodal.needs_golden
@needs_wxbs
def test_loma_without_f_scores_recorded_recall_of_horizontal_lines(tmp_path: Path) -> None:
    for name in HORIZONTAL:
        write(tmp_path / "F", name, F=np.full((3, 3), np.nan))
    given, found, values = f"files:{tmp_path / 'F'}", {}, []
    for split in ("test", "val"):
        scores = run(given, "wxbs/fundamental", WXBS, tmp_path / "store", "loma", split=split)
        found |= {
            g.removeprefix("pair="): s["value"] for (m, g), s in scores.items() if g.startswith("pair=")
        }
        values.append(scores)
    assert set(found) == set(HORIZONTAL)
    for name, recorded in HORIZONTAL.items():
        assert found[name] == pytest.approx(recorded["recall_0_10_mean"], abs=1e-9)
    assert np.mean(list(found.values())) == pytest.approx(0.024, abs=5e-4)
    assert values[0]["failures", "all"]["value"] == 15
    assert "15 pairs; at most 90.9 %" in values[0]["maa_10px", "all"]["note"]
    exact = run(given, "wxbs/fundamental", WXBS, tmp_path / "store")
    assert exact["maa", "all"]["value"] == 0  # a failure is a failure


def test_loma_steps_lead_from_printed_mean_to_exact() -> None:
    rng = np.random.default_rng(0)
    task = TASKS.load("wxbs/fundamental")
    assert task.intermediate_comparisons(["exact", "loma"]) == ("loma",)
    assert task.intermediate_comparisons(["exact", TOOL]) == ()

    def record(repeats: int, ok: bool) -> Records:
        distance = rng.uniform(0, 25, 6 * repeats)
        return Records(
            "pair",
            {"repeat": np.repeat(np.arange(repeats), 6), "distance_px": distance},
            {
                "pair": str(rng.integers(1 << 40)),
                "scene": str(rng.integers(1 << 40)),
                "dataset": "",
                "facts": {},
                "strata": {},
                "ok": [ok] * repeats,
                "matches": 9,
                "inliers": [5] * repeats,
            },
        )

    own, last = [record(1, k > 0) for k in range(4)], [record(3, True) for _ in range(4)]
    (table,) = task.convention_steps_between({"loma": own, "exact": last})
    printed = {(s.metric, s.group): s.value for s in task.score(own, "loma")}
    exact = {(s.metric, s.group): s.value for s in task.score(last, "exact")}
    assert table.steps[0][1] == pytest.approx(printed["maa_10px", "all"])
    assert table.steps[1][1] < table.steps[0][1]
    assert table.steps[-1][1] == pytest.approx(exact["maa", "all"])


def test_loma_averages_eleven_thresholds(clicked: Path, tmp_path: Path) -> None:
    oracle = run("oracle", "wxbs/fundamental", clicked, tmp_path / "store", "loma")
    recalls = recall(oracle, range(11))
    assert oracle["maa_10px", "all"]["value"] == pytest.approx(np.mean(recalls), abs=1e-12)
    assert ("recall", "threshold_px=11") not in oracle
    ceiling = crossmodal.golden().get("wxbs_ceiling_mAA_10px", 10 / 11)
    assert ceiling == pytest.approx(10 / 11)
