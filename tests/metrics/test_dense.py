# SPDX-License-Identifier: BSD-3-Clause
"""Flow metrics against plain loops; accuracy is monotone; truth scores 1."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tiepoint.geometry.flow.resize import FlowRule, resize_flow_pair
from tiepoint.metrics.dense import (
    endpoint_error,
    flow_counts,
    flow_counts_resized,
    mask_counts,
    outliers,
    pck_length,
    point_errors,
    points_right,
)
from tiepoint.tasks.dense.protocols import RULES

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
        found = flow_counts(flow, truth, thresholds, rule=RULES[rule])
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
        counts = flow_counts(truth, truth, [0.0], rule=RULES[rule])
        assert counts.correct[0] == counts.valid == counts.known


def test_the_order_of_equal_distance() -> None:
    """An error that equals the threshold is right."""
    truth = np.zeros((1, 1, 2))
    counts = flow_counts(np.array([[[3.0, 4.0]]]), truth, [np.nextafter(5.0, 0), 5.0])
    assert counts.correct.tolist() == [0, 1]


def test_kit_forgives_unknown_in_large_images() -> None:
    """The quirk: 1000 px is within T50 of an image above 2000 px; `exact` never forgives."""
    flow, truth = np.full((1, 1, 2), 1e10), np.zeros((1, 1, 2))
    assert flow_counts(flow, truth, [1001.0], rule=RULES["tss-cpp"]).correct[0] == 1
    assert flow_counts(flow, truth, [1001.0]).correct[0] == 0


LAYOUTS = {
    "int32": lambda a: a.astype(np.int32),
    "int64": lambda a: a.astype(np.int64),
    "float16": lambda a: a.astype(np.float16),
    "big-endian": lambda a: a.astype(">f4"),
    "big-endian double": lambda a: a.astype(">f8"),
    "long double": lambda a: a.astype(np.longdouble),
    "Fortran order": lambda a: np.asfortranarray(a, F),
    "channels first": lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 2, 0), F), 0, 2),
    "columns backwards": lambda a: np.ascontiguousarray(a[:, ::-1], F)[:, ::-1],
    "part of a larger one": lambda a: np.pad(a.astype(F), ((1, 1), (1, 1), (0, 0)))[1:-1, 1:-1],
    "not aligned": lambda a: np.frombuffer(b"-" + a.astype(F).tobytes(), F, offset=1).reshape(a.shape),
}


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rule", ["exact", "tss-cpp", "tss-matlab"])
def test_every_type_and_layout_counts_the_same(layout: str, rule: str) -> None:
    rng = np.random.default_rng(7)
    flow, truth = (rng.integers(-40, 40, (4, 6, 2)).astype(np.float64) for _ in range(2))
    flow[0, 0], limits = 300, [5.0, 30.0, 60.0, 250.0]
    make = LAYOUTS[layout]
    expected = flow_counts(flow, truth, limits, rule=RULES[rule])
    assert (
        flow_counts(make(flow), make(truth), limits, rule=RULES[rule]).correct.tolist()
        == expected.correct.tolist()
    )
    assert (
        flow_counts(make(flow), truth, limits, rule=RULES[rule]).correct.tolist() == expected.correct.tolist()
    )
    if rule != "tss-matlab":
        sizes = {"old_other": (4, 5), "other": (9, 7), "rule": RULES[rule]}
        small, large = flow, rng.integers(-40, 40, (7, 9, 2)).astype(np.float64)
        whole = flow_counts_resized(small, large, limits, **sizes)
        found = flow_counts_resized(make(small), make(large), limits, **sizes)
        assert found.correct.tolist() == whole.correct.tolist()


def test_whole_numbers_are_not_read_as_bits() -> None:
    flow, truth = np.full((4, 6, 2), 300, np.int32), np.zeros((4, 6, 2), F)
    assert flow_counts(flow, truth, [5.0], rule=RULES["tss-cpp"]).correct.tolist() == [0]


@pytest.mark.slow
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
        resized = resize_flow_pair(*flows, sizes[2], sizes[3], rule=RULES[rule])
        for i in (0, 1):
            two = flow_counts(resized[i], truths[i], limits, rule=RULES[rule])
            one = flow_counts_resized(
                flows[i], truths[i], limits, old_other=sizes[1 - i], other=sizes[3 - i], rule=RULES[rule]
            )
            assert two.correct.tolist() == one.correct.tolist()
            assert (two.valid, two.known) == (one.valid, one.known)
            assert two.error_sum_px == pytest.approx(one.error_sum_px, rel=1e-12)


@given(pairs)
def test_error_and_outliers_by_hand(pair) -> None:
    flow, truth = pair
    with np.errstate(all="ignore"):
        error = endpoint_error(flow, truth)
        errors, wrong = [], 0
        for (u, v), (gu, gv), e in zip(flow.reshape(-1, 2), truth.reshape(-1, 2), error.ravel(), strict=True):
            if not good(gu, gv):
                assert np.isnan(e)
                continue
            if not good(u, v):
                assert e == np.inf
                wrong += 1
                continue
            own = math.hypot(float(u) - float(gu), float(v) - float(gv))
            assert e == pytest.approx(own)
            errors.append(own)
            wrong += own > 3 and own > 0.05 * math.hypot(gu, gv)
        assert error[np.isfinite(error)].sum() == pytest.approx(sum(errors))
        assert outliers(error, truth) == wrong


def test_wrong_calls() -> None:
    zero = np.zeros((2, 2, 2))
    with pytest.raises(ValueError, match="must have the same shape"):
        flow_counts(zero, np.zeros((2, 3, 2)), [1.0])
    with pytest.raises(ValueError, match="ascending order"):
        flow_counts(zero, zero, [2.0, 1.0])
    with pytest.raises(ValueError, match="unknown resampling"):
        FlowRule("kit")
    with pytest.raises(ValueError, match="not bilinear"):
        flow_counts_resized(zero, zero, [1.0], old_other=(2, 2), other=(3, 3), rule=RULES["tss-matlab"])
    for other in (np.zeros((2, 2, 3)), np.zeros((2, 2, 2), complex)):
        with pytest.raises(ValueError, match="real numbers"):
            flow_counts(other, other, [1.0])


two = st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(
    lambda s: st.tuples(
        *[hnp.arrays(np.uint8, s, elements=st.sampled_from([0, 1, 2, 128, 255])) for _ in range(2)]
    )
)


@given(two)
def test_counts_by_hand(pair) -> None:
    a, b = pair
    plain, bitwise = mask_counts(a, b), mask_counts(a, b, bitwise=True)
    expected = [0] * 6
    for m, g in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True):
        expected[0] += bool(m and g)
        expected[1] += bool(m or g)
        expected[2] += bool(m) != bool(g)
        expected[3] += (m & g) != 0
        expected[4] += (m | g) != 0
        expected[5] += (m ^ g) != 0
    assert [plain.intersection, plain.union, plain.differing] == expected[:3]
    assert [bitwise.intersection, bitwise.union, bitwise.differing] == expected[3:]
    assert plain.pixels == a.size


@given(two)
def test_symmetric(pair) -> None:
    a, b = pair
    for bitwise in (False, True):
        assert mask_counts(a, b, bitwise=bitwise) == mask_counts(b, a, bitwise=bitwise)


@given(two)
def test_same_mask_is_perfect(pair) -> None:
    mask = pair[0]
    counts = mask_counts(mask, mask)
    assert counts.pixel_accuracy == 1.0
    assert counts.iou == 1.0 if mask.any() else np.isnan(counts.iou)


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="must have the same shape"):
        mask_counts(np.zeros((2, 2)), np.zeros((2, 3)))


points = hnp.arrays(np.float64, st.tuples(st.integers(0, 8), st.just(2)), elements=st.floats(-50, 150))


@given(points, st.floats(1, 100), st.integers(0, 99))
def test_right_points_by_hand(truth: np.ndarray, length: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = truth + rng.normal(0, 5, truth.shape)
    found[rng.random(len(truth)) < 0.2] = np.nan
    errors = point_errors(found, truth)
    for alpha in (0.02, 0.1, 0.5):
        expected = sum(np.hypot(*(f - t)) <= alpha * length for f, t in zip(found, truth, strict=True))
        assert points_right(errors, length, alpha) == expected


def test_padding_does_not_change_the_length() -> None:
    truth = np.array([[10.0, 10.0], [30.0, 20.0]])
    for array in (truth, np.vstack([truth, [[np.nan, np.nan]] * 3])):
        assert pck_length("keypoints", size=(9, 9), points=array) == 20.0


def test_lengths_and_ties() -> None:
    corners = np.array([[0.0, 0.0], [6.0, 8.0]])
    assert pck_length("image", size=(30, 20), points=corners) == 30.0
    assert pck_length("box", size=(30, 20), points=corners, box=(1, 2, 6, 12)) == 10.0
    assert points_right(point_errors(np.array([[3.0, 4.0]]), np.zeros((1, 2))), 50.0, 0.1) == 1
    with pytest.raises(ValueError, match="needs an object box"):
        pck_length("box", size=(30, 20), points=corners)
    with pytest.raises(ValueError, match="unknown scale"):
        pck_length("bbox", size=(30, 20), points=corners)
