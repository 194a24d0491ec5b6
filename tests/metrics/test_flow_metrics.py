# SPDX-License-Identifier: BSD-3-Clause
"""Flow metrics against plain loops; accuracy is monotone; truth scores 1."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tiepoint.geometry.flow_resize import resize_flow_pair
from tiepoint.metrics.flow import (
    aepe,
    endpoint_error,
    fl,
    flow_accuracy,
    flow_counts,
    flow_counts_resized,
)

F = np.float32
CODES = [0.0, 3.0, -4.0, 1e9, 1.001e9, -1e10, 1e10, math.nan, math.inf]
values = st.one_of(st.sampled_from(CODES), st.floats(-30, 30, width=32))
pairs = st.tuples(st.integers(1, 5), st.integers(1, 5)).flatmap(
    lambda s: st.tuples(*[hnp.arrays(F, (*s, 2), elements=values) for _ in range(2)])
)


def good(u: float, v: float) -> bool:
    return abs(u) <= 1e9 and abs(v) <= 1e9


def loop_counts(
    flow: np.ndarray, truth: np.ndarray, thresholds: list[float], rule: str
) -> tuple[list[int], int]:
    """Right pixels by threshold and pixels counted, by the definitions."""
    right = [0] * len(thresholds)
    n = 0
    kind = F if rule == "tss-cpp" else np.float64
    for (u, v), (gu, gv) in zip(flow.reshape(-1, 2), truth.reshape(-1, 2), strict=True):
        if not (gu < 1e9 if rule == "tss-matlab" else good(gu, gv)):
            continue
        n += 1
        du, dv = kind(u) - kind(gu), kind(v) - kind(gv)
        e = np.sqrt(du * du + dv * dv)
        if rule != "tss-matlab" and not good(u, v):
            e = kind(1000) if rule == "tss-cpp" else kind(np.inf)
        for k, t in enumerate(thresholds):
            right[k] += not e > kind(t)
    return right, n


@settings(deadline=None, max_examples=150)
@given(pairs, st.sampled_from(["exact", "tss-cpp", "tss-matlab"]))
def test_counts_as_defined(pair, rule: str) -> None:
    flow, truth = pair
    thresholds = [0.0, 0.5, 5.0, 20.0, 999.0, 1000.0, 1e12]
    with np.errstate(all="ignore"):
        found = flow_counts(flow, truth, thresholds, rule=rule)
        right, n = loop_counts(flow, truth, thresholds, rule)
    assert found.correct.tolist() == right
    assert found.valid == n


@given(pairs)
def test_accuracy_is_monotone_in_the_threshold(pair) -> None:
    counts = flow_counts(*pair, list(np.linspace(0, 60, 30)))
    assert (np.diff(counts.correct) >= 0).all()


@given(pairs)
def test_truth_as_result_is_right_everywhere(pair) -> None:
    truth = pair[1]
    for rule in ("exact", "tss-cpp"):
        counts = flow_counts(truth, truth, [0.0], rule=rule)
        assert counts.correct[0] == counts.valid == counts.known


def test_the_order_of_equal_distance() -> None:
    """An error that equals the threshold is right."""
    truth = np.zeros((1, 1, 2))
    assert flow_accuracy(np.array([[[3.0, 4.0]]]), truth, 5.0) == 1.0
    assert flow_accuracy(np.array([[[3.0, 4.0]]]), truth, np.nextafter(5.0, 0)) == 0.0


def test_kit_forgives_unknown_in_large_images() -> None:
    """The quirk: 1000 px is within T50 of an image above 2000 px; `exact` never forgives."""
    flow, truth = np.full((1, 1, 2), 1e10), np.zeros((1, 1, 2))
    assert flow_counts(flow, truth, [1001.0], rule="tss-cpp").correct[0] == 1
    assert flow_counts(flow, truth, [1001.0]).correct[0] == 0


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["exact", "tss-cpp"]))
def test_counting_while_resizing_changes_nothing(seed: int, rule: str) -> None:
    rng = np.random.default_rng(seed)
    sizes = [tuple(int(n) for n in rng.integers(1, 14, 2)) for _ in range(4)]
    flows = [rng.normal(0, 6, (*s, 2)).astype(F) for s in sizes[:2]]
    truths = [rng.normal(0, 6, (*s, 2)).astype(F) for s in sizes[2:]]
    for array in (*flows, *truths):
        array[rng.random(array.shape[:2]) < 0.2] = rng.choice([1e10, np.nan])
    limits = [0.5, 2.0, 8.0, 32.0]
    if sizes[:2] == sizes[2:]:
        return
    with np.errstate(all="ignore"):
        resized = resize_flow_pair(*flows, sizes[2], sizes[3], rule=rule)
        for i in (0, 1):
            two = flow_counts(resized[i], truths[i], limits, rule=rule)
            one = flow_counts_resized(
                flows[i], truths[i], limits, old_other=sizes[1 - i], other=sizes[3 - i], rule=rule
            )
            assert two.correct.tolist() == one.correct.tolist()
            assert (two.valid, two.known) == (one.valid, one.known)
            assert two.error_sum_px == pytest.approx(one.error_sum_px, rel=1e-12)


@given(pairs)
def test_error_and_its_means_by_hand(pair) -> None:
    flow, truth = pair
    with np.errstate(all="ignore"):
        error = endpoint_error(flow, truth)
        errors, outliers, counted = [], 0, 0
        for (u, v), (gu, gv), e in zip(flow.reshape(-1, 2), truth.reshape(-1, 2), error.ravel(), strict=True):
            if not good(gu, gv):
                assert np.isnan(e)
                continue
            counted += 1
            if not good(u, v):
                assert e == np.inf
                outliers += 1
                continue
            own = math.hypot(float(u) - float(gu), float(v) - float(gv))
            assert e == pytest.approx(own)
            errors.append(own)
            outliers += own > 3 and own > 0.05 * math.hypot(gu, gv)
        if errors:
            assert aepe(flow, truth) == pytest.approx(sum(errors) / len(errors))
        else:
            assert np.isnan(aepe(flow, truth))
        if counted:
            assert fl(flow, truth) == pytest.approx(outliers / counted)
        else:
            assert np.isnan(fl(flow, truth))


def test_wrong_calls() -> None:
    zero = np.zeros((2, 2, 2))
    with pytest.raises(ValueError, match="differ in shape"):
        flow_counts(zero, np.zeros((2, 3, 2)), [1.0])
    with pytest.raises(ValueError, match="must not decrease"):
        flow_counts(zero, zero, [2.0, 1.0])
    with pytest.raises(ValueError, match="unknown rule"):
        flow_counts(zero, zero, [1.0], rule="kit")
