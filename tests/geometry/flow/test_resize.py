# SPDX-License-Identifier: BSD-3-Clause
"""Resizing flows and masks against plain loops written from the rules, and against OpenCV bit by bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiepoint.geometry.flow.reference_resize import imresize, resize_u8
from tiepoint.geometry.flow.resize import resize_flow_pair, resize_mask, same_scale
from tiepoint.tasks.dense.protocols import RULES

F = np.float32
sides = st.integers(1, 9)


def loop_taps(old: int, new: int, d: int, *, along_x: bool) -> tuple[int, int, np.float32]:
    scale = 1.0 / (new / old)
    f = F((d + 0.5) * scale - 0.5)
    s = math.floor(f)
    f = F(f - F(s))
    if along_x:
        if s < 0:
            s, f = 0, F(0)
        if s >= old - 1:
            s, f = old - 1, F(0)
    first, second = min(max(s, 0), old - 1), min(max(s + 1, 0), old - 1)
    return first, second, f


def loop_bilinear(image: np.ndarray, y: int, x: int, new: tuple[int, int]) -> np.float32:
    a, b, fx = loop_taps(image.shape[1], new[1], x, along_x=True)
    c, d, fy = loop_taps(image.shape[0], new[0], y, along_x=False)
    top = image[c, a] * (F(1) - fx) + image[c, b] * fx
    bottom = image[d, a] * (F(1) - fx) + image[d, b] * fx
    return top * (F(1) - fy) + bottom * fy


def loop_cpp(
    flow: np.ndarray, new: tuple[int, int], old_other: tuple[int, int], other: tuple[int, int]
) -> np.ndarray:
    """The C++ rule for one flow, pixel by pixel: float32, but products are of float64, then rounded."""
    h, w = flow.shape[:2]
    good = ((np.abs(flow[..., 0]) <= 1e9) & (np.abs(flow[..., 1]) <= 1e9)).astype(F)
    out = np.empty((*new, 2), F)
    for y in range(new[0]):
        for x in range(new[1]):
            u = loop_bilinear(flow[..., 0], y, x, new)
            v = loop_bilinear(flow[..., 1], y, x, new)
            u = F(float(u + F(x * (w / new[1]))) * (other[1] / old_other[1])) - F(x)
            v = F(float(v + F(y * (h / new[0]))) * (other[0] / old_other[0])) - F(y)
            out[y, x] = (u, v) if loop_bilinear(good, y, x, new) == 1 else (1e10, 1e10)
    return out


@settings(deadline=None, max_examples=40)
@given(sides, sides, sides, sides, sides, sides, sides, sides, st.integers(0, 2**32 - 1))
def test_cpp_rule_pixel_by_pixel(h1, w1, h2, w2, h3, w3, h4, w4, seed) -> None:
    rng = np.random.default_rng(seed)
    flows = [rng.normal(0, 9, (h, w, 2)).astype(F) for h, w in ((h1, w1), (h2, w2))]
    for flow in flows:
        flow[rng.random(flow.shape[:2]) < 0.1] = 1e10
    news = (h3, w3), (h4, w4)
    made = resize_flow_pair(*flows, *news, rule=RULES["tss-cpp"])
    for i in (0, 1):
        j = 1 - i
        if flows[i].shape[:2] == (2 * news[i][0], 2 * news[i][1]):
            continue  # OpenCV averages 2 x 2 there; tested below
        if (flows[0].shape[:2], flows[1].shape[:2]) == news:
            expected = flows[i]
        else:
            expected = loop_cpp(flows[i], news[i], flows[j].shape[:2], news[j])
        assert np.array_equal(made[i], expected)


def test_nan_makes_its_neighbours_unknown() -> None:
    flow = np.zeros((4, 4, 2), F)
    flow[1, 1, 0] = np.nan
    for rule in ("tss-cpp", "exact"):
        out, _ = resize_flow_pair(flow, np.zeros((4, 4, 2), F), (8, 8), (8, 8), rule=RULES[rule])
        unknown = out[..., 0] == 1e10
        assert unknown.sum() == 16
        assert unknown[1:5, 1:5].all()


SIZES = [(6, 12), (12, 6), (6, 6), (6, 18), (18, 6), (12, 12), (9, 9), (3, 3), (4, 4), (2, 6), (5, 7)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("code", [np.nan, np.inf, -np.inf, -1e10, 3e38, 1.1e9])
def test_every_code_for_unknown_gives_the_same_exact_flow(size: tuple[int, int], code: float) -> None:
    """A neighbour of weight 0 is no contributor, be it NaN or a number."""
    rng = np.random.default_rng(5)
    for place in np.ndindex(6, 6):
        flow = rng.normal(0, 3, (6, 6, 2)).astype(F)
        flow[place] = 1e10
        expected, _ = resize_flow_pair(flow, np.zeros((5, 5, 2), F), size, (10, 10))
        flow[place] = code
        found, _ = resize_flow_pair(flow, np.zeros((5, 5, 2), F), size, (10, 10))
        assert np.array_equal(found, expected)


def test_unknown_pixels_where_an_axis_keeps_its_size() -> None:
    for code in (1e10, np.nan, np.inf):
        flow = np.zeros((6, 6, 2), F)
        flow[4, 4] = code
        back = np.zeros((5, 5, 2), F)
        exact, _ = resize_flow_pair(flow, back, (6, 12), (10, 10))
        assert (exact == 1e10).all(axis=2).sum() == 4
        for rule in ("exact", "tss-cpp"):
            same, _ = resize_flow_pair(flow, back, (6, 6), (10, 10), rule=RULES[rule])
            assert np.argwhere((same == 1e10).any(axis=2)).tolist() == [[4, 4]]
            assert np.isfinite(same).all()


@settings(deadline=None, max_examples=80)
@given(sides, sides, sides, sides, st.sampled_from([1e10, np.nan, np.inf]), st.integers(0, 2**32 - 1))
def test_cpp_rule_knows_what_opencv_knows(h, w, new_h, new_w, code, seed) -> None:
    """The kit's steps with OpenCV itself: known iff all contributors are and the value is a number."""
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(seed)
    flow = rng.normal(0, 9, (h, w, 2)).astype(F)
    flow[rng.random((h, w)) < 0.15] = code
    other = (new_h + 1, new_w)
    out, _ = resize_flow_pair(flow, np.zeros((3, 4, 2), F), (new_h, new_w), other, rule=RULES["tss-cpp"])
    good = np.isfinite(flow).all(axis=2) & (np.abs(flow) <= 1e9).all(axis=2)
    whole = cv2.resize(good.astype(F), (new_w, new_h), interpolation=cv2.INTER_LINEAR).reshape(new_h, new_w)
    values = cv2.resize(flow, (new_w, new_h), interpolation=cv2.INTER_LINEAR).reshape(new_h, new_w, 2)
    expected = (whole == 1) & (np.abs(values) <= 1e9).all(axis=2)
    assert np.array_equal((np.abs(out) <= 1e9).all(axis=2), expected)


