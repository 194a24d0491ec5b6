# SPDX-License-Identifier: BSD-3-Clause
"""Warping, consistency, mirroring and carrying points, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tiepoint.geometry.flow.reference_resize import interp2_cubic
from tiepoint.geometry.flow.warp import consistency_masks, transfer, unflip, warp_image
from tiepoint.tasks.dense.protocols import RULES

F = np.float32


def loop_remap(source: np.ndarray, flow: np.ndarray, y: int, x: int, c: int) -> np.float32:
    """OpenCV's remap at one pixel: positions in 1/32 px, half to even, 1e10 outside."""
    height, width = source.shape[:2]
    places = []
    for position in (F(x) + flow[y, x, 0], F(y) + flow[y, x, 1]):
        scaled = float(position) * 32
        places.append(round(scaled) if math.isfinite(scaled) and abs(scaled) < 2**24 else -(2**24))
    (sx, ax), (sy, ay) = (divmod(p, 32) for p in places)
    if sx >= width or sx + 1 < 0 or sy >= height or sy + 1 < 0:
        return F(1e10)
    total = F(0)
    for j in (0, 1):
        for i in (0, 1):
            weight = F((ay if j else 32 - ay) / 32) * F((ax if i else 32 - ax) / 32)
            inside = 0 <= sx + i < width and 0 <= sy + j < height
            total = F(total + (source[sy + j, sx + i, c] if inside else F(1e10)) * weight)
    return total


def loop_cpp_mask(flow: np.ndarray, back: np.ndarray) -> np.ndarray:
    out = np.zeros(flow.shape[:2], np.uint8)
    for y in range(flow.shape[0]):
        for x in range(flow.shape[1]):
            u, v = flow[y, x]
            bu, bv = loop_remap(back, flow, y, x, 0), loop_remap(back, flow, y, x, 1)
            here, there = (bool(abs(a) <= 1e9 and abs(b) <= 1e9) for a, b in ((u, v), (bu, bv)))
            du, dv = F(u + bu), F(v + bv)
            error = np.sqrt(du * du + dv * dv) if here == there else F(1000)
            out[y, x] = 255 if error < F(20) else 0
    return out


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_cpp_consistency_pixel_by_pixel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    flow1 = rng.normal(0, 8, (7, 9, 2)).astype(F)
    flow2 = rng.normal(0, 8, (8, 6, 2)).astype(F)
    for flow in (flow1, flow2):
        flow[rng.random(flow.shape[:2]) < 0.1] = rng.choice([1e10, -1e10, np.nan])
    with np.errstate(all="ignore"):
        first, second = consistency_masks(flow1, flow2, rule=RULES["tss-cpp"])
        assert np.array_equal(first, loop_cpp_mask(flow1, flow2))
        assert np.array_equal(second, loop_cpp_mask(flow2, flow1))


def test_twenty_pixels_are_background() -> None:
    there, back = np.zeros((1, 2, 2), F), np.zeros((1, 2, 2), F)
    back[0, 0, 0], back[0, 1, 0] = 20.0, 19.96875
    assert consistency_masks(there, back, rule=RULES["tss-cpp"])[0].tolist() == [[0, 255]]


def test_exact_consistency_of_any_layout() -> None:
    rng = np.random.default_rng(4)
    flows = [rng.integers(-3, 4, (7, 9, 2)) for _ in range(2)]
    expected = consistency_masks(*[f.astype(np.float64) for f in flows])
    for kind in (">f4", np.float16, np.int32):
        made = consistency_masks(*[np.asfortranarray(f.astype(kind)) for f in flows])
        assert all(np.array_equal(a, b) for a, b in zip(made, expected, strict=True))


def test_exact_threshold_grows_with_the_target() -> None:
    """2.5 % of the larger side of the target, strictly below."""
    for width in (40, 400):
        there, back = np.zeros((3, width, 2)), np.zeros((3, width, 2))
        limit = 0.025 * width
        back[0, :, 0], back[1, :, 0], back[2, :, 0] = limit, limit - 0.01, limit + 0.01
        mask, _ = consistency_masks(there, back)
        assert [bool(r[5]) for r in mask] == [False, True, False]


def test_exact_samples_between_pixels_without_rounding() -> None:
    there, back = np.zeros((1, 100, 2)), np.zeros((1, 100, 2))
    there[..., 0] = 1 / 64
    back[..., 0] = -np.arange(100) * 100.0
    mask, _ = consistency_masks(there, back)
    # At x = 0 the sample lies 1/64 of the way to the next pixel: -1.5625 + 1/64, below 2.5.
    assert mask[0, 0] == 255
    assert not mask[0, 1:].any()


