# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import math

import numpy as np
import pytest

from tiepoint.core.keypoints import Keypoints
from tiepoint.formats.image.reader import to_grey
from tiepoint.methods.keypoints.descriptors import patches_at
from tiepoint.methods.keypoints.factory import DETECTORS, plan_part

pytest.importorskip("cv2")
NAMES = (
    "sift", "rootsift", "rgbsift", "rgbsift_channel_avg", "orb", "brief", "brisk", "freak", "latch", "daisy",
    "vgg", "boostdesc", "beblid", "teblid", "akaze", "kaze", "surf", "honc", "dspsift", "patch:vlfeat-sift",
)  # fmt: skip


@pytest.fixture(scope="module")
def colour():
    data = pytest.importorskip("skimage.data")
    return np.ascontiguousarray(data.astronaut()[60:300, 60:380])


@pytest.fixture(scope="module")
def keypoints(colour):
    """Keypoints of SIFT, some of them near the edge, where patterns leave the image."""
    return plan_part("sift?max_features=60", DETECTORS).build("cpu").detect(colour)


def describe(name, image, keypoints):
    made = plan_part(name, "keypoints").build("cpu").describe(image, keypoints)
    return made if isinstance(made, tuple) else (made, np.ones(len(keypoints), bool))


@pytest.mark.parametrize("name", NAMES)
def test_a_row_belongs_to_its_keypoint(name, colour, keypoints):
    values, valid = describe(name, colour, keypoints)
    assert len(values) == len(valid) == len(keypoints)
    assert valid.sum() > 20
    order = np.random.default_rng(3).permutation(len(keypoints))
    again, valid_again = describe(name, colour, keypoints[order])
    assert np.array_equal(valid_again, valid[order])
    assert np.array_equal(again[valid_again], values[order][valid_again])
    some = np.array([7, 2, 40])
    alone, _ = describe(name, colour, keypoints[some])
    assert np.array_equal(alone[valid[some]], values[some][valid[some]])


@pytest.mark.parametrize("name", ["orb", "brief", "freak", "latch"])
def test_keypoints_opencv_drops_fail_in_their_row(name, colour):
    places = Keypoints.at([[160, 120], [2, 2], [150, 100], [317, 237]], size_px=8.0)
    values, valid = describe(name, colour, places)
    assert valid.tolist() == [True, False, True, False]
    kept, _ = describe(name, colour, places[np.array([0, 2])])
    assert np.array_equal(values[[0, 2]], kept)


FLIPS = [
    "sift?sigma=2", "sift?n_octave_layers=5", "orb?scale_factor=1.5", "orb?n_levels=1",
    "orb?edge_threshold=60", "brief?rotate=true", "freak?orientation=false", "freak?pattern_scale=12",
    "freak?n_octaves=2", "latch?rotate=false", "latch?half_window_px=2", "latch?sigma=1",
    "daisy?radius_px=9", "daisy?rotate=false", "vgg?magnification=3", "boostdesc?magnification=3",
    "beblid?magnification=3", "teblid?magnification=3", "akaze?n_octaves=1", "akaze?n_octave_layers=2",
    "akaze?upright=true", "kaze?n_octave_layers=2", "kaze?extended=true", "kaze?upright=true",
    "surf?extended=true", "surf?upright=true", "honc?magnification=3",
    "patch:vlfeat-sift?magnification=3", "patch:vlfeat-sift?patch_px=41", "patch:vlfeat-sift?upright=true",
]  # fmt: skip


@pytest.mark.parametrize("text", FLIPS)
def test_every_option_has_an_effect(text, colour, keypoints):
    name = text.partition("?")[0]
    big = Keypoints(
        keypoints.xy, keypoints.size_px * 4, keypoints.angle_deg, keypoints.response, keypoints.octave,
        keypoints.class_id,
    )  # fmt: skip
    plain = describe(name, colour, big)
    flipped = describe(text, colour, big)
    assert not (np.array_equal(plain[0], flipped[0]) and np.array_equal(plain[1], flipped[1]))


@pytest.mark.parametrize("precise", [True, False])
def test_sift_is_opencvs_at_its_own_keypoints(colour, precise):
    import cv2

    made = cv2.SIFT_create(enable_precise_upscale=precise)
    found, values = made.detectAndCompute(to_grey(colour), None)
    spec = f"sift?precise_upscale={precise}"
    assert np.array_equal(describe(spec, colour, Keypoints.from_cv(found))[0], values)


def test_akaze_is_opencvs_at_its_own_keypoints(colour):
    import cv2

    grey = to_grey(colour)
    made = getattr(cv2, "AKAZE_create", None) or cv2.xfeatures2d.AKAZE_create
    found, values = made().detectAndCompute(grey, None)
    assert np.array_equal(describe("akaze", colour, Keypoints.from_cv(found))[0], values)


def test_rgbsift_is_sift_of_each_channel(colour, keypoints):
    values, _ = describe("rgbsift", colour, keypoints)
    for c in range(3):
        channel = np.repeat(colour[:, :, c : c + 1], 3, axis=2)
        one, _ = describe("sift", channel, keypoints)
        assert np.array_equal(values[:, 128 * c : 128 * (c + 1)], one)
    average, _ = describe("rgbsift_channel_avg", colour, keypoints)
    assert np.allclose(average, values.reshape(-1, 3, 128).mean(axis=1))


