# SPDX-License-Identifier: BSD-3-Clause
"""Breakdown points: recorded figures, and plain loops written from the rules."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest

from less_golden import golden, needs_golden
from tiepoint.stats.breakdown import (
    LINEAR,
    LOG2,
    QUALITY,
    BreakdownPoint,
    non_increasing_fit,
    stress_curve,
)

AXES = {"scale": LOG2, "jpeg": QUALITY}
MASK = (1 << 64) - 1


def word(point: BreakdownPoint) -> str:
    return ">" if point.beyond else "0" if point.nothing else ""


@needs_golden
def test_breakdown_equals_recorded_figures() -> None:
    for name, case in golden()["stress"]["breakdown"].items():
        axis = AXES.get(case["kind"], LINEAR)
        table = np.array(case["table"], float)
        made = stress_curve(table, case["levels"], case["scene_names"], axis=axis, kind=case["kind"])
        assert np.allclose(made.mean, case["mean"], atol=1e-9, rtol=0), name
        assert np.allclose(made.fit, case["fit"], atol=1e-9, rtol=0), name
        assert made.interval is not None
        points = [case["point_and_word"], *case["interval"]]
        for found, (level, text) in zip([made.point, *made.interval], points, strict=True):
            assert word(found) == text, name
            assert math.isclose(found.level, level, abs_tol=1e-9), name


def restated_fit(values: list[float]) -> list[float]:
    """min over j <= i of max over k >= i of the mean of values j..k: the non-increasing least-squares fit."""
    n = len(values)
    mean = lambda j, k: sum(values[j : k + 1]) / (k + 1 - j)  # noqa: E731
    return [min(max(mean(j, k) for k in range(i, n)) for j in range(i + 1)) for i in range(n)]


def restated_point(fit: list[float], axis: list[float]) -> tuple[bool, float]:
    if fit[0] <= 0:
        return False, -1e9
    for i, value in enumerate(fit):
        if value <= fit[0] / 2:
            share = (fit[i - 1] - fit[0] / 2) / (fit[i - 1] - value)
            return False, axis[i - 1] + share * (axis[i] - axis[i - 1])
    return True, axis[-1]


def restated_interval(table: Any, axis: list[float], names: list[str], kind: str) -> list[tuple[bool, float]]:
    text = f"tiepoint-stress-interval|{kind}|{'|'.join(names)}"
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    points = []
    for draw in range(2000):
        rows = []
        for s in range(len(names)):
            x = (seed + draw * len(names) + s + 0x9E3779B97F4A7C15) & MASK
            x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
            u = ((x ^ (x >> 31)) >> 11) / 2**53
            rows.append(table[math.floor(u * len(names))])
        means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        points.append(restated_point(restated_fit(means), axis))
    points.sort()
    return [points[math.floor(q * 1999 + 0.5)] for q in (0.025, 0.975)]


def test_breakdown_equals_restated_loops() -> None:
    rng = np.random.default_rng(3)
    names = ["b", "a", "d", "c", "f", "e"]
    axis = [0.0, 10.0, 30.0, 40.0]
    table = np.clip(np.linspace(1, 0.1, 4) + rng.normal(0, 0.25, (6, 4)), 0, 1)
    made = stress_curve(table, axis, names, axis=LINEAR, kind="tilt")
    order = np.argsort(names)
    assert np.allclose(made.fit, restated_fit(made.mean.tolist()))
    assert made.point.level == pytest.approx(restated_point(made.fit.tolist(), axis)[1])
    expected = restated_interval(table[order].tolist(), axis, sorted(names), "tilt")
    assert made.interval is not None
    assert [(p.beyond, p.level) for p in made.interval] == [
        (beyond, pytest.approx(level)) for beyond, level in expected
    ]
    assert made.rise == pytest.approx(max(made.mean - made.fit))


def test_fit_of_random_sequences_equals_restated_loops() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 13):
        for _ in range(20):
            values = rng.random(n)
            assert np.allclose(non_increasing_fit(values), restated_fit(values.tolist()))


def test_order_of_scenes_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    table, names = rng.random((7, 3)), list("abcdefg")
    one = stress_curve(table, (1, 2, 4), names, axis=LOG2, kind="scale")
    other = stress_curve(table[::-1], (1, 2, 4), names[::-1], axis=LOG2, kind="scale")
    assert (one.point, one.interval) == (other.point, other.interval)


def test_few_scenes_have_no_interval() -> None:
    made = stress_curve(np.ones((5, 2)), (0, 1), list("abcde"), axis=LINEAR, kind="blur")
    assert made.interval is None
    assert made.point == BreakdownPoint(1.0, beyond=True)
