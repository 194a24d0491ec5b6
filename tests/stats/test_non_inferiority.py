# SPDX-License-Identifier: BSD-3-Clause
"""Non-inferiority: recorded figures, the strict margin, few units, Holm's method."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from less_golden import DATA
from tiepoint.stats.non_inferiority import holm, non_inferiority

GOLDEN = DATA.parent / "golden" / "learned.json"


@pytest.mark.skipif(not GOLDEN.is_file(), reason=f"no recorded figures at {GOLDEN}")
def test_non_inferiority_recorded_cases_match() -> None:
    cases: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text())["noninferiority"]
    assert len(cases) == 5
    for name, case in cases.items():
        found = non_inferiority(np.array(case["differences"]), case["margin"])
        assert found.units == case["k"], name
        assert found.mean == pytest.approx(case["mean"], abs=1e-12), name
        assert found.se == pytest.approx(case["se"], abs=1e-12), name
        assert found.lower == pytest.approx(case["lower_one_sided"], abs=1e-10), name
        assert found.p == pytest.approx(case["p"], abs=1e-10), name
        assert found.holds is case["holds"], name


def test_non_inferiority_plain_loop_matches() -> None:
    rng = np.random.default_rng(3)
    for k in (2, 5, 6, 40):
        values = [float(x) for x in rng.normal(0.01, 0.05, k)]
        total = 0.0
        for x in values:
            total += x
        mean = total / k
        squares = 0.0
        for x in values:
            squares += (x - mean) ** 2
        se = math.sqrt(squares / (k - 1) / k)
        found = non_inferiority(np.array(values), 0.02)
        assert found.lower == pytest.approx(mean - stats.t.ppf(0.95, k - 1) * se, abs=1e-12)
        assert found.p == pytest.approx(stats.t.sf((mean + 0.02) / se, k - 1), abs=1e-12)
        assert found.holds == (found.lower > -0.02) == (found.p < 0.05)


def test_non_inferiority_one_unit_is_undefined() -> None:
    one = non_inferiority(np.array([0.5]), 0.1)
    assert one.mean == 0.5
    assert math.isnan(one.lower)
    assert math.isnan(one.p)
    assert not one.holds
    assert math.isnan(non_inferiority(np.array([]), 0.1).mean)


def test_non_inferiority_equal_differences_on_margin_do_not_hold() -> None:
    # The mean of nine times 0.1 is not 0.1 in floating point.
    assert not non_inferiority(np.full(9, -0.1), 0.1).holds
    assert non_inferiority(np.full(9, -0.1), 0.1000001).holds


def test_non_inferiority_bound_on_margin_does_not_hold() -> None:
    differences = np.array([-0.11, 0.02, 0.03, -0.07, 0.01, -0.02])
    bound = non_inferiority(differences, 0.0).lower
    assert not non_inferiority(differences, -bound).holds
    assert non_inferiority(differences, -np.nextafter(bound, -1)).holds


def test_holm_plain_loop_matches() -> None:
    p = [0.03, 0.001, 0.2, 0.012, float("nan")]
    known = sorted((1.0 if x != x else x, i) for i, x in enumerate(p))
    expected, largest = [0.0] * len(p), 0.0
    for step, (x, i) in enumerate(known):
        largest = max(largest, min(1.0, (len(p) - step) * x))
        expected[i] = largest
    assert holm(np.array(p)).tolist() == expected