def test_a_blank_image_fails_everywhere():
    blank = np.full((200, 200, 3), 90, np.uint8)
    places = Keypoints.at([[100, 100], [90, 80]], size_px=10.0)
    for name in ("sift", "rootsift", "rgbsift", "surf", "honc", "dspsift", "patch:pixels"):
        _, valid = describe(name, blank, places)
        assert not valid.any(), name


def slow_surf(image, x, y, size, angle_deg):
    """SURF-64 of one keypoint by its definition: plain pixel sums, no integral image."""
    grey = to_grey(image) / 255.0
    h, w = grey.shape

    def total(y0, x0, y1, x1):
        return grey[max(y0, 0) : max(min(y1, h), 0), max(x0, 0) : max(min(x1, w), 0)].sum()

    s, a = size * 1.2 / 9, math.radians(angle_deg)
    half = max(1, math.floor(s + 0.5))
    out = np.zeros(64)
    for i in range(20):
        for j in range(20):
            u, v = j - 9.5, i - 9.5
            # the first pixel right of and below the pixel corner nearest to the sample, corner = pixel - 0.5
            px = math.floor((x + s * (math.cos(a) * u - math.sin(a) * v) + 0.5) + 0.5)
            py = math.floor((y + s * (math.sin(a) * u + math.cos(a) * v) + 0.5) + 0.5)
            gx = total(py - half, px, py + half, px + half) - total(py - half, px - half, py + half, px)
            gy = total(py, px - half, py + half, px + half) - total(py - half, px - half, py, px + half)
            g = math.exp(-(u * u + v * v) / (2 * 3.3**2))
            du, dv = g * (math.cos(a) * gx + math.sin(a) * gy), g * (-math.sin(a) * gx + math.cos(a) * gy)
            k = ((i // 5) * 4 + j // 5) * 4
            out[k : k + 4] += du, abs(du), dv, abs(dv)
    return out / np.linalg.norm(out)


def test_surf_equals_its_definition(colour):
    places = Keypoints.at([[100.3, 90.8], [7, 9], [200, 150]], size_px=[15, 21, 40], angle_deg=[0, 70, 211])
    values, valid = describe("surf", colour, places)
    assert valid.all()
    for row, (x, y), size, angle in zip(values, places.xy, places.size_px, places.angle_deg, strict=True):
        assert np.abs(row - slow_surf(colour, x, y, size, angle)).max() < 1e-6
    long, _ = describe("surf?extended=true", colour, places)
    short = long.reshape(3, 16, 2, 2, 2).sum(axis=3)
    scale = np.linalg.norm(short.reshape(3, -1), axis=1)
    assert np.allclose(short.reshape(3, 64) / scale[:, None], values, atol=1e-6)


def test_surf_turns_with_the_image(colour):
    square = np.ascontiguousarray(colour[:240, :240])
    turned = np.ascontiguousarray(np.rot90(square))
    at = Keypoints.at([[100, 90], [60, 150]], size_px=18.0)
    back = Keypoints.at(np.column_stack([at.xy[:, 1], 239 - at.xy[:, 0]]), size_px=18.0)
    one, two = describe("surf", square, at)[0], describe("surf", turned, back)[0]
    assert (np.linalg.norm(one - two, axis=1) < 0.35).all()
    other, wrong = describe("surf", turned, back[np.array([1, 0])])
    assert wrong.all()
    assert (np.linalg.norm(one - other, axis=1) > 0.5).all()


def test_honc_does_not_see_brightness_and_contrast(colour, keypoints):
    dim = np.clip(colour.astype(float) * 0.6 + 30, 0, 255).astype(np.uint8)
    one, valid = describe("honc", colour, keypoints)
    two, _ = describe("honc", dim, keypoints)
    assert np.linalg.norm(one - two, axis=1)[valid].max() < 0.12
    assert np.allclose(np.linalg.norm(one[valid], axis=1), 1, atol=1e-5)
    swapped, _ = describe("honc", np.ascontiguousarray(colour[:, :, ::-1]), keypoints)
    apart = np.linalg.norm(one - two, axis=1)[valid]
    assert np.median(np.linalg.norm(one - swapped, axis=1)[valid]) > 4 * np.median(apart)


def test_patches_cover_magnification_times_the_size():
    ramp = np.tile(np.arange(200, dtype=np.uint8), (200, 1))
    at = Keypoints.at([[100, 100]], size_px=10.0)
    patch = patches_at(ramp, at, magnification=6, patch_px=30)[0]
    # 60 px in 30 samples: centres from 100 - 29 to 100 + 29
    assert (patch[0, 0], patch[0, -1]) == (71, 129)
    turned = patches_at(
        ramp, Keypoints.at([[100, 100]], size_px=10.0, angle_deg=90), magnification=6, patch_px=30
    )
    assert np.ptp(turned[0, 0].astype(int)) == 0
    assert (turned[0, 0, 0], turned[0, -1, 0]) == (129, 71)
