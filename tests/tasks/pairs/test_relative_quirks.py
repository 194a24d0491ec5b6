"""Quirks of the tools' protocols, each switched alone: it changes the score it should."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from relative_world import motion, pair, records, seen, value

from tiepoint.core.records import Records
from tiepoint.geometry.two_view.pose_errors import ACOS, ACOS_FLOAT32, ACOS_TRUTH_FLOAT32
from tiepoint.geometry.two_view.pose_estimation import focal_px
from tiepoint.metrics.error_curves import accuracy
from tiepoint.tasks.pose import score as pose_score
from tiepoint.tasks.pose.compare import AREAS, Poses, compare, counted_rows, pose_row_errors
from tiepoint.tasks.pose.protocols import PROTOCOLS, PoseProtocol, PoseScoring
from tiepoint.tasks.pose.score import headline_rows
from tiepoint.tasks.pose.task import TASK

pytest.importorskip("cv2")
pytest.importorskip("poselib")


class NoOptions:
    permutation_seed = 0


def turned(degrees: float, repeats=(0,), *, ok=True, dataset="", names=("a", "b"), setting=0) -> Records:
    """Records of one pair whose estimates are turned from the truth by so many degrees, one a repeat."""
    errors = [degrees] * len(repeats) if np.isscalar(degrees) else list(degrees)
    T = motion()
    rows = []
    for e in errors:
        c, s = math.cos(math.radians(e)), math.sin(math.radians(e))
        rows.append((np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ T[:3, :3]).ravel())
    n = len(rows)
    columns = {
        "setting": np.full(n, setting, np.int16),
        "repeat": np.arange(n, dtype=np.int16),
        "budget": np.zeros(n, np.int32),
        "R": np.array(rows),
        "t": np.tile(T[:3, 3], (n, 1)),
        "ok": np.full(n, ok),
        "inliers": np.full(n, 9, np.int32),
    }
    meta = {
        "pair": "--".join(names), "scene": "s", "dataset": dataset, "images": list(names), "matches": 9,
        "T_0to1": T.ravel().tolist(), "keypoints": None, "precision": {}, "budgets": [0], "cluster": "scene",
        "strata": {}, "facts": {},
    }  # fmt: skip
    return Records("pair", columns, meta)


def area(given, protocol: PoseProtocol, t=10.0) -> float:
    poses = Poses(given)
    order = counted_rows(poses, protocol.scoring, headline_rows(poses, protocol))
    return float(AREAS[protocol.scoring.area](pose_row_errors(poses, protocol)[2][order], t))


def switched(name: str, **changes) -> PoseProtocol:
    protocol = PROTOCOLS[name]
    return replace(protocol, scoring=replace(protocol.scoring, **changes), precision=None)


def several(errors, **more):
    return [turned(e, names=(f"a{i}", f"b{i}"), **more) for i, e in enumerate(errors)]


def trapezoid(errors, t):
    """Area by hand."""
    kept, total, before = sorted(e for e in errors if e < t), 0.0, (0.0, 0.0)
    for i, e in enumerate(kept, 1):
        total += (e - before[0]) * (i / len(errors) + before[1]) / 2
        before = (e, i / len(errors))
    return (total + (t - before[0]) * before[1]) / t


def test_roma_counts_the_last_error_of_a_scannet_pair_twice() -> None:
    given = [
        turned([1, 2, 3, 4, 9], dataset="scannet"),
        turned([6, 6, 6, 6, 2], dataset="scannet", names="cd"),
    ]
    pooled = [1, 2, 3, 4, 9, 6, 6, 6, 6, 2]
    assert area(given, PROTOCOLS["roma"]) == pytest.approx(trapezoid([*pooled, 9, 2], 10), abs=1e-7)
    assert area(given, switched("roma", again=())) == pytest.approx(trapezoid(pooled, 10), abs=1e-7)
    outdoors = [turned([1, 2, 3, 4, 9], dataset="megadepth")]
    assert area(outdoors, PROTOCOLS["roma"]) == area(outdoors, switched("roma", again=()))
    scores = TASK.score(given, "roma")
    assert value(scores, "auc", "repeats=once,threshold_deg=10") == pytest.approx(
        trapezoid(pooled, 10), abs=1e-7
    )
    assert value(scores, "map", "threshold_deg=10") == pytest.approx((6 / 12 + 1) / 2, abs=1e-12)


def test_the_focal_length_of_the_widely_copied_script() -> None:
    """fx of view 0 and fy of view 1 instead of all four: seen where these differ."""
    one = pair(dataset="scannet", K0=np.array([[900.0, 0, 320], [0, 450, 240], [0, 0, 1]]))
    found = seen(one, 80, 1.5, wrong=20)
    protocol = PROTOCOLS["superglue"]
    (setting,) = protocol.settings
    other = replace(setting, estimator=replace(setting.estimator, focal="mean4"))
    made = [
        compare(one, {0: found}, replace(protocol, settings=(s,)), NoOptions(), {})["inliers"][0]
        for s in (setting, other)
    ]
    assert made[0] != made[1]


def test_xfeat_takes_the_best_of_twelve_thresholds_on_scannet() -> None:
    errors = dict.fromkeys(range(1, 13), 9.0) | {5: 1.0, 7: 3.0}
    given = []
    for name in ("ab", "cd"):
        parts = [turned(e, dataset="scannet", names=name, setting=k) for k, e in errors.items()]
        columns = {c: np.concatenate([p[c] for p in parts]) for c in parts[0].columns}
        given.append(Records("pair", columns, parts[0].meta))
    assert area(given, PROTOCOLS["xfeat"]) == pytest.approx(trapezoid([1, 1], 10), abs=1e-6)
    assert area(given, switched("xfeat", best_px=())) == pytest.approx(
        trapezoid(list(errors.values()) * 2, 10), abs=1e-6
    )


def on_scannet(given: Records, t=None) -> Records:
    """The same pair as the twelve calls of XFeat's script for ScanNet, perhaps with another translation."""
    columns = {c: np.repeat(np.asarray(given[c]), 12, axis=0) for c in given.columns}
    columns["setting"] = np.arange(1, 13, dtype=np.int16)
    columns["repeat"] = np.zeros(12, np.int16)
    if t is not None:
        columns["t"] = np.tile(t, (12, 1))
    return Records("pair", columns, given.meta)


