# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

cv2 = pytest.importorskip("cv2")

from tiepoint.core.errors import InputError  # noqa: E402
from tiepoint.core.records import Item  # noqa: E402
from tiepoint.methods.patches.opencv import OneKeypoint, PatchRootSift, PatchSift, opencv  # noqa: E402
from tiepoint.methods.resolve import resolve  # noqa: E402

METHODS = {
    "sift": ("l2", 128, np.uint8),
    "rootsift": ("l2", 128, np.float32),
    "orb": ("hamming", 32, np.uint8),
    "brief": ("hamming", 32, np.uint8),
    "brisk": ("hamming", 64, np.uint8),
    "freak": ("hamming", 64, np.uint8),
    "latch": ("hamming", 32, np.uint8),
    "akaze": ("hamming", 61, np.uint8),
    "daisy": ("l2", 200, np.float32),
    "vgg": ("l2", 120, np.float32),
    "boostdesc": ("hamming", 32, np.uint8),
    "beblid": ("hamming", 64, np.uint8),
    "teblid": ("hamming", 32, np.uint8),
}
SUPPORT = {"brief": 1, "brisk": 2, "freak": 5, "beblid": 1, "teblid": 1}
"""Pixels at the border that may go unread; 0 for the others."""


def extract(name, patches):
    method = resolve(name, family="patches")
    return method, method.extract(Item("v_x/ref", "c", len(patches)), patches)


def distances(a, b, distance):
    if distance == "hamming":
        return np.bitwise_count(a[:, None] ^ b[None]).sum(axis=2)
    return np.linalg.norm(a[:, None].astype(float) - b[None].astype(float), axis=2)


@pytest.mark.parametrize("name", METHODS)
def test_dimension_type_and_distance(name, patches):
    method, found = extract(name, patches)
    distance, dimension, dtype = METHODS[name]
    assert method.distance == distance
    assert found["values"].shape == (len(patches), dimension)
    assert found["values"].dtype == dtype
    assert "valid" not in found


@pytest.mark.parametrize("name", METHODS)
def test_the_same_place_is_nearer_than_others(name, patches, seen_again):
    method, first = extract(name, patches)
    table = distances(first["values"], extract(name, seen_again)[1]["values"], method.distance)
    same = np.diag(table)
    others = table[~np.eye(len(table), dtype=bool)].reshape(len(table), -1)
    assert (same < np.median(others, axis=1)).mean() > 0.9
    assert (table.argmin(axis=1) == np.arange(len(table))).mean() > 0.5


@pytest.mark.parametrize("name", METHODS)
def test_rows_belong_to_their_patches(name, patches):
    few = patches[:8]
    order = np.random.default_rng(1).permutation(len(few))
    _, straight = extract(name, few)
    _, shuffled = extract(name, few[order])
    np.testing.assert_array_equal(straight["values"][order], shuffled["values"])
    _, alone = extract(name, few[3:4])
    np.testing.assert_array_equal(straight["values"][3:4], alone["values"])


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("side", [32, 64, 101])
def test_other_sides(name, side, photograph):
    block = np.stack([photograph[y : y + side, 200 : 200 + side] for y in (200, 240, 280)])
    _, found = extract(name, block)
    assert found["values"].shape == (3, METHODS[name][1])
    assert "valid" not in found
    assert len(np.unique(found["values"], axis=0)) == 3


@pytest.mark.parametrize("name", METHODS)
def test_support_covers_the_patch_and_no_more(name, patches):
    """Changing the border lines of the support changes the descriptor."""
    margin = SUPPORT.get(name, 0)
    rng = np.random.default_rng(2)
    noise = rng.integers(0, 256, (6, 65, 65)).astype(np.uint8)
    before = extract(name, noise)[1]["values"]
    for lines in (
        np.s_[:, margin, :],
        np.s_[:, -1 - margin, :],
        np.s_[:, :, margin],
        np.s_[:, :, -1 - margin],
    ):
        changed = False
        for value in (0, 255):
            touched = noise.copy()
            touched[lines] = value
            changed |= bool((extract(name, touched)[1]["values"] != before).any())
        assert changed, f"{name} does not read {lines}"


