"""Resized and turned images: recorded helpers of SuperGlue, and points that are really carried over."""

from __future__ import annotations

import numpy as np
import pytest

from pose_golden import assert_close, golden, needs_golden
from tiepoint.core.errors import InputError
from tiepoint.geometry.two_view import scaling

K = np.array([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])
T = np.array([[0.96, 0, 0.28, 1], [0, 1, 0, 0.1], [-0.28, 0, 0.96, 0.2], [0, 0, 0, 1]])


@needs_golden
def test_recorded_turns():
    T = np.array(golden()["epipolar"]["T_0to1"])
    for turns in (1, 2, 3):
        recorded = golden()["superglue.rotate_intrinsics"][str(turns)]
        assert_close(scaling.turned_intrinsics(K, (640, 480), turns), recorded, 0)
        recorded = golden()["superglue.rotate_pose_inplane"][str(turns)]
        assert_close(scaling.turned_pose(T, 0, turns), recorded, 1e-12)


@needs_golden
def test_recorded_resizing():
    case = golden()["superglue.scale_intrinsics"]
    sx, sy = (1 / s for s in case["scales"])
    assert_close(scaling.scaled_intrinsics(case["K"], sx, sy), case["out"], 1e-12)
    for case in golden()["superglue.process_resize"]:
        found = scaling.superglue_size((case["w"], case["h"]), tuple(case["resize"]))
        assert list(found.size) == case["out"]
        assert found.scale == (found.size[0] / case["w"], found.size[1] / case["h"])


@pytest.mark.parametrize("turns0", range(4))
@pytest.mark.parametrize("turns1", range(4))
def test_a_turned_pair_sees_the_same_points(turns0, turns1):
    """Pixels turned with the image equal projections by the turned K and T."""
    points = np.random.default_rng(3).uniform(-1, 1, (20, 3)) + np.array([0, 0, 5])
    pose0 = scaling.turned_pose(np.eye(4), 0, turns0)
    pose1 = scaling.turned_pose(T, turns0, turns1) @ pose0
    for pose, plain, turns in ((pose0, np.eye(4), turns0), (pose1, T, turns1)):
        x = project(K, plain, points)
        for k in range(turns):
            w = (640, 480)[k % 2]
            x = np.stack([x[:, 1], w - 1 - x[:, 0]], 1)
        turned = project(scaling.turned_intrinsics(K, (640, 480), turns), pose, points)
        np.testing.assert_allclose(turned, x, atol=1e-9)


def project(K, T, points):
    seen = (points @ T[:3, :3].T + T[:3, 3]) @ K.T
    return seen[:, :2] / seen[:, 2:]


def test_turning_an_array_moves_its_pixels_as_the_intrinsics_say():
    image = np.zeros((480, 640))
    image[240, 320] = 1
    for turns in range(4):
        y, x = np.argwhere(np.rot90(image, turns))[0]
        assert scaling.turned_intrinsics(K, (640, 480), turns)[:2, 2].tolist() == [x, y]


def test_sides_and_their_rounding():
    assert scaling.long_side((1600, 1185), 1200).scale == (0.75, 0.75)
    assert scaling.short_side((1296, 968), 480).scale == (480 / 968, 480 / 968)
    assert scaling.long_side((1600, 1185), 1024, "trunc").size == (1024, 758)
    assert scaling.long_side((1600, 1185), 1024, "round").size == (1024, 758)
    assert scaling.short_side((1000, 707), 480, "trunc").size == (678, 480)
    assert scaling.short_side((1000, 707), 480, "round").size == (679, 480)
    assert scaling.short_side((707, 1000), 480, "trunc").size == (480, 678)
    assert scaling.short_side((700, 700), 480, "trunc").size == (480, 480)
    with pytest.raises(InputError, match="real, round or trunc"):
        scaling.short_side((1000, 707), 480, "floor")


def test_rounded_sides_have_a_factor_each():
    sx, sy = scaling.short_side((1000, 707), 480, "trunc").scale
    assert sx == 678 / 1000
    assert sy == 480 / 707
    resize = scaling.short_side((1000, 707), 480, "trunc")
    x0, x1, K0, K1 = scaling.in_frame([[10, 20]], [[3, 4]], K, K, resize, scaling.original_size((9, 9)))
    np.testing.assert_allclose(x0, [[10 * sx, 20 * sy]], rtol=1e-15)
    np.testing.assert_array_equal(x1, [[3, 4]])
    np.testing.assert_array_equal(K1, K)
    assert K0[0, 0] == 500 * sx
    assert K0[1, 2] == 240 * sy
