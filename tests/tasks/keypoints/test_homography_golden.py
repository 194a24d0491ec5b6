# SPDX-License-Identifier: BSD-3-Clause
"""Recorded figures of the homography protocols from stored matches, through the command line."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pose_golden import DATA, assert_close, golden, matches, needs_golden, same_versions
from tiepoint.cli.main import run as tiepoint
from tiepoint.core.records import Features
from tiepoint.formats.matches.native import write_matches
from tiepoint.geometry.two_view.estimator import estimator_library_versions
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store
from tiepoint.tasks.keypoints.geometry.protocols import PROTOCOLS
from tiepoint.tasks.keypoints.geometry.score import corner_row_errors
from tiepoint.tasks.keypoints.geometry.task import TASK

pytest.importorskip("cv2")
pytest.importorskip("poselib")
SEQUENCES = DATA / "sequences"
RECORDED = golden().get("homography", {})
GLUE_FACTORY = RECORDED.get("gluefactory, short side 480", {})
pytestmark = [
    pytest.mark.slow,
    needs_golden,
    pytest.mark.skipif(not SEQUENCES.is_dir(), reason=f"no image sequences at {SEQUENCES}"),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Any:
    """One run of stored matches under every protocol, and its store."""
    if not same_versions(estimator_library_versions("cv2", "poselib")):
        pytest.skip("OpenCV or PoseLib differ from those of the record")
    folder = tmp_path_factory.mktemp("matches")
    for part in ("i", "ox", "v"):
        found = matches(f"homography_{part}")
        for name in {key.split(".")[0] for key in found}:
            sequence, _, k = name.removeprefix("hseq_").rpartition("_")
            points = {f"points{i}": found[f"{name}.pts{i}"] for i in (0, 1)}
            write_matches(folder, f"{sequence}/1-{k}", **points, confidence=found[f"{name}.score"])
    store = Store.open(tmp_path_factory.mktemp("store"))
    command = ["run", f"files:{folder}", "--task", "keypoints/geometry", "--data", str(SEQUENCES)]
    protocols = ["--protocol", ",".join(TASK.protocols), "-o", "tau_px=10"]
    assert tiepoint([*command, *protocols, "--store", str(store.root), "--jobs", "1"]) == 0
    (made,) = load_runs(store)
    return made, store


@pytest.fixture(scope="module")
def run(stored) -> tuple[dict[str, list[Any]], dict[tuple[str, str, str], Any]]:
    """The records of the run by comparison, and its scores."""
    made, store = stored
    records = {
        c: [store.records.get(by[c]) for by in made.manifest.units.values()]
        for c in {TASK.comparison(p) for p in TASK.protocols}
    }
    return records, {(s.protocol, s.metric, s.group): s.value for s in made.scores}


def errors_of(records, protocol, number=0) -> dict[str, list[float]]:
    """Errors of every pair by its name in the record, all repeats."""
    setting, scoring = PROTOCOLS[protocol].settings[number], PROTOCOLS[protocol].scoring
    found = {}
    for r in records[TASK.comparison(protocol)]:
        errors = corner_row_errors(r, number, setting, scoring).reshape(len(r.meta["images"]), -1)
        found |= {
            f"{r.meta['scene']}_{k}": row.tolist() for k, row in zip(r.meta["images"], errors, strict=True)
        }
    return found


@pytest.mark.parametrize("tool", ["roma", "dkm"])
def test_roma_and_dkm(run, tool):
    records, scores = run
    recorded = RECORDED[f"{tool}.HpatchesHomogBenchmark"]
    errors = errors_of(records, tool)
    assert_close(
        [errors[n][0] for n in recorded["homog_dists"]], list(recorded["homog_dists"].values()), 1e-7
    )
    areas = [scores[tool, "homography_auc", f"tau_px={t}"] for t in (3, 5, 10)]
    assert_close(areas, list(recorded["result"].values()), 1e-7)
    assert scores[tool, "homography_auc", "all"] == areas[0]


@pytest.mark.parametrize(("kind", "group"), [("v", "Viewpoint"), ("i", "Illum")])
def test_dad_up_to_the_stream_of_its_shuffles(run, kind, group):
    """One stream runs through all pairs there; here every pair has its own, so that pairs are independent."""
    records, scores = run
    recorded = RECORDED[f"dad.HPatches{group} (np.random.seed(0))"]
    errors = errors_of(records, "dad")
    steady = {n: v for n, v in recorded["homog_dists"].items() if np.ptp(v) < 1e-3}
    assert len(steady) == (19 if kind == "v" else 10)
    for name, values in steady.items():
        assert np.median(errors[name]) == pytest.approx(np.median(values), abs=1e-3)
    areas = [scores["dad", "homography_auc", f"kind={kind},tau_px={t}"] for t in (3, 5, 10)]
    assert_close(areas, list(recorded["result"].values()), 1e-3 if kind == "v" else 1e-6)


@pytest.mark.parametrize("frame", ["original", "short:480"])
@pytest.mark.parametrize("estimator", ["opencv", "magsac"])
def test_toolbox(run, estimator, frame):
    records, scores = run
    size = "original size" if frame == "original" else "480 short side"
    recorded = RECORDED[f"toolbox.eval_hpatches {estimator.replace('opencv', 'cv')} 3 px, {size}"]
    parts = {"estimator": estimator, "frame": frame, "threshold_px": 3.0}
    number = [dict(s.parts) for s in PROTOCOLS["toolbox"].settings].index(parts)
    errors = errors_of(records, "toolbox", number)
    assert_close(
        [errors[n][0] for n in recorded["corner_dist"]], list(recorded["corner_dist"].values()), 1e-9
    )
    own = f"estimator={estimator},frame={frame},tau_px={{}},threshold_px=3.0"
    areas = [100 * scores["toolbox", "homography_auc", own.format(t)] for t in (1, 3, 5, 10)]
    assert_close(areas, recorded["auc_percent_1_3_5_10"], 1e-9)


@pytest.mark.parametrize(("number", "key"), enumerate(["opencv 0.5", "opencv 3.0", "poselib 1.0", "dlt"]))
def test_glue_factory(run, number, key):
    records, scores = run
    estimator, _, px = key.partition(" ")
    expected = {
        name: pair["H_error_dlt"] if key == "dlt" else pair[key]["H_error_ransac"]
        for name, pair in GLUE_FACTORY["pairs"].items()
    }
    errors = errors_of(records, "glue-factory", number)
    assert_close([errors[name][0] for name in expected], list(expected.values()), 2e-3)
    own = f"estimator={estimator},tau_px={{}}" + (f",threshold_px={px}" if px else "")
    areas = [scores["glue-factory", "homography_auc", own.format(t)] for t in (1, 3, 5)]
    recorded = GLUE_FACTORY["auc_dlt"] if key == "dlt" else GLUE_FACTORY["auc_1_3_5"][key]
    assert_close(areas, recorded, 1.01e-4)
    if number == 0:
        assert scores["glue-factory", "homography_auc", "tau_px=3"] == areas[1]


def test_precision_of_glue_factory_in_float64(run):
    records, scores = run
    pairs = GLUE_FACTORY["pairs"]
    found = {
        f"{r.meta['scene']}_{k}": np.array(within) / n
        for r in records["glue-factory"]
        for k, within, n in zip(r.meta["images"], r.meta["within"], r.meta["matches"], strict=True)
    }
    for px in (1, 3):
        expected = [pairs[name][f"prec@{px}px float64"] for name in found]
        assert_close([shares[px // 2] for shares in found.values()], expected, 1e-7)
        middle = scores["glue-factory", "match_precision", f"tau_px={px}"]
        assert middle == pytest.approx(np.median(expected), abs=5.1e-4)


def test_table_of_areas_at_3_px(run):
    """The six numbers that the same matches have."""
    _, scores = run
    expected = {
        ("roma", "tau_px=3"): 63.3,
        ("dkm", "tau_px=3"): 63.3,
        ("toolbox", "tau_px=3"): 54.2,
        ("toolbox", "estimator=opencv,frame=short:480,tau_px=3,threshold_px=3.0"): 61.6,
        ("glue-factory", "tau_px=3"): 49.9,
        ("glue-factory", "estimator=poselib,tau_px=3,threshold_px=1.0"): 60.2,
    }
    found = {key: round(100 * scores[key[0], "homography_auc", key[1]], 1) for key in expected}
    assert found == expected


def test_the_gap_is_taken_apart_step_by_step(stored, run, capsys):
    made, store = stored
    capsys.readouterr()
    assert tiepoint(["show", made.id, "--conventions", "--json", "--store", str(store.root)]) == 0
    tables = json.loads(capsys.readouterr().out)["conventions"]["steps"]
    assert len(tables) == 21
    for table in tables:
        tau = table["title"].rpartition(", ")[2]
        metric = "mma" if "d2net" in table["title"] else "homography_auc"
        assert table["steps"][-1]["value"] == pytest.approx(run[1]["exact", metric, tau], abs=1e-12)


def test_d2net_by_the_recorded_recipe():
    recorded = RECORDED["d2net.benchmark_features, synthetic features"]
    opened = TASK.open(SEQUENCES, {})
    tables = {}
    for item in opened.items:
        scene, _, k = item.key.rpartition("/")
        draw = np.random.RandomState(3)
        xy = draw.uniform(50, 450, (60, 2))
        values = draw.normal(size=(60, 16))
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        if k != "1":
            p = np.column_stack([xy, np.ones(60)]) @ opened.sequences.homography(scene, k).T
            more = np.random.RandomState(10 + int(k))
            xy = p[:, :2] / p[:, 2:] + more.normal(scale=4, size=(60, 2))
            values = values + more.normal(scale=0.25, size=(60, 16))
        tables[item.key] = {"keypoints": xy, "values": values}
    opened.features_of = lambda features, scene, k: type(  # points of the recipe lie outside some images
        "F", (), {"xy": tables[f"{scene}/{k}"]["keypoints"], "valid": np.ones(60, bool),
                  "values": tables[f"{scene}/{k}"]["values"]},
    )  # fmt: skip
    records = [opened.compare(u, Features(tables.__getitem__), "d2net") for u in opened.units]
    assert np.concatenate([r["matches"] for r in records]).tolist() == recorded["n_matches"]
    scores = {(s.metric, s.group): s.value for s in TASK.score(records, "d2net")}
    for t in range(1, 16):
        i, v = (recorded[key][str(t)] for key in ("i_err", "v_err"))
        assert scores["mma", f"kind=i,tau_px={t}"] == pytest.approx(i / (52 * 5), rel=1e-12)
        assert scores["mma", f"kind=v,tau_px={t}"] == pytest.approx(v / (56 * 5), rel=1e-12)
        assert scores["mma", f"tau_px={t}"] == pytest.approx((i + v) / (108 * 5), rel=1e-12)
        assert scores["mma_of_pairs", f"tau_px={t}"] == pytest.approx((i + v) / 30, rel=1e-12)