def test_flows_of_any_layout_and_type() -> None:
    whole = np.random.default_rng(6).integers(-20, 20, (6, 8, 2))
    back = np.zeros((5, 5, 2), F)
    for rule in ("exact", "tss-cpp"):
        expected, _ = resize_flow_pair(whole.astype(F), back, (9, 11), (10, 10), rule=RULES[rule])
        for given_flow in (
            whole.astype(np.int32), whole.astype(np.float16), whole.astype(">f4"), np.asfortranarray(whole),
            whole[:, ::-1].astype(F)[:, ::-1], np.moveaxis(np.moveaxis(whole, 2, 0).astype(F).copy(), 0, 2),
        ):  # fmt: skip
            found, _ = resize_flow_pair(given_flow, back, (9, 11), (10, 10), rule=RULES[rule])
            assert np.array_equal(found, expected)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([1, 3]),
    st.integers(0, 99),
)
def test_bytes_as_opencv(h, w, new_h, new_w, channels, seed) -> None:
    cv2 = pytest.importorskip("cv2")
    image = np.random.default_rng(seed).integers(0, 256, (h, w, channels)).astype(np.uint8)
    theirs = cv2.resize(image, (new_w, new_h), interpolation=cv2.INTER_LINEAR).reshape(new_h, new_w, channels)
    assert np.array_equal(resize_u8(image, new_h, new_w), theirs)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30), st.integers(1, 30), st.integers(0, 99))