def in_the_way_of_megadepth() -> PoseProtocol:
    """XFeat with the scoring of its script for MegaDepth everywhere."""
    protocol = PROTOCOLS["xfeat"]
    return replace(protocol, settings=tuple(replace(s, scoring=None) for s in protocol.settings))


def test_xfeat_sorts_nan_last_on_scannet() -> None:
    given = []
    for i, e in enumerate([8.0, math.nan, 1.0, 3.0]):
        made = turned(0.0 if math.isnan(e) else e, dataset="scannet", names=(f"a{i}", f"b{i}"))
        given.append(on_scannet(made, np.zeros(3) if math.isnan(e) else None))
    scores = TASK.score(given, "xfeat")
    assert value(scores, "auc", "threshold_deg=10") == pytest.approx(0.55, abs=1e-6)
    poses, other = Poses(given), in_the_way_of_megadepth()
    errors = pose_row_errors(poses, other)[2][headline_rows(poses, other)]
    assert AREAS[other.scoring.area](errors, 10.0) == pytest.approx(0.15, abs=1e-4)


@pytest.mark.parametrize(("dataset", "expected"), [("scannet", 0.0), ("megadepth", 1.0)])
def test_xfeat_accuracy_counts_the_threshold_on_megadepth_only(
    monkeypatch: pytest.MonkeyPatch, dataset: str, expected: float
) -> None:
    made = turned(7.0, dataset=dataset)
    given = [on_scannet(made) if dataset == "scannet" else made]
    error = float(pose_row_errors(Poses(given), PROTOCOLS["xfeat"])[2][0])
    monkeypatch.setattr(pose_score, "THRESHOLDS_DEG", (error, 10))
    found = {s.group: s.value for s in TASK.score(given, "xfeat") if s.metric == "accuracy"}
    assert found[f"threshold_deg={error}"] == expected


def test_xfeat_holds_the_cameras_of_megadepth_in_float32() -> None:
    K = np.array([[1234.56789012, 0, 611.12345678], [0, 1230.98765432, 401.98765432], [0, 0, 1]])
    one = pair(dataset="megadepth", K0=K, K1=K[:, ::1] + np.diag([3.3333333, 2.2222222, 0]))
    found = seen(one, 200, 0.5)
    (setting, *_) = PROTOCOLS["xfeat"].settings
    double = replace(setting, estimator=replace(setting.estimator, camera_dtype="float64"))
    rounded = replace(one, K0=np.float64(np.float32(one.K0)), K1=np.float64(np.float32(one.K1)))
    made = [
        compare(given, {0: found}, replace(PROTOCOLS["xfeat"], settings=(s,)), NoOptions(), {})["R"]
        for given, s in ((one, setting), (rounded, double), (one, double))
    ]
    assert made[0].tobytes() == made[1].tobytes()
    assert made[0].tobytes() != made[2].tobytes()


