# SPDX-License-Identifier: BSD-3-Clause
"""Corner errors by name and as MINIMA sorts them, against recorded figures and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crossmodal_golden import golden, matrix, needs_golden, number
from tiepoint.geometry.two_view.homography_errors import (
    is_usable,
    named_corner_error,
    point_distances,
    sorted_corner_error,
    unusable_reason,
)
from tiepoint.metrics.error_curves import auc_exact, auc_python_sorted

CASES = {case["name"]: case for case in golden().get("cases", [])}


@needs_golden
@pytest.mark.parametrize("name", CASES or ["none"])
def test_corner_errors_equal_recorded(name: str) -> None:
    case = CASES[name]
    truth, estimate, size = matrix(case["truth"]), matrix(case["estimate"]), (case["w"], case["h"])
    exact, minima = number(case["exact"]), number(case["minima_mmim"])
    assert exact is not None
    assert minima is not None
    found = named_corner_error(estimate, truth, size)
    assert found == exact or found == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert found in (np.inf, pytest.approx(number(case["plain"]), rel=1e-9, abs=1e-9))
    assert case["l2m_mmim"] == case["minima_mmim"]  # L2M has a copy of that function
    if name not in (
        "turn 45 about the middle",
        "turn 135 about the middle",
        "truth turned 45, estimate 45 + 3 px",
    ):
        same = sorted_corner_error(estimate, truth, size)
        assert same == pytest.approx(minima, rel=1e-5, abs=1e-4, nan_ok=True)


@needs_golden
def test_recorded_cases_are_complete() -> None:
    assert len(CASES) == 47
    finite = [v for c in CASES.values() if np.isfinite(v := number(c["minima_mmim"]))]
    recorded = golden()["auc"]["minima rule over finite mmim errors"]
    more = golden()["auc"]["same, with one inf more"]
    exact = [number(c["exact"]) for c in CASES.values()]
    assert len(finite) == golden()["auc"]["n"]
    for t in golden()["auc"]["thresholds"]:
        assert auc_python_sorted(finite, t) == pytest.approx(recorded[f"auc@{t}"], abs=1e-12)
        assert auc_python_sorted([*finite, np.inf], t) == pytest.approx(more[f"auc@{t}"], abs=1e-12)
        wanted = golden()["auc"]["exact rule over exact errors"][str(t)]
        assert auc_exact(exact, t) == pytest.approx(wanted, abs=1e-12)


@needs_golden
def test_all_recorded_truths_of_mmim_are_usable() -> None:
    pairs = golden()["mmim"]["pairs"]
    assert len(pairs) == golden()["mmim"]["readable_in_the_stored_copy"] == 158
    for name, pair in pairs.items():
        H, size = matrix(pair["H_mov_to_fix"]), tuple(pair["size_mov"])
        assert unusable_reason(H, size) is None, name
        assert named_corner_error(H, H, size) == 0, name


@needs_golden
def test_auc_with_nan_depends_on_its_place_as_recorded() -> None:
    lists = ([1, 3, 8, np.nan], [np.nan, 1, 3, 8], [8, np.nan, 1, 3])
    for errors, recorded in zip(lists, golden()["auc"]["nan last/first/middle"], strict=True):
        found = [auc_python_sorted(errors, t) for t in (5, 10)]
        assert found == pytest.approx([float(v) for v in recorded], abs=1e-12, nan_ok=True)
        assert auc_exact(errors, 10) == pytest.approx((0.9 + 0.7 + 0.2) / 4)  # ours: NaN is a failure


@needs_golden
def test_matching_accuracy_equals_recorded() -> None:
    recorded = golden()["matching_accuracy"]
    distances = point_distances(recorded["H"], recorded["points0"], recorded["points1"])
    assert [float((distances <= t).mean()) for t in (1, 3, 5)] == pytest.approx(
        recorded["acc_1_3_5"], abs=1e-12
    )


def turned(degrees: float, w: int = 640, h: int = 480) -> np.ndarray:
    a = np.deg2rad(degrees)
    middle = np.array([[1, 0, (w - 1) / 2], [0, 1, (h - 1) / 2], [0, 0, 1]])
    turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    return middle @ turn @ np.linalg.inv(middle)


def test_half_turn_and_mirror_have_no_error_under_minima_alone() -> None:
    mirror = np.array([[-1.0, 0, 639], [0, 1, 0], [0, 0, 1]])
    for estimate, really in ((turned(180), 798.6), (mirror, 639.0)):
        assert sorted_corner_error(estimate, np.eye(3), (640, 480)) == pytest.approx(0, abs=1e-3)
        assert named_corner_error(estimate, np.eye(3), (640, 480)) == pytest.approx(really, abs=0.01)


def test_right_answer_near_45_degrees_is_wrong_under_minima_alone() -> None:
    assert named_corner_error(turned(46), turned(44), (640, 480)) == pytest.approx(13.937, abs=1e-3)
    assert sorted_corner_error(turned(46), turned(44), (640, 480)) == pytest.approx(549.159, abs=1e-2)


@pytest.mark.parametrize("factor", [-1.0, 7.0, -1e-9])
def test_sign_and_scale_of_estimate_do_not_matter(factor: float) -> None:
    H = np.array([[1.1, 0.05, -20], [-0.03, 0.95, 15], [1e-4, -2e-4, 1]])
    assert is_usable(factor * H, (640, 480))
    assert named_corner_error(factor * H, H, (640, 480)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("H", "reason"),
    [
        (np.zeros((3, 3)), "singular"),
        (np.outer([320.0, 240, 1], [0, 0, 1]), "singular"),
        (np.array([[1.0, 0, 0], [0, 1, 0], [-1 / 320, 0, 1]]), "horizon"),
        (np.array([[1.0, 0, 0], [0, 1, 0], [-1 / 639, 0, 1]]), "horizon"),
        (np.full((3, 3), np.nan), "not finite"),
    ],
)
def test_unusable_estimates_have_infinite_error(H: np.ndarray, reason: str) -> None:
    assert named_corner_error(H, np.eye(3), (640, 480)) == np.inf
    assert reason in str(unusable_reason(H, (640, 480)))


def restated_named(H: np.ndarray, truth: np.ndarray, w: int, h: int) -> float:
    total = 0.0
    for x, y in ((0, 0), (w - 1, 0), (0, h - 1), (w - 1, h - 1)):
        places = []
        for m in (H, truth):
            X, Y, W = (m[i, 0] * x + m[i, 1] * y + m[i, 2] for i in range(3))
            places.append((X / W, Y / W))
        total += math.dist(*places)
    return total / 4


def restated_sorted(H: np.ndarray, truth: np.ndarray, w: int, h: int) -> float:
    orders = []
    for m in (H, truth):
        places = []
        for x, y in ((0, 0), (w - 1, 0), (0, h - 1), (w - 1, h - 1)):
            X, Y, W = (m[i, 0] * x + m[i, 1] * y + m[i, 2] for i in range(3))
            places.append((X / W, Y / W))
        best = [places[0]] * 4
        for x, y in places[1:]:
            rules = (
                x + y < sum(best[0]),
                y - x < best[1][1] - best[1][0],
                x + y > sum(best[2]),
                y - x > best[3][1] - best[3][0],
            )
            best = [(x, y) if better else b for b, better in zip(best, rules, strict=True)]
        orders.append(best)
    return sum(math.dist(a, b) for a, b in zip(*orders, strict=True)) / 4


def test_corner_errors_equal_plain_loops() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        H, truth = (
            np.eye(3) + rng.normal(size=(3, 3)) * np.array([[0.4, 0.4, 30], [0.4, 0.4, 30], [2e-4, 2e-4, 0]])
            for _ in range(2)
        )
        if not (is_usable(H, (320, 200)) and is_usable(truth, (320, 200))):
            continue
        assert named_corner_error(H, truth, (320, 200)) == pytest.approx(restated_named(H, truth, 320, 200))
        wanted = restated_sorted(H, truth, 320, 200)
        assert sorted_corner_error(H, truth, (320, 200)) == pytest.approx(wanted, rel=1e-5, abs=1e-3)