def test_flow_values_as_opencv(h, w, new_h, new_w, seed) -> None:
    """With the other image growing as the flow's own, the formula adds and removes the same positions."""
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(seed)
    flow = (rng.integers(-64, 64, (h, w, 2)) / 4).astype(F)
    theirs = cv2.resize(flow, (new_w, new_h), interpolation=cv2.INTER_LINEAR).reshape(new_h, new_w, 2)
    ours, _ = resize_flow_pair(flow, flow, (new_h, new_w), (new_h, new_w), rule=RULES["tss-cpp"])
    scale = np.array([new_w / w, new_h / h])
    assert np.abs(ours - theirs * scale).max() < 1e-3


def test_exact_halving_is_a_mean_of_four() -> None:
    flow = np.random.default_rng(0).normal(0, 9, (4, 6, 2)).astype(F)
    out, _ = resize_flow_pair(flow, flow, (2, 3), (2, 3), rule=RULES["tss-cpp"])
    a, b, c, d = flow[::2, ::2], flow[::2, 1::2], flow[1::2, ::2], flow[1::2, 1::2]
    mean = (((a + b) + c) + d) * F(0.25)
    x, y = np.arange(3, dtype=F), np.arange(2, dtype=F)[:, None]
    # Factors of 2 and 1/2 are exact in every precision.
    assert np.array_equal(out[..., 0], (mean[..., 0] + x * F(2)) * F(0.5) - x)
    assert np.array_equal(out[..., 1], (mean[..., 1] + y * F(2)) * F(0.5) - y)


@settings(deadline=None, max_examples=40)
@given(
    st.floats(0.3, 3),
    st.floats(-4, 4),
    st.integers(4, 12),
    st.integers(4, 12),
    st.integers(4, 20),
    st.integers(4, 20),
)
def test_exact_keeps_an_affine_map(slope, offset, w1, w2, new1, new2) -> None:
    """A map linear in pixel *areas* stays that map under any change of sizes; borders are clamped."""
    h = 4

    def flow_of(source: int, target: int) -> np.ndarray:
        centre = (np.arange(source) + 0.5) / source
        goal = (slope * centre + offset) * target - 0.5
        return np.stack([np.tile(goal - np.arange(source), (h, 1)), np.zeros((h, source))], axis=2)

    made, _ = resize_flow_pair(flow_of(w1, w2), np.zeros((h, w2, 2)), (h, new1), (h, new2))
    inner = (np.arange(new1) + 0.5) / new1
    keep = (inner >= 0.5 / w1) & (inner <= 1 - 0.5 / w1)
    assert np.allclose(made[:, keep], flow_of(new1, new2)[:, keep], atol=1e-9 * 100)


def loop_imresize_row(row: np.ndarray, new: int) -> list[float]:
    """MATLAB's rule along one dimension, by hand."""
    old = len(row)
    scale = new / old
    shrink = min(scale, 1.0)
    out = []
    for k in range(1, new + 1):
        u = k / scale + 0.5 * (1 - 1 / scale)
        left = math.floor(u - 1 / shrink)
        weights, values = [], []
        for j in range(left, left + math.ceil(2 / shrink) + 2):
            weights.append(max(1 - abs((u - j) * shrink), 0.0))
            place = (j - 1) % (2 * old)
            values.append(row[place if place < old else 2 * old - 1 - place])
        out.append(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))
    return out


@pytest.mark.parametrize(("old", "new"), [(5, 9), (9, 5), (7, 7), (12, 5), (3, 10), (512, 340)])
def test_imresize_by_hand(old: int, new: int) -> None:
    row = np.random.default_rng(old).normal(size=old)
    assert np.allclose(imresize(row[None], 1, new)[0], loop_imresize_row(row, new), atol=1e-12)
    assert np.allclose(imresize(row[:, None], new, 1)[:, 0], loop_imresize_row(row, new), atol=1e-12)