def test_xfeat_holds_the_truth_of_megadepth_in_float32() -> None:
    given = several([0.01, 0.3], dataset="megadepth")
    found = area(given, PROTOCOLS["xfeat"])
    assert found == area(given, switched("xfeat", angles=ACOS_TRUTH_FLOAT32))
    assert found != area(given, switched("xfeat", angles=ACOS))
    assert pose_row_errors(Poses([on_scannet(g) for g in given]), PROTOCOLS["xfeat"])[2] == pytest.approx(
        np.repeat(pose_row_errors(Poses(given), switched("xfeat", angles=ACOS))[2], 12), abs=0
    )


def test_roma_divides_the_threshold_by_blocks_that_include_the_skew() -> None:
    K = np.array([[500.0, 400, 320], [0, 510, 240], [0, 0, 1]])
    one = pair(dataset="megadepth", K0=K, K1=K)
    found = seen(one, 120, 0.6, wrong=30)
    protocol = PROTOCOLS["roma"]
    (setting,) = protocol.settings
    assert focal_px(setting.estimator, K, K) == (500 + 400 + 510) / 4 * 2
    made = []
    for focal in ("blocks", "mean4"):
        one_setting = replace(setting, estimator=replace(setting.estimator, focal=focal))
        made.append(compare(one, {0: found}, replace(protocol, settings=(one_setting,)), NoOptions(), {}))
    assert made[0]["inliers"].tolist() != made[1]["inliers"].tolist()
    whole = [{**made[0].meta, "budgets": [0], "cluster": "scene"}] * 2
    scores = [
        TASK.score([Records("pair", dict(m.columns), w)], "roma") for m, w in zip(made, whole, strict=True)
    ]
    assert value(scores[0], "inliers") != value(scores[1], "inliers")


@pytest.mark.parametrize("name", ["loftr", "eloftr", "zeb", "xfeat"])
def test_lengths_are_norms_of_single_vectors(name: str) -> None:
    """A perfect pose has an error of 0 or of some hundredths of a degree, by the last bit of a norm."""
    rng, moved = np.random.default_rng(0), 0
    protocol = PROTOCOLS[name]
    other = switched(name, angles=replace(protocol.scoring.angles, single=False))
    for _ in range(60):
        T = motion()
        T[:3, 3] = np.float32(rng.normal(size=3))
        made = turned(0.0)
        columns = {c: np.array(made[c]) for c in made.columns} | {"t": T[None, :3, 3]}
        given = [Records("pair", columns, {**made.meta, "T_0to1": T.ravel().tolist()})]
        truth = np.float32(T[:3, 3])
        length = np.linalg.norm(T[:3, 3]) * np.linalg.norm(truth)
        expected = math.degrees(math.acos(min(1.0, np.dot(T[:3, 3], truth) / length)))
        e_t = pose_row_errors(Poses(given), protocol)[0]
        assert e_t.tolist() == [expected]
        moved += area(given, protocol, 5.0) != area(given, other, 5.0)
    assert moved > 3


@pytest.mark.parametrize("name", ["loftr", "eloftr", "zeb"])
def test_the_last_of_equal_pairs_counts_alone(name: str) -> None:
    given = [turned(8), turned(1), turned(3, names="cd")]
    assert area(given, PROTOCOLS[name]) == pytest.approx(trapezoid([1, 3], 10), abs=1e-4)
    assert area(given, switched(name, last_duplicate=False)) == pytest.approx(
        trapezoid([8, 1, 3], 10), abs=1e-4
    )


@pytest.mark.parametrize(
    ("name", "error"),
    [("superglue", math.inf), ("loftr", math.inf), ("roma", 90.0), ("zeb", 180.0), ("imc", 180.0)],
)
def test_the_value_of_a_failure(name: str, error: float) -> None:
    poses = Poses([turned(2, ok=False)])
    assert pose_row_errors(poses, PROTOCOLS[name])[2].tolist() == [error]
    assert pose_row_errors(poses, switched(name, failure=33.0))[2].tolist() == [33.0]


def test_failures_of_poselib_by_estimator() -> None:
    """The same row is 90 under ELoFTR's test, the angle of no translation under others."""
    none = turned(0, ok=False)
    columns = {c: np.array(none[c]) for c in none.columns}
    columns["R"], columns["t"] = np.eye(3).reshape(1, 9), np.zeros((1, 3))
    columns["setting"][:] = 1
    row = Poses([Records("pair", columns, none.meta)])
    assert pose_row_errors(row, PROTOCOLS["eloftr"])[2].tolist() == [90.0]
    columns["setting"][:] = 0
    row = Poses([Records("pair", columns, none.meta)])
    assert np.isnan(pose_row_errors(row, PROTOCOLS["dad"])[2]).all()
    assert pose_row_errors(row, PROTOCOLS["exact"])[2].tolist() == [180.0]
    columns["setting"][:] = 2
    row = Poses([Records("pair", columns, none.meta)])
    assert pose_row_errors(row, PROTOCOLS["glue-factory"])[0].tolist() == [90.0]


