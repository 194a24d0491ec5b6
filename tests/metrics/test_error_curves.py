"""Areas and shares of error lists: recorded figures of the tools, closed forms, plain restatements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pose_golden import assert_close, golden, needs_golden, numbers
from tiepoint.core.errors import InputError
from tiepoint.metrics import error_curves as curves

T = (5, 10, 20)
INF, NAN = float("inf"), float("nan")
RULES = {
    "superglue.pose_auc": lambda e: [curves.auc_trapezoid(e, t) for t in T],
    "roma.pose_auc": lambda e: [curves.auc_trapezoid(e, t) for t in T],
    "loftr.error_auc": lambda e: [curves.auc_python_sorted(e, t) for t in T],
    "xfeat.megadepth.error_auc": lambda e: [curves.auc_python_sorted(e, t) for t in T],
    "gluefactory.cal_error_auc (rounded to 4)": lambda e: [curves.auc_rounded(e, t) for t in T],
    "toolbox.cal_error_auc (percent)": lambda e: [100 * curves.auc_trapezoid(e, t) for t in T],
    "gim.tools.metrics.error_auc (accuracy under the name AUC)": lambda e: [curves.accuracy(e, t) for t in T],
    "gim.analysis.error_auc": lambda e: [
        curves.auc_trapezoid(np.where(np.isfinite(e), e, 180), t) for t in T
    ],
    "imc qt_auc (compute_qt_auc lines)": lambda e: [curves.maa(e, 5), curves.maa(e, 10)],
    "roma acc and map lines": lambda e: [
        *(curves.accuracy(e, t) for t in T), *(curves.map_roma(e, t) for t in T),
    ],
    "xfeat.scannet.pose_accuracy (percent)": lambda e: [100 * curves.accuracy(e, t) for t in T],
    "exact (ours)": lambda e: [curves.auc_exact(e, t) for t in T],
}  # fmt: skip


@needs_golden
@pytest.mark.parametrize("rule", RULES)
def test_rules_give_the_recorded_figures(rule):
    for case in golden()["auc"]:
        expected = case["out"][rule]
        expected = list(expected.values()) if isinstance(expected, dict) else expected
        assert_close(RULES[rule](numbers(case["errors"])), expected, 1e-12)


@needs_golden
def test_every_recorded_rule_is_compared():
    assert set(RULES) == set(golden()["auc"][0]["out"])


def trapezoid_in_words(errors, t):
    kept = sorted(e for e in errors if e < t)
    area, x, y = 0.0, 0.0, 0.0
    for i, e in enumerate(kept, 1):
        area += (e - x) * (y + i / len(errors)) / 2
        x, y = e, i / len(errors)
    return (area + (t - x) * y) / t


error_lists = st.lists(st.floats(0, 200) | st.sampled_from([INF, NAN, 5.0, 10.0]), min_size=1, max_size=40)


@given(error_lists, st.sampled_from(T))
def test_trapezoid_equals_its_restatement(errors, t):
    assert curves.auc_trapezoid(errors, t) == pytest.approx(trapezoid_in_words(errors, t), abs=1e-12)


@given(error_lists, st.sampled_from(T))
def test_trapezoid_exceeds_the_exact_area_by_half_of_the_largest_kept_error(errors, t):
    largest = max((e for e in errors if e < t), default=0)
    gap = curves.auc_trapezoid(errors, t) - curves.auc_exact(errors, t)
    assert gap == pytest.approx(largest / (2 * len(errors) * t), abs=1e-12)


@given(st.lists(st.floats(0, 30) | st.just(INF) | st.just(10.0), min_size=1, max_size=40))
def test_maa_is_the_mean_of_errors_rounded_down(errors):
    plain = np.mean([0.1 if e == 10 else max(0.0, 10 - np.floor(e)) / 10 for e in errors])
    assert curves.maa(errors, 10) == pytest.approx(plain, abs=1e-12)
    assert curves.maa(errors, 10) >= curves.auc_exact(errors, 10) - 1e-12


@given(error_lists, st.integers(0, 40))
def test_a_nan_does_not_change_the_place_of_others(errors, place):
    clean = [e for e in errors if not np.isnan(e)]
    with_nan, with_inf = ([*clean[:place], x, *clean[place:]] for x in (NAN, INF))
    for area in (curves.auc_trapezoid, curves.auc_exact, curves.accuracy, curves.maa):
        assert area(with_nan, 10) == area(with_inf, 10)


def test_an_error_equal_to_the_threshold_is_outside():
    assert curves.auc_trapezoid([5.0], 5) == 0
    assert curves.accuracy([5.0], 5) == 0
    assert curves.accuracy([5.0], 5, strict=False) == 1


def test_repeating_all_errors_leaves_the_exact_area_and_moves_the_trapezoid():
    errors = [1.0, 3.0, 8.0, INF]
    assert curves.auc_exact(errors * 5, 10) == pytest.approx(curves.auc_exact(errors, 10), abs=1e-15)
    assert curves.auc_trapezoid(errors * 5, 10) < curves.auc_trapezoid(errors, 10)


def test_no_errors_have_no_area():
    for area in (
        curves.auc_trapezoid,
        curves.auc_python_sorted,
        curves.auc_exact,
        curves.accuracy,
        curves.maa,
    ):
        assert np.isnan(area([], 10))


def test_a_threshold_must_be_positive():
    with pytest.raises(InputError, match="positive"):
        curves.auc_exact([1.0], 0)
    with pytest.raises(InputError, match="multiples of 5"):
        curves.map_roma([1.0], 7)


SUMMARY = golden().get("relative_pose_summary (pairs without _mnn)", {})


@needs_golden
@pytest.mark.parametrize("key", [k for k in SUMMARY if not k.startswith("exact")])
def test_recorded_areas_of_ten_pairs(key):
    """All repeats of all pairs pooled, the larger of the two angles."""
    cases = {n: c["out"] for n, c in golden()["relative_pose"].items() if not n.endswith("_mnn")}
    errors = []
    for case in cases.values():
        recorded = case[key]["err"] if isinstance(case[key], dict) else case[key]
        errors += numbers(recorded).reshape(-1, 2).max(axis=1).tolist()
    record = SUMMARY[key]
    assert (len(cases), len(errors)) == (record["pairs"], record["errors"])
    assert_close([curves.auc_trapezoid(errors, t) for t in T], record["auc_trapezoid_5_10_20"], 1e-12)
    assert_close([curves.auc_exact(errors, t) for t in T], record["auc_exact_5_10_20"], 1e-12)
    assert_close([curves.accuracy(errors, t) for t in T], record["accuracy_5_10_20"], 1e-12)


@needs_golden
@pytest.mark.parametrize(("estimator", "key"), [("poselib", "PoseLib"), ("opencv", "OpenCV USAC")])
def test_recorded_mean_over_seeds_of_the_exact_area(estimator, key):
    record = SUMMARY[f"exact: {key} 1 px at 1000, seeds 0..4"]
    cases = {n: c[estimator] for n, c in golden()["relative_pose_exact"].items() if not n.endswith("_mnn")}
    rows = np.array([c["1.0"] if estimator == "poselib" else c for c in cases.values()], float)
    areas = np.array([[curves.auc_exact(rows[:, s, :2].max(axis=1), t) for t in T] for s in range(5)])
    assert_close(areas, record["per_seed"], 1e-12)
    assert_close(areas.mean(axis=0), record["auc_exact_5_10_20"], 1e-12)
    assert_close(areas.std(axis=0, ddof=1), record["sd_over_seeds"], 1e-12)