def test_matlab_grid_starts_at_one() -> None:
    """Where the images are scaled differently, C++ and MATLAB differ by the constant of the grid's base."""
    flow, back = np.ones((6, 8, 2), F), np.zeros((6, 12, 2), F)
    sizes = (9, 12), (9, 12)
    cpp, _ = resize_flow_pair(flow, back, *sizes, rule=RULES["tss-cpp"])
    matlab, _ = resize_flow_pair(flow, back, *sizes, rule=RULES["tss-matlab"])
    exact, _ = resize_flow_pair(flow, back, *sizes)
    step = 8 / 12 * 12 / 12 - 1
    assert np.allclose(matlab[..., 0] - cpp[..., 0], step, atol=1e-5)
    assert np.allclose(exact[..., 0] - cpp[..., 0], step / 2, atol=1e-5)
    assert np.allclose(matlab[..., 1], cpp[..., 1], atol=1e-5)


def test_masks_under_three_rules() -> None:
    soft = np.array([[0, 1, 127, 128, 129, 255]], np.uint8)
    assert resize_mask(soft, (1, 6), rule=RULES["tss-cpp"]).tolist() == soft.tolist()
    assert resize_mask(soft, (1, 6), rule=RULES["tss-matlab"]).tolist() == [[0, 0, 0, 255, 255, 255]]
    assert resize_mask(soft, (1, 6)).tolist() == [[0, 255, 255, 255, 255, 255]]
    # Doubled: OpenCV's values are 0,0,1,33,...; only what exceeds 128 stays.
    doubled = resize_u8(soft, 1, 12)
    assert np.array_equal(resize_mask(soft, (1, 12), rule=RULES["tss-cpp"]) > 0, doubled > 128)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(0, 99))
def test_exact_mask_by_hand(h, w, new_h, new_w, seed) -> None:
    mask = (np.random.default_rng(seed).random((h, w)) < 0.5).astype(np.uint8) * 7
    out = resize_mask(mask, (new_h, new_w))
    if (h, w) == (new_h, new_w):
        assert np.array_equal(out > 0, mask > 0)
        return
    for y in range(new_h):
        for x in range(new_w):
            px = min(max((x + 0.5) * w / new_w - 0.5, 0), w - 1)
            py = min(max((y + 0.5) * h / new_h - 0.5, 0), h - 1)
            total = 0.0
            for j in range(h):
                for i in range(w):
                    total += max(0, 1 - abs(px - i)) * max(0, 1 - abs(py - j)) * (mask[j, i] > 0)
            if abs(total - 0.5) > 1e-9:
                assert (out[y, x] == 255) == (total > 0.5)


def test_same_scale_of_other_aspect_ratio_keeps_affine_flow() -> None:
    """One flow at 60 x 10 of an image of 30 x 20: the width is doubled, the height halved, in both images."""
    full, other, size = (20, 30), (40, 50), (10, 60)
    A, b = ((1.25, 0.125), (-0.25, 0.75)), (3.0, 2.0)

    def target(x: float, y: float) -> tuple[float, float]:
        return A[0][0] * x + A[0][1] * y + b[0], A[1][0] * x + A[1][1] * y + b[1]

    small = np.empty((*size, 2))
    for y in range(size[0]):
        for x in range(size[1]):
            there = target((x + 0.5) / 2, (y + 0.5) * 2)
            small[y, x] = there[0] * 2 - (x + 0.5), there[1] / 2 - (y + 0.5)
    seen = same_scale(size, full, other)
    assert seen == (20, 100)
    found, _ = resize_flow_pair(small, np.zeros((*seen, 2)), full, other)
    for y in range(1, full[0] - 1):  # the outermost rows have no second row to interpolate with
        for x in range(full[1]):
            there = target(x + 0.5, y + 0.5)
            assert found[y, x] == pytest.approx((there[0] - x - 0.5, there[1] - y - 0.5), abs=1e-9)
