"""The recorded pairs from the command line: one run under every protocol gives the recorded areas."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from relative_world import golden_world, write_world

from pose_golden import golden, needs_golden
from tiepoint.tasks.pose.task import TASK

pytest.importorskip("cv2")
pytest.importorskip("poselib")
pytestmark = [needs_golden, pytest.mark.slow]

PROTOCOLS = [p for p in TASK.protocols if p != "imc"]
SUMMARY = golden().get("relative_pose_summary (pairs without _mnn)", {})
SHUFFLED = "original pixels, 5 shuffles"
ROWS = {
    ("superglue", ""): ("superglue: RANSAC 1 px", 1e-9),
    ("loftr", ""): ("loftr: RANSAC .5 px, float32", 1e-4),
    # The tool counts the last of five errors of a ScanNet pair twice; the recorded area counts each once.
    ("roma", "repeats=once"): (
        "roma: RANSAC .5 px at 1200 long / 480 short, 5 shuffles RandomState(0), shuffled in place",
        1e-9,
    ),
    ("roma-poselib", ""): ("roma-poselib: 1 px, original pixels, max 10000, 5 shuffles", 1e-9),
    ("dad", ""): (f"dad: PoseLib E 2 px, {SHUFFLED}", 1e-9),
    ("dad", "estimator=poselib-fundamental,threshold_px=2.0"): (f"dad: PoseLib F 2 px, {SHUFFLED}", 1e-4),
    # Recorded with K and T in float64; the tool holds them in float32. `test_pose_estimation_golden` compares
    # the float64 variant to 1e-9.
    ("xfeat", "estimator=poselib,threshold_px=2.5"): (
        "xfeat mega: PoseLib 2.5 px, .99999, 20..1000 it, original pixels",
        1e-5,
    ),
    **{
        ("glue-factory", f"estimator={name},threshold_px={px}"): (f"gluefactory: {name} {px}", 1e-3)
        for name, px in (("opencv", 0.5), ("opencv", 1.0), ("poselib", 1.0), ("poselib", 2.0))
    },
    ("exact", ""): ("exact: PoseLib 1 px at 1000, seeds 0..4", 1e-9),
}
PRINTED = {
    ("superglue", ""): (13.6, 20.9, 25.4),
    ("loftr", ""): (13.4, 19.6, 24.8),
    ("roma", "repeats=once"): (9.3, 12.5, 18.9),
    ("roma-poselib", ""): (12.1, 15.3, 22.0),
    ("dad", ""): (15.2, 16.6, 22.8),
    ("dad", "estimator=poselib-fundamental,threshold_px=2.0"): (8.1, 12.8, 15.4),
    ("xfeat", "estimator=poselib,threshold_px=2.5"): (16.3, 18.2, 25.3),
    ("glue-factory", "estimator=opencv,threshold_px=0.5"): (16.7, 23.3, 26.7),
    ("glue-factory", "estimator=opencv,threshold_px=1.0"): (13.6, 20.9, 25.4),
    ("glue-factory", "estimator=poselib,threshold_px=1.0"): (9.8, 9.9, 16.8),
    ("exact", ""): (12.1, 15.0, 21.8),
}
"""Points, as the tools' own functions gave them on these matches."""


def tiepoint(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tiepoint", *words], capture_output=True, text=True)


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("golden")
    data, folder = write_world(root / "w", golden_world())
    common = (f"files:{folder}", "--task", "pose/relative", "--data", str(data), "--json")
    first = tiepoint("run", *common, "--protocol", ",".join(PROTOCOLS), "--store", str(root / "store"))
    assert first.returncode == 0, first.stderr
    other = tiepoint("run", *common, "-o", "estimator=opencv", "--store", str(root / "other"))
    assert other.returncode == 0, other.stderr
    found = {}
    for made, which in ((first, ""), (other, "opencv")):
        for s in json.loads(made.stdout)["scores"]:
            parts = frozenset(s["group"].split(",")) - {"all"}
            found[which or s["protocol"], s["metric"], parts] = s["value"]
    return found


def areas(scores, protocol: str, group: str) -> list[float]:
    parts = frozenset(group.split(",")) - {""}
    return [scores[protocol, "auc", parts | {f"threshold_deg={t}"}] for t in (5, 10, 20)]


@pytest.mark.parametrize(("protocol", "group"), list(ROWS))
def test_areas_are_those_of_the_tools(scores, protocol: str, group: str) -> None:
    key, tolerance = ROWS[protocol, group]
    rule = "auc_exact_5_10_20" if protocol == "exact" else "auc_trapezoid_5_10_20"
    found = areas(scores, protocol, group)
    assert found == pytest.approx(SUMMARY[key][rule], abs=tolerance)
    if (protocol, group) in PRINTED:
        assert [round(100 * v, 1) for v in found] == pytest.approx(PRINTED[protocol, group], abs=0.051)


def test_exact_with_opencv_and_the_spread_over_seeds(scores) -> None:
    for protocol, key in (("exact", "PoseLib 1 px at 1000"), ("opencv", "OpenCV USAC 1 px at 1000")):
        recorded = SUMMARY[f"exact: {key}, seeds 0..4"]
        assert areas(scores, protocol, "") == pytest.approx(recorded["auc_exact_5_10_20"], abs=1e-9)
        for i, t in enumerate((5, 10, 20)):
            parts = frozenset({f"threshold_deg={t}"})
            by_seed = [row[i] for row in recorded["per_seed"]]
            assert scores[protocol, "auc_seed_sd", parts] == pytest.approx(
                recorded["sd_over_seeds"][i], abs=1e-9
            )
            assert scores[protocol, "auc_seed_min", parts] == pytest.approx(min(by_seed), abs=1e-9)
            assert scores[protocol, "auc_seed_max", parts] == pytest.approx(max(by_seed), abs=1e-9)


def test_accuracies_are_recorded_too(scores) -> None:
    for (protocol, group), (key, _) in ROWS.items():
        if group == "repeats=once" or protocol == "exact":
            continue
        parts = frozenset(group.split(",")) - {""}
        found = [scores[protocol, "accuracy", parts | {f"threshold_deg={t}"}] for t in (5, 10, 20)]
        assert found == pytest.approx(SUMMARY[key]["accuracy_5_10_20"], abs=1e-12), (protocol, group)


def test_precision_is_the_mean_of_the_recorded_ones(scores) -> None:
    cases = [c["out"] for n, c in golden()["relative_pose"].items() if not n.endswith("_mnn")]
    recorded = [c["superglue: precision, matching score at 5e-4"] for c in cases]
    for protocol in ("superglue", "loftr", "zeb"):
        found = scores[protocol, "precision", frozenset()]
        assert found == pytest.approx(sum(r[0] for r in recorded) / 10, abs=1e-12)
    assert scores["superglue", "matching_score", frozenset()] == pytest.approx(
        sum(r[1] for r in recorded) / 10, abs=1e-12
    )
    for i, t in enumerate(("0.0001", "0.0005", "0.001")):
        mean = sum(c["gluefactory: epi_prec 1e-4, 5e-4, 1e-3 (float64)"][i] for c in cases) / 10
        assert scores["glue-factory", "precision", frozenset({f"threshold={t}"})] == pytest.approx(
            mean, abs=1e-12
        )