def test_pythons_sort_is_disturbed_by_an_error_that_is_no_number() -> None:
    """Trap 3: the place of NaN decides under xfeat, not under protocols that sort with NumPy."""
    lists = [[1, 3, 8, math.nan], [8, math.nan, 1, 3]]
    by_rule = {}
    for area_rule in ("as-sorted", "trapezoid", "exact"):
        protocol = PoseProtocol(PROTOCOLS["dad"].settings[:1], PoseScoring(area=area_rule))
        found = []
        for errors in lists:
            given = []
            for i, e in enumerate(errors):
                made = turned(0 if math.isnan(e) else e, names=(f"a{i}", f"b{i}"))
                if math.isnan(e):
                    columns = {c: np.array(made[c]) for c in made.columns} | {"t": np.zeros((1, 3))}
                    made = Records("pair", columns, made.meta)
                given.append(made)
            found.append(area(given, replace(protocol, headline={"": protocol.settings[0].parts})))
        by_rule[area_rule] = found
    assert by_rule["as-sorted"] == pytest.approx([0.55, 0.15], abs=1e-6)
    assert by_rule["trapezoid"] == pytest.approx([0.55, 0.55], abs=1e-6)
    assert by_rule["exact"] == pytest.approx([0.45, 0.45], abs=1e-6)


def test_angles_in_single_precision_do_not_resolve_hundredths_of_a_degree() -> None:
    given = several([0.003, 0.004])
    settings = PROTOCOLS["superglue"].settings
    by = {
        rule: pose_row_errors(Poses(given), PoseProtocol(settings, PoseScoring(rule)))[2]
        for rule in (ACOS, ACOS_TRUTH_FLOAT32, ACOS_FLOAT32)
    }
    assert by[ACOS] == pytest.approx([0.003, 0.004], abs=1e-6)
    assert np.abs(by[ACOS_FLOAT32] - by[ACOS]).max() > 1e-3
    assert np.abs(by[ACOS_TRUTH_FLOAT32] - by[ACOS]).max() > 1e-7


def test_an_error_equal_to_the_threshold_is_outside() -> None:
    """Trap 6, but for the accuracy of xfeat."""
    given = several([90.0, 1.0])
    e = pose_row_errors(Poses(given), PROTOCOLS["exact"])[2]
    assert area(given, switched("superglue"), t=float(e[0])) == pytest.approx(
        trapezoid([e[0], e[1]], e[0]), abs=1e-6
    )
    assert area(given, switched("superglue"), t=float(e[0])) < 0.5
    assert accuracy(np.array([5.0]), 5.0, strict=True) == 0
    assert accuracy(np.array([5.0]), 5.0, strict=False) == 1


def test_the_trapezoid_exceeds_the_exact_area_by_half_of_the_largest_kept_error() -> None:
    """Trap 7, on the same poses."""
    given = several([0.5, 2.0, 6.0, 30.0])
    gap = area(given, switched("superglue")) - area(given, switched("superglue", area="exact"))
    assert gap == pytest.approx(6.0 / (2 * 4 * 10), abs=1e-6)


def test_precision_squared_and_unsquared_are_different_quantities() -> None:
    """Trap 8."""
    one = pair()
    made = [records(one, seen(one, 400, 3.0), p) for p in ("superglue", "glue-factory")]
    squared = value(TASK.score(made[:1], "superglue"), "precision")
    mean = value(TASK.score(made[1:], "glue-factory"), "precision", "threshold=0.0005")
    assert squared > 0.9
    assert mean < 0.2


def test_pooling_repeats_leaves_the_exact_area_and_moves_the_trapezoid() -> None:
    """Trap 10: five equal repeats of every pair."""
    once, five = several([1, 4, 30]), several([[1] * 5, [4] * 5, [30] * 5])
    exact = switched("eloftr", area="exact", last_duplicate=False)
    assert area(five, exact) == pytest.approx(area(once, exact), abs=1e-12)
    assert area(five, PROTOCOLS["eloftr"]) < area(once, PROTOCOLS["eloftr"]) - 0.01


def test_glue_factory_rounds_to_four_decimals() -> None:
    given = several([1.2345, 3.3])
    rounded = area(given, PROTOCOLS["glue-factory"])
    assert rounded == round(area(given, switched("glue-factory", area="trapezoid")), 4)
    assert rounded != area(given, switched("glue-factory", area="trapezoid"))


def test_zeb_and_loftr_differ_on_scannet_in_the_frame() -> None:
    one = pair(dataset="scannet", size0=(1280, 960), size1=(1280, 960))
    made = [records(one, seen(one, 60, 3.0, wrong=25), "loftr")]
    assert value(TASK.score(made, "zeb"), "rotation_error_deg") != value(
        TASK.score(made, "loftr"), "rotation_error_deg"
    )