def loop_warp(image: np.ndarray, flow: np.ndarray, outside: int) -> np.ndarray:
    height, width = image.shape
    out = np.empty(flow.shape[:2], np.uint8)
    for y in range(flow.shape[0]):
        for x in range(flow.shape[1]):
            (sx, ax), (sy, ay) = (
                divmod(round(float(F(p) + q) * 32), 32) for p, q in zip((x, y), flow[y, x], strict=True)
            )
            total = 512
            for j in (0, 1):
                for i in (0, 1):
                    inside = 0 <= sx + i < width and 0 <= sy + j < height
                    value = int(image[sy + j, sx + i]) if inside else outside
                    total += (ay if j else 32 - ay) * (ax if i else 32 - ax) * value
            out[y, x] = total >> 10
    return out


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(0, 255))
def test_warp_pixel_by_pixel(seed: int, outside: int) -> None:
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (6, 8)).astype(np.uint8)
    flow = rng.normal(0, 3, (5, 7, 2)).astype(F)
    assert np.array_equal(warp_image(image, flow, outside=(outside,)), loop_warp(image, flow, outside))


def test_warp_of_colour_and_unknown_flow() -> None:
    image = np.full((3, 3, 3), 200, np.uint8)
    flow = np.zeros((3, 3, 2))
    flow[1, 1], flow[2, 2] = 1e10, np.nan
    out = warp_image(image, flow, outside=(1, 2, 3))
    assert out[0, 0].tolist() == [200, 200, 200]
    assert out[1, 1].tolist() == out[2, 2].tolist() == [1, 2, 3]


flows = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 6), st.just(2)),
    elements=st.integers(-999, 999).map(float),
)


@given(flows, st.integers(1, 50))
def test_unflip_twice_is_the_identity(flow: np.ndarray, width: int) -> None:
    assert np.array_equal(unflip(unflip(flow, width), width), flow)


def test_unflip_twice_is_off_by_rounding_only() -> None:
    """u' is up to the width of the image: float32 rounds it to 6e-5 px there."""
    rng = np.random.default_rng(0)
    x = np.arange(1000)
    flow = np.stack([rng.uniform(0, 999, (20, 1000)) - x, rng.normal(0, 9, (20, 1000))], axis=2)
    for kind, most in ((F, 6.2e-5), (np.float64, 3e-13)):
        given_flow = flow.astype(kind)
        there = unflip(given_flow, 1000)
        assert there.dtype == kind
        exact = 999 - 2 * x - given_flow[..., 0].astype(np.float64)
        assert np.array_equal(there[..., 0], exact.astype(kind))  # rounded once
        back = unflip(there, 1000)
        assert np.array_equal(back[..., 1], given_flow[..., 1])
        assert np.abs(back.astype(np.float64) - given_flow).max() <= most


@given(flows)
def test_unflipping_twice_is_the_identity(flow: np.ndarray) -> None:
    width = flow.shape[1]
    assert np.allclose(unflip(unflip(flow, width), width), flow, rtol=0, atol=1e-4)


def test_unflip_by_hand() -> None:
    """A flow that finds mirrored content, turned back, points to the content itself."""
    rng = np.random.default_rng(0)
    image2 = rng.integers(0, 256, (4, 9)).astype(np.uint8)
    image1 = image2[:, ::-1]  # image 1 is the mirror of image 2
    into_mirror = np.zeros((4, 9, 2))  # into image2[:, ::-1] the flow is zero
    back = unflip(into_mirror, 9)
    assert np.array_equal(warp_image(image2, back, outside=(0,)), image1)
    unknown = np.full((1, 1, 2), 1e10)
    assert np.array_equal(unflip(unknown, 9), unknown)


@pytest.mark.parametrize(("x", "y"), [(0.0, 0.0), (2.5, 1.25), (3.75, 4.0), (0.2, 3.9), (5.0, 4.0)])
def test_cubic_interpolation_keeps_parabolas(x: float, y: float) -> None:
    """Cubic convolution with a = -1/2 and parabolic borders reproduces polynomials of degree two."""
    j, i = np.mgrid[:5, :6].astype(np.float64)
    values = 2 + 0.5 * i - j + 0.25 * i * i + 0.125 * j * j
    found = interp2_cubic(values, np.array([x]), np.array([y]))[0]
    assert found == pytest.approx(2 + 0.5 * x - y + 0.25 * x * x + 0.125 * y * y)


def test_transfer_at_pixels_and_between() -> None:
    rng = np.random.default_rng(2)
    flow = rng.normal(0, 5, (6, 7, 2))
    points = np.array([[3.0, 2.0], [3.5, 2.0], [3.5, 2.5], [-2.0, 0.0], [np.nan, 1.0]])
    out = transfer(points, flow)
    assert np.allclose(out[0], points[0] + flow[2, 3])
    assert np.allclose(out[1], points[1] + (flow[2, 3] + flow[2, 4]) / 2)
    assert np.allclose(out[2], points[2] + flow[2:4, 3:5].mean(axis=(0, 1)))
    assert np.allclose(out[3], points[3] + flow[0, 0])
    assert np.isnan(out[4]).all()
    flow[2, 4] = 1e10
    again = transfer(points, flow)
    assert np.allclose(again[0], out[0])
    assert np.isnan(again[1:3]).all()
