"""Every recorded relative pose, by calling the estimators with the parameters of each protocol."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from pose_golden import assert_close, golden, matches, needs_golden, numbers, same_versions
from tiepoint.geometry.two_view import pose_errors as angles
from tiepoint.geometry.two_view import scaling
from tiepoint.geometry.two_view.epipolar import essential, mean_distances, normalise_points, squared_distances
from tiepoint.geometry.two_view.estimator import Estimator, canonical_order
from tiepoint.geometry.two_view.pose_errors import pose_errors
from tiepoint.geometry.two_view.pose_estimation import estimate, estimator_versions, shuffles

pytest.importorskip("cv2")
pytest.importorskip("poselib")
pytestmark = needs_golden

PAIRS = list(golden().get("relative_pose", {}))


def opencv(threshold_px, **changes):
    return Estimator("opencv-e", threshold_px, 0.99999, 1000, **changes)


def poselib(threshold_px, confidence=0.9999, most=100_000, **changes):
    return Estimator("poselib-e", threshold_px, confidence, most, fewest=0, **changes)


class Recorded(NamedTuple):
    """A recorded entry: how to estimate, where, how often, which angles, how close."""

    estimator: Estimator
    frame: str = "original"
    repeats: int = 0
    rule: angles.AngleRule = angles.ACOS
    tolerance: float = 1e-9


SHUFFLED = "original pixels, 5 shuffles"
ENTRIES = {
    "superglue: RANSAC 1 px": Recorded(opencv(1.0, focal="slip"), "vga"),
    "loftr: RANSAC .5 px, float32": Recorded(
        opencv(0.5, focal="slip", dtype="float32"), "vga", 0, angles.ACOS_TRUTH_FLOAT32, 1e-3
    ),
    "loftr: RANSAC .5 px, float64": Recorded(opencv(0.5, focal="slip"), "vga"),
    "roma: RANSAC .5 px at 1200 long / 480 short, 5 shuffles RandomState(0), shuffled in place": Recorded(
        opencv(0.5, skew=True), "sides", 5
    ),
    "roma-poselib: 1 px, original pixels, max 10000, 5 shuffles": Recorded(
        poselib(1.0, most=10_000), repeats=5
    ),
    f"dad: PoseLib E 2 px, {SHUFFLED}": Recorded(poselib(2.0), repeats=5),
    f"dad: PoseLib F 2 px, {SHUFFLED}": Recorded(
        Estimator("poselib-f", 2.0, 0.9999, 100_000, dtype="float32"), repeats=5, tolerance=1e-4
    ),
    "xfeat mega: PoseLib 2.5 px, .99999, 20..1000 it, original pixels": Recorded(
        poselib(2.5, 0.99999, 1000, min_iterations=20)
    ),
    **{
        f"gluefactory: opencv {px}": Recorded(
            opencv(px, dtype="float32"), rule=angles.ACOS_FLOAT32, tolerance=2e-2
        )
        for px in (0.5, 1.0)
    },
    **{
        f"gluefactory: poselib {px}": Recorded(
            poselib(px, dtype="float32"), rule=angles.ACOS_FLOAT32, tolerance=2e-2
        )
        for px in (1.0, 2.0)
    },
    **{
        f"opencv {method} 1 px": Recorded(opencv(1.0, focal="slip", method=method), "vga")
        for method in ("USAC_MAGSAC", "USAC_ACCURATE", "USAC_DEFAULT")
    },
}
BEST_OF_TWELVE = "xfeat scannet: PoseLib by threshold .5 .. 6, .99999, max 10000"
PRECISIONS = {
    "superglue: precision, matching score at 5e-4",
    "loftr: precision 5e-4, 1e-4 (float64)",
    "gluefactory: epi_prec 1e-4, 5e-4, 1e-3 (float64)",
}


def frame(name: str, case: dict[str, Any]) -> list[scaling.Resize]:
    """The resize of both images, as the protocols that depend on the dataset choose it."""
    scannet = case["dataset"] == "scannet"
    rules = {
        "original": scaling.original_size,
        "vga": (lambda s: scaling.stretched_to(s, 640, 480)) if scannet else scaling.original_size,
        "sides": (lambda s: scaling.short_side(s, 480))
        if scannet
        else (lambda s: scaling.long_side(s, 1200)),
        "1000": lambda s: scaling.long_side(s, 1000),
    }
    return [rules[name](tuple(case[size])) for size in ("size0", "size1")]


def pair(name: str):
    case = golden()["relative_pose"][name]
    K0, K1, T = (np.array(case[k]) for k in ("K0", "K1", "T_0to1"))
    found = matches("relative")
    return case, found[f"{name}.pts0"], found[f"{name}.pts1"], K0, K1, T


def errors_of(found, T, rule):
    return np.array([pose_errors(e.R, e.t, T[:3, :3], T[:3, 3], rule) for e in found])


def check(found, expected, tolerance, estimators):
    """Digits where the libraries are those of the record, else nine of ten within 1e-3 degrees."""
    if all(same_versions(estimator_versions(e)) for e in estimators):
        assert_close(found, expected, tolerance)
    else:
        off = np.abs(np.asarray(found) - numbers(expected)).max(axis=-1)
        assert (off <= max(tolerance, 1e-3)).mean() >= 0.9


FAST = ("scannet04", "scannet12", "mega_0015_A-0015_B")
"""The fast tests use only these pairs where an estimate is repeated."""


def heavy(*names):
    """Pairs without ratio test have few inliers, and PoseLib tries 100,000 times."""

    def is_slow(entry, name):
        hard = name.endswith("_mnn") and entry.estimator.kind.startswith("poselib")
        return hard or (entry.repeats and name not in FAST)

    return [
        pytest.param(key, name, marks=pytest.mark.slow if is_slow(ENTRIES[key], name) else ())
        for key in ENTRIES
        for name in names
    ]


def seeded(*names):
    """Each estimate is repeated with five seeds."""
    return [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in names]


@pytest.mark.parametrize(("key", "name"), heavy(*PAIRS))
def test_recorded_pose_errors(key, name):
    est, where, repeats, rule, tolerance = ENTRIES[key]
    case, x0, x1, K0, K1, T = pair(name)
    framed = scaling.in_frame(x0, x1, K0, K1, *frame(where, case))
    recorded = case["out"][key]
    if repeats:
        x0, x1, *cameras = framed
        found = [estimate(est, x0[o], x1[o], *cameras) for o in shuffles(len(x0), repeats)]
        check(errors_of(found, T, rule), recorded, tolerance, [est])
        return
    found = estimate(est, *framed)
    expected = recorded["err"] if isinstance(recorded, dict) else recorded
    check(errors_of([found], T, rule), [expected], tolerance, [est])
    if isinstance(recorded, dict) and same_versions(estimator_versions(est)):
        assert found.inliers == recorded["inliers"]
        if "R" in recorded:
            assert_close(found.R, recorded["R"], tolerance)
            assert_close(found.t, recorded["t"], tolerance)


@pytest.mark.parametrize("name", [n for n in PAIRS if n.startswith("scannet") and not n.endswith("_mnn")])
def test_recorded_errors_at_twelve_thresholds(name):
    case, x0, x1, K0, K1, T = pair(name)
    recorded = case["out"][BEST_OF_TWELVE]
    assert len(recorded) == 12
    estimators = [poselib(float(px), 0.99999, 10_000) for px in recorded]
    found = [estimate(est, x0, x1, K0, K1) for est in estimators]
    check(errors_of(found, T, angles.ACOS), list(recorded.values()), 1e-9, estimators)


@pytest.mark.parametrize("name", PAIRS)
def test_recorded_precision(name):
    case, x0, x1, K0, K1, T = pair(name)
    framed = scaling.in_frame(x0, x1, K0, K1, *frame("vga", case))
    u0, u1 = normalise_points(framed[0], framed[2]), normalise_points(framed[1], framed[3])
    squared, mean = squared_distances(u0, u1, essential(T)), mean_distances(u0, u1, essential(T))
    precision, score, correct = case["out"]["superglue: precision, matching score at 5e-4"]
    assert int((squared < 5e-4).sum()) == correct
    assert (squared < 5e-4).mean() == pytest.approx(precision, abs=1e-12)
    assert correct / case["n_keypoints"][0] == pytest.approx(score, abs=1e-12)
    shares = [(squared < t).mean() for t in (5e-4, 1e-4)]
    assert_close(shares, case["out"]["loftr: precision 5e-4, 1e-4 (float64)"], 1e-12)
    shares = [(mean < t).mean() for t in (1e-4, 5e-4, 1e-3)]
    assert_close(shares, case["out"]["gluefactory: epi_prec 1e-4, 5e-4, 1e-3 (float64)"], 1e-12)


def test_every_recorded_entry_is_compared():
    for name in PAIRS:
        for key in golden()["relative_pose"][name]["out"]:
            assert key in ENTRIES or key in PRECISIONS or key == BEST_OF_TWELVE or key.startswith("imc:"), key


SEEDS = range(5)


def in_canonical_frame(name):
    case, x0, x1, K0, K1, T = pair(name)
    order = canonical_order(x0, x1)
    centre = 0.5 if case["dataset"] == "megadepth" else 0.0
    framed = scaling.in_frame(x0[order] + centre, x1[order] + centre, K0, K1, *frame("1000", case))
    return framed, T


@pytest.mark.parametrize("px", ["0.5", "1.0", "2.0"])
@pytest.mark.parametrize("name", seeded(*PAIRS))
def test_recorded_seeds_of_poselib(name, px):
    framed, T = in_canonical_frame(name)
    est = Estimator("poselib-e", float(px), 0.9999, 10_000, fewest=6)
    found = [estimate(est, *framed, seed) for seed in SEEDS]
    recorded = np.array(golden()["relative_pose_exact"][name]["poselib"][px])
    check(errors_of(found, T, angles.STABLE), recorded[:, :2], 1e-8, [est])
    if same_versions(estimator_versions(est)):
        assert [e.inliers for e in found] == recorded[:, 2].tolist()


@pytest.mark.parametrize("name", seeded(*PAIRS))
def test_recorded_seeds_of_opencv(name):
    framed, T = in_canonical_frame(name)
    est = Estimator("usac-e", 1.0, 0.9999, 10_000, distance=1e9, fewest=6)
    found = [estimate(est, *framed, seed) for seed in SEEDS]
    recorded = np.array(golden()["relative_pose_exact"][name]["opencv"])
    check(errors_of(found, T, angles.STABLE), recorded[:, :2], 1e-9, [est])
    if same_versions(estimator_versions(est)):
        assert [e.inliers for e in found] == recorded[:, 2].tolist()