@pytest.mark.parametrize("name", METHODS)
def test_a_flat_patch_shifts_nobody(name, patches):
    mixed = patches[:5].copy()
    mixed[2] = 128
    method = resolve(name, family="patches", on_bad="miss")
    found = method.extract(Item("v_x/ref", "c", 5), mixed)
    _, clean = extract(name, patches[:5])
    for i in (0, 1, 3, 4):
        np.testing.assert_array_equal(found["values"][i], clean["values"][i])


@pytest.mark.parametrize("name", METHODS)
def test_upright(name, patches):
    """Patches are oriented already: a turned patch is another patch, not the same one."""
    method, first = extract(name, patches)
    turned = extract(name, np.ascontiguousarray(np.rot90(patches, axes=(1, 2))))[1]
    table = distances(first["values"], turned["values"], method.distance)
    others = table[~np.eye(len(table), dtype=bool)]
    assert np.diag(table).mean() > 0.7 * others.mean()


def test_brisk_is_opencvs_brisk_but_for_the_angle(patches):
    """The standard pattern, spelled out, is the default; ours differs only in having no long pairs."""
    radii, numbers = [0.85 * r for r in (0, 2.9, 4.9, 7.4, 10.8)], [1, 10, 14, 15, 20]
    middle = [cv2.KeyPoint(32, 32, 20, 0)]
    for patch, found in zip(patches[:5], extract("brisk", patches[:5])[1]["values"], strict=True):
        default = opencv("BRISK_create")().compute(patch, middle)[1]
        spelled_out = opencv("BRISK_create")(radii, numbers, 5.85, 8.2).compute(patch, middle)[1]
        np.testing.assert_array_equal(spelled_out, default)
        keypoints, upright = opencv("BRISK_create")(radii, numbers, 5.85, 1e6).compute(patch, middle)
        assert keypoints[0].angle == 0
        np.testing.assert_array_equal(found, upright[0])


def test_sift_is_the_reference_script(patches):
    keypoint = cv2.KeyPoint()
    keypoint.pt, keypoint.size = (32.5, 32.5), 65 / 5.303
    expected = [cv2.SIFT_create().compute(p, [keypoint])[1][0] for p in patches[:10]]
    np.testing.assert_array_equal(extract("sift", patches[:10])[1]["values"], expected)


def test_rootsift_by_name_and_by_transform(patches):
    direct = extract("rootsift", patches)[1]["values"]
    np.testing.assert_array_equal(direct, extract("sift+rootsift", patches)[1]["values"])
    sift = PatchSift().describe(patches)[0].astype(float)
    np.testing.assert_allclose(direct, np.sqrt(sift / sift.sum(axis=1, keepdims=True)), atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(PatchRootSift().describe(patches)[0], axis=1), 1, atol=1e-6)


def test_a_dropped_keypoint_is_a_miss_in_its_own_row(patches):
    class Dropping:
        def compute(self, images, keypoints):
            means = [int(image.mean()) for image in images]
            return keypoints, [np.full((1, 4), m, np.uint8) if m < 100 else None for m in means]

    class Fussy(OneKeypoint):
        name, distance, dimension = "fussy", "hamming", 4

        def tools(self, side):
            return Dropping(), cv2.KeyPoint(32, 32, 9)

    levels = np.array([10, 200, 30, 220, 50], np.uint8)
    values, valid = Fussy().describe(np.broadcast_to(levels[:, None, None], (5, 65, 65)))
    assert valid.tolist() == [True, False, True, False, True]
    assert values[valid, 0].tolist() == [10, 30, 50]


def test_an_opencv_without_contrib_is_explained():
    with pytest.raises(InputError, match="opencv-contrib-python-headless"):
        opencv("NoSuchDescriptor_create")
