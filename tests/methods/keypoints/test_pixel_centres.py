# SPDX-License-Identifier: BSD-3-Clause
"""Positions of keypoints and descriptors under exact turns of an image by 0, 90 and 180 degrees.

A turn by `numpy.rot90` moves pixel centres to pixel centres. A method that is d px off in x and y finds the
same structures 2 d px away after a half turn.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from tiepoint.core.errors import InputError
from tiepoint.core.keypoints import Keypoints
from tiepoint.core.records import Item
from tiepoint.methods.dense.sparse_to_dense import KeypointFlow
from tiepoint.methods.keypoints.factory import plan_part
from tiepoint.methods.keypoints.surf import SurfDescriptor, dominant_orientations, integral
from tiepoint.methods.resolve import resolve

pytest.importorskip("cv2")

TURNS = (0, 1, 2)


@pytest.fixture(scope="module")
def image():
    """Blobs of several sizes, 300 x 240 px."""
    noise = np.random.default_rng(4).normal(size=(240, 300))
    layers = [gaussian_filter(noise, s) * s for s in (1.5, 3, 6, 12)]
    total = sum(layers)
    grey = (total - total.min()) / np.ptp(total) * 255
    return np.repeat(np.rint(grey).astype(np.uint8)[:, :, None], 3, axis=2)


def turned_back(xy, turns, width, height):
    """Positions of an image turned counter-clockwise by `turns` quarters, in the image before."""
    x, y = xy[:, 0], xy[:, 1]
    if turns == 0:
        return xy
    if turns == 1:
        return np.column_stack([width - 1 - y, x])
    return np.column_stack([width - 1 - x, height - 1 - y])


def residual(spec, image, turns):
    """Median displacement (x, y) of mutual nearest descriptors, and their number."""
    method = resolve(spec, family="keypoints")
    turned = np.ascontiguousarray(np.rot90(image, turns))
    first, second = (method.extract(Item(f"s/{i}", "c"), im) for i, im in enumerate((image, turned)))
    a, b = first["values"].astype(float), second["values"].astype(float)
    distance = ((a[:, None] - b[None]) ** 2).sum(axis=2)
    there, back = distance.argmin(axis=1), distance.argmin(axis=0)
    rows = [i for i in range(len(a)) if back[there[i]] == i]
    height, width = image.shape[:2]
    moved = turned_back(second["keypoints"][:, :2], turns, width, height)
    apart = np.array([moved[there[i]] - first["keypoints"][i, :2] for i in rows])
    apart = apart[np.abs(apart).max(axis=1) < 3]
    return np.median(apart, axis=0), len(apart)


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("name", ["sift", "rootsift", "rgbsift", "dspsift"])
def test_sift_turned_image_has_no_residual(image, name, turns):
    found, count = residual(f"{name}?max_features=300", image, turns)
    assert count > 150
    np.testing.assert_allclose(found, [0, 0], atol=0.02)


@pytest.mark.parametrize(("turns", "expected"), [(0, (0, 0)), (1, (-0.5, 0)), (2, (-0.5, -0.5))])
@pytest.mark.parametrize("spec", ["sift?precise_upscale=false&max_features=300", "VSIFT?max_features=300"])
def test_sift_without_precise_upscale_is_quarter_pixel_off(image, spec, turns, expected):
    found, count = residual(spec, image, turns)
    assert count > 150
    np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.parametrize(("precise", "expected"), [(True, 0), (False, 0.5)])
def test_homography_flow_half_turn_has_residual_only_without_precise_upscale(image, precise, expected):
    from tiepoint.methods.dense.opencv import HomographyFlow

    height, width = image.shape[:2]
    turned = np.ascontiguousarray(np.rot90(image, 2))
    h = HomographyFlow(precise_upscale=precise).estimate(image, turned)
    centre = h @ [(width - 1) / 2, (height - 1) / 2, 1]
    found = centre[:2] / centre[2] - [(width - 1) / 2, (height - 1) / 2]
    np.testing.assert_allclose(found, [expected, expected], atol=0.05)


def test_sparse_precise_upscale_belongs_to_sift():
    assert KeypointFlow().config["precise_upscale"] is True
    assert "precise_upscale" not in KeypointFlow(features="orb").config
    with pytest.raises(InputError, match="exists only for features=sift"):
        KeypointFlow(features="orb", precise_upscale=False)


def test_sift_cache_key_names_precise_upscale():
    keys = {
        spec: resolve(spec, family="keypoints").key(Item("s/1", "c"))
        for spec in ("sift", "sift?precise_upscale=true", "sift?precise_upscale=false", "vsift")
    }
    assert keys["sift"] == keys["sift?precise_upscale=true"]
    assert keys["vsift"] == keys["sift?precise_upscale=false"] != keys["sift"]


def best_shift(describe, image, size_px, axis):
    """Shift in px at which descriptors are nearest to those of the image after a half turn."""
    height, width = image.shape[:2]
    xy = np.random.default_rng(2).uniform((50, 50), (width - 51, height - 51), (150, 2))
    turned = np.ascontiguousarray(image[::-1, ::-1])
    opposite = Keypoints.at(turned_back(xy, 2, width, height), size_px=size_px, angle_deg=180.0)
    wanted, _ = describe(turned, opposite)
    shifts = np.arange(-6, 7) / 4
    costs = []
    for shift in shifts:
        moved = xy.copy()
        moved[:, axis] += shift
        values, _ = describe(image, Keypoints.at(moved, size_px=size_px, angle_deg=0.0))
        costs.append(((values.astype(float) - wanted) ** 2).sum())
    at = int(np.argmin(costs))
    assert 0 < at < len(shifts) - 1
    before, here, after = costs[at - 1 : at + 2]
    return shifts[at] + (before - after) / (before - 2 * here + after) / 8


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("spec", "expected"), [("sift", 0), ("sift?precise_upscale=false", 0.5)])
def test_sift_descriptor_is_centred_with_precise_upscale(image, spec, expected, axis):
    made = plan_part(spec, "keypoints").build("cpu")
    assert best_shift(made.describe, image, 3.0, axis) == pytest.approx(expected, abs=0.08)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("size_px", [8.0, 20.0])
def test_surf_descriptor_half_turn_is_centred(image, size_px, axis):
    assert best_shift(SurfDescriptor().describe, image, size_px, axis) == pytest.approx(0, abs=0.08)


def test_surf_orientation_half_turn_turns_by_180(image):
    height, width = image.shape[:2]
    xy = np.random.default_rng(3).uniform((60, 60), (width - 61, height - 61), (200, 2))
    xy = np.floor(xy) + 0.5  # both images round these positions to the same pixel
    turned = np.ascontiguousarray(image[::-1, ::-1])
    sizes = np.full(len(xy), 12.0)
    first = dominant_orientations(integral(image), xy, sizes)
    second = dominant_orientations(integral(turned), turned_back(xy, 2, width, height), sizes)
    apart = np.abs((second - first) % 360 - 180)
    assert np.median(apart) < 1
