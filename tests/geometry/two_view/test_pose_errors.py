"""Pose errors: thirteen closed cases of six tools, and what each rule does at its edges."""

from __future__ import annotations

import numpy as np
import pytest

from pose_golden import assert_close, golden, needs_golden, numbers
from tiepoint.geometry.two_view import pose_errors as angles
from tiepoint.geometry.two_view.pose_errors import pose_errors

RULES = {
    "superglue.compute_pose_error": angles.ACOS,
    "loftr.relative_pose_error": angles.ACOS,
    "roma.compute_pose_error": angles.ACOS,
    "gluefactory.relative_pose_error(float64)": angles.ACOS_FLOOR,
    "gluefactory.relative_pose_error(float32)": angles.ACOS_FLOAT32,
    "toolbox.cal_relapose_error": angles.UNFOLDED,
    "imc.evaluate_R_t (rad)": angles.IMC,
}


def rotation(axis, degrees):
    axis = np.asarray(axis, float) / np.linalg.norm(axis)
    x = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    a = np.deg2rad(degrees)
    return np.eye(3) + np.sin(a) * x + (1 - np.cos(a)) * x @ x


@needs_golden
@pytest.mark.parametrize("tool", RULES)
def test_closed_cases(tool):
    assert set(RULES) == set(golden()["pose_error"][0]["out"])
    for case in golden()["pose_error"]:
        truth = numbers(case["T_0to1"])
        found = pose_errors(numbers(case["R"]), numbers(case["t"]), truth[:3, :3], truth[:3, 3], RULES[tool])
        if "rad" in tool:
            found = tuple(np.deg2rad(found))
        assert_close(found, case["out"][tool], 5e-6)


@pytest.mark.parametrize("degrees", [0, 1e-9, 1e-4, 0.3, 45, 90, 179.9999, 180])
def test_stable_angles_are_exact_everywhere(degrees):
    truth = rotation([1, 2, 3], 77)
    turned = rotation([3, -1, 2], degrees) @ truth
    t = np.array([0.3, -0.2, 1.1])
    axis = np.cross(t, [1, 0, 0])
    e_t, e_R = pose_errors(turned, 7 * rotation(axis, degrees) @ t, truth, t)
    assert e_R == pytest.approx(degrees, rel=1e-9, abs=2e-7 if degrees > 179 else 1e-12)
    assert e_t == pytest.approx(degrees, rel=1e-9, abs=1e-11)


def test_a_truth_of_five_decimals_costs_a_perfect_estimate_nothing_under_the_stable_rule():
    worst = 0.0
    for k in range(200):
        rounded = rotation([np.sin(k), np.cos(3 * k), 1], 7 * k).round(5)
        perfect = angles.nearest_rotation(rounded)
        assert pose_errors(perfect, [1, 0, 0], rounded, [1, 0, 0])[1] < 1e-12
        worst = max(worst, float(pose_errors(perfect, [1, 0, 0], rounded, [1, 0, 0], angles.ACOS)[1]))
    assert 0.05 < worst < 0.3


def test_translation_zero_is_nan_or_ninety():
    zero = [pose_errors(np.eye(3), np.zeros(3), np.eye(3), [0, 0, 1], rule)[0] for rule in RULES.values()]
    np.testing.assert_array_equal(np.array(zero).round(4), [np.nan] * 3 + [90, 90, np.nan, 90])
    assert np.isnan(pose_errors(np.eye(3), np.zeros(3), np.eye(3), [0, 0, 1])[0])
    assert not angles.has_baseline(np.zeros(3))


@pytest.mark.parametrize("rule", [angles.STABLE, *RULES.values()])
def test_stacks_equal_single_poses(rule):
    rng = np.random.default_rng(5)
    R = np.array([rotation(rng.normal(size=3), d) for d in (0, 3, 60, 178)])
    t, R_gt, t_gt = rng.normal(size=(4, 3)), rotation([1, 1, 0], 20), rng.normal(size=3)
    e_t, e_R = pose_errors(R, t, R_gt, t_gt, rule)
    single = np.array([pose_errors(*pose, R_gt, t_gt, rule) for pose in zip(R, t, strict=True)])
    np.testing.assert_allclose(np.stack([e_t, e_R], 1), single, atol=1e-6)


def test_nearest_rotation_is_a_rotation_also_for_a_mirror():
    nearest = angles.nearest_rotation(np.stack([np.diag([1.0, 1.0, -1.1]), 3 * rotation([1, 0, 2], 50)]))
    np.testing.assert_allclose(np.linalg.det(nearest), 1, atol=1e-12)
    np.testing.assert_allclose(nearest @ nearest.swapaxes(1, 2), [np.eye(3)] * 2, atol=1e-12)
    np.testing.assert_allclose(nearest[1], rotation([1, 0, 2], 50), atol=1e-12)
