"""`eloftr` and `zeb` have no recorded figures: both against a restatement that shares no code with ours."""

from __future__ import annotations

import math
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from pair_truths import recorded_truth
from pose_golden import golden, matches, needs_golden
from tiepoint.core.records import Records
from tiepoint.tasks.pairs.data import PairMatches
from tiepoint.tasks.pose.compare import compare
from tiepoint.tasks.pose.protocols import PROTOCOLS
from tiepoint.tasks.pose.score import score as pose_scores

cv2 = pytest.importorskip("cv2")
poselib = pytest.importorskip("poselib")
pytestmark = needs_golden

NAMES = ["scannet12", "mega_0015_A-0015_B", "motorcycle"]
THRESHOLDS = (5, 10, 20)


def cases(names=NAMES, few=3):
    """Recorded matches of pairs, and one pair with too few to try."""
    for name in [*names, "few"]:
        case = golden()["relative_pose"]["scannet12" if name == "few" else name]
        source = "scannet12" if name == "few" else name
        x0, x1 = (matches("relative")[f"{source}.{p}"] for p in ("pts0", "pts1"))
        n = few if name == "few" else len(x0)
        yield name, case, x0[:n], x1[:n]


@cache
def records(protocol: str) -> list[Records]:
    made = []
    for name, case, x0, x1 in cases():
        pair = recorded_truth(name, case)
        options = SimpleNamespace(permutation_seed=0)
        meta = {"budgets": [0]}
        made.append(compare(pair, {0: PairMatches(x0, x1)}, PROTOCOLS[protocol], options, meta))
    return made


# The restatement: float32 throughout, one list of errors, sums in plain Python.


def ransac_pose(x0, x1, K0, K1):
    """R, t or None; pixels and intrinsics in float32, half a pixel, the mean of fx of 0 and fy of 1."""
    if len(x0) < 5:
        return None
    K0, K1 = np.float32(K0), np.float32(K1)
    u0 = (np.float32(x0) - K0[:2, 2]) / np.float32([K0[0, 0], K0[1, 1]])
    u1 = (np.float32(x1) - K1[:2, 2]) / np.float32([K1[0, 0], K1[1, 1]])
    px = 0.5 / np.mean([K0[0, 0], K1[1, 1], K0[0, 0], K1[1, 1]])
    E, mask = cv2.findEssentialMat(u0, u1, np.eye(3), threshold=px, prob=0.99999, method=cv2.RANSAC)
    if E is None:
        return None
    most, best = 0, None
    for k in range(0, len(E), 3):
        votes, R, t, _ = cv2.recoverPose(E[k : k + 3], u0, u1, np.eye(3), 1e9, mask=mask)
        if votes > most:
            most, best = votes, (R, t[:, 0])
    return best


def poselib_pose(x0, x1, K0, K1):
    """R, t or None where the answer does not count as a success."""
    cameras = []
    for K in (np.float32(K0), np.float32(K1)):
        params = [float(K[0, 0]), float(K[1, 1]), float(K[0, 2]), float(K[1, 2])]
        cameras.append({"model": "PINHOLE", "width": 640, "height": 480, "params": params})
    points = [np.float32(x).astype(float) for x in (x0, x1)]
    pose, _ = poselib.estimate_relative_pose(*points, *cameras, {"max_epipolar_error": 2.0}, {})
    if (pose.t != 0).all() or (pose.q != [1, 0, 0, 0]).all():
        return pose.R, pose.t
    return None


def angle(R, t, T):
    """The larger of both angles, by arc cosines, the truth in float32."""
    T = np.float32(T)
    cosine = (np.trace(R.T @ T[:3, :3]) - 1) / 2
    e_R = math.degrees(math.acos(min(1, max(-1, cosine))))
    along = t @ T[:3, 3] / (np.linalg.norm(t) * np.linalg.norm(T[:3, 3]))
    e_t = math.degrees(math.acos(min(1, max(-1, along))))
    return max(e_R, min(e_t, 180 - e_t))


def area(errors, limit):
    """Trapezoids below the limit, by hand."""
    kept, total, before = sorted(e for e in errors if e < limit), 0.0, (0.0, 0.0)
    for i, e in enumerate(kept, 1):
        recall = i / len(errors)
        total += (e - before[0]) * (recall + before[1]) / 2
        before = (e, recall)
    return (total + (limit - before[0]) * before[1]) / limit


def resized(case, x0, x1):
    """Points and intrinsics at 640 x 480 for ScanNet, else as they are."""
    K0, K1 = np.array(case["K0"]), np.array(case["K1"])
    if case["dataset"] != "scannet":
        return x0, x1, K0, K1
    s0, s1 = (np.array([case[s][0] / 640, case[s][1] / 480, 1.0]) for s in ("size0", "size1"))
    return x0 / s0[:2], x1 / s1[:2], K0 / s0[:, None], K1 / s1[:, None]


def shuffled_errors(pose_of, failure):
    errors = []
    for _, case, x0, x1 in cases():
        x0, x1, K0, K1 = resized(case, x0, x1)
        random = np.random.RandomState(0)
        for _ in range(5):
            order = random.permutation(len(x0))
            x0, x1 = x0[order], x1[order]
            found = pose_of(x0, x1, K0, K1)
            errors.append(failure if found is None else angle(*found, case["T_0to1"]))
    return errors


def score(scores, metric, group):
    (found,) = [s.value for s in scores if s.metric == metric and s.group == group]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pose_of", "failure", "group"),
    [
        (ransac_pose, math.inf, "estimator=opencv,threshold_px=0.5"),
        (poselib_pose, 90.0, "estimator=poselib,threshold_px=2.0"),
    ],
)
def test_eloftr_pools_five_permutations(pose_of, failure, group):
    errors = shuffled_errors(pose_of, failure)
    assert len(errors) == 20
    assert errors.count(failure) >= 5
    scores = pose_scores(records("eloftr"), "eloftr")
    for t in THRESHOLDS:
        found = score(scores, "auc", with_threshold(scores, group, t))
        assert found == pytest.approx(area(errors, t), abs=1e-6)


def with_threshold(scores, group, t):
    """The name of a group with a threshold of degrees, in whatever order its parts are written."""
    wanted = parts(f"{group},threshold_deg={t}")
    (name,) = {s.group for s in scores if parts(s.group) == wanted}
    return name


def parts(group):
    return {part.removesuffix(".0") for part in group.split(",") if part}


def test_zeb_calls_once_in_original_pixels_and_counts_failures_as_180_degrees():
    errors = []
    for _, case, x0, x1 in cases():
        found = ransac_pose(x0, x1, np.array(case["K0"]), np.array(case["K1"]))
        errors.append(180.0 if found is None else angle(*found, case["T_0to1"]))
    assert errors[-1] == 180
    scores = pose_scores(records("zeb"), "zeb")
    for t in THRESHOLDS:
        name = with_threshold(scores, "", t)
        assert score(scores, "auc", name) == pytest.approx(area(errors, t), abs=1e-6)
        below = sum(e < t for e in errors) / len(errors)
        assert score(scores, "accuracy", name) == pytest.approx(below, abs=1e-12)
