"""Every recorded figure of the original evaluations: 24 small models and 37 runs of the sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfm_models import golden, needs_golden, number, posed_scene
from tiepoint.metrics.reconstruction.areas import auc_colmap, recall
from tiepoint.metrics.reconstruction.centres import colmap_centre_errors
from tiepoint.metrics.reconstruction.imc_centres import maa_2024, scores_2025, thresholds_2024
from tiepoint.metrics.reconstruction.imc_pairs import maa_2021, maa_2023, thresholds_2023
from tiepoint.metrics.reconstruction.relative import colmap_errors, exact_errors
from tiepoint.metrics.reconstruction.trajectory import ALIGNMENTS, statistics, trajectory_errors

pytestmark = needs_golden
CASES = {**golden().get("cases", {}), **golden().get("sample", {})}
DEGREES = (0.5, 1.0, 5.0, 10.0)
METRES = (0.02, 0.05, 0.2, 0.5)
LIMITS = (0.001, 0.02)


def numbers(values: Any) -> np.ndarray:
    return np.array([number(v) for v in values])


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", CASES)
def test_colmap_relative_equals_record(name: str, limit: float) -> None:
    recorded = CASES[name]["figures"][f"colmap_relative_{limit}"]
    errors = colmap_errors(posed_scene(CASES[name], limit))
    if name != "same_centre":  # its directions are rounding noise
        np.testing.assert_allclose(errors, numbers(recorded["errors_deg"]), rtol=1e-9, atol=3e-6)
    for auc, share, auc0, t in zip(
        recorded["auc"], recorded["recall"], recorded["auc_min_error_0"], DEGREES, strict=True
    ):
        assert 100 * auc_colmap(errors, t, limit) == pytest.approx(auc, abs=1e-6)
        assert 100 * recall(errors, t) == pytest.approx(share, abs=1e-9)
        exact_poses = (errors < 1e-5).any()  # arccos near 1: the original is at 0 or 2e-6 degrees
        assert 100 * auc_colmap(errors, t) == pytest.approx(auc0, abs=4e-4 if exact_poses else 1e-6)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", CASES)
def test_colmap_absolute_equals_record(name: str, limit: float) -> None:
    pytest.importorskip("pycolmap")
    recorded = CASES[name]["figures"][f"colmap_absolute_{limit}"]
    errors = colmap_centre_errors(posed_scene(CASES[name], limit))
    np.testing.assert_allclose(errors, numbers(recorded["errors"]), rtol=1e-9, atol=1e-12)
    for auc, share, t in zip(recorded["auc"], recorded["recall"], METRES, strict=True):
        assert 100 * auc_colmap(errors, t, limit) == pytest.approx(auc, abs=1e-6)
        assert 100 * recall(errors, t) == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_exact_equals_record(name: str) -> None:
    recorded = CASES[name]["figures"]["exact_restated"]
    found = exact_errors(posed_scene(CASES[name], 0.001))
    if recorded["auc"] is None:
        assert found.total == 0
        return
    assert (found.total, found.merged, found.short) == (
        recorded["directed_pairs"], recorded["merged_pairs"], recorded["short_baselines"]
    )  # fmt: skip
    for t in DEGREES:
        assert 100 * found.share(found.error, t) == pytest.approx(recorded["auc"][str(t)], abs=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_imc2021_equals_record(name: str) -> None:
    recorded = CASES[name]["figures"]["imc2021"]
    if "raises" in recorded:
        assert name in ("nan_pose", "gt_single")
        return
    five, ten = maa_2021(posed_scene(CASES[name]))
    assert (five, ten) == (
        pytest.approx(recorded["qt_auc_colmap_05"], abs=1e-12),
        pytest.approx(recorded["qt_auc_colmap_10"], abs=1e-12),
    )


@pytest.mark.parametrize("name", CASES)
def test_imc2023_equals_record(name: str) -> None:
    recorded = CASES[name]["figures"]["imc2023_missing_identity"]
    degrees, metres, _ = thresholds_2023("haiper")
    found = maa_2023(posed_scene(CASES[name]), degrees, metres)
    if "raises" in recorded:
        assert np.isnan(found).all()
        return
    expected = [number(recorded[key]) for key in ("mAA", "mAA_q", "mAA_t")]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_imc2024_equals_record(name: str) -> None:
    recorded = CASES[name]["figures"]["imc2024"]
    assert maa_2024(posed_scene(CASES[name]), thresholds_2024("")) == pytest.approx(
        recorded["maa"], abs=1e-15
    )


@pytest.mark.parametrize("name", CASES)
def test_imc2025_equals_record(name: str) -> None:
    recorded = CASES[name]["figures"]["imc2025"]
    found = scores_2025(posed_scene(CASES[name]))
    assert 100 * found.score == pytest.approx(recorded["score"], abs=1e-9)
    assert f"(mAA={100 * found.maa:.2f}%, clusterness={100 * found.clusterness:.2f}%)" in recorded["printed"]


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("name", CASES)
def test_trajectory_errors_equal_record(name: str, alignment: str) -> None:
    recorded = CASES[name]["figures"][f"evo_{alignment}"]
    scene = posed_scene(CASES[name])
    order = np.argsort(list(CASES[name]["input"]["gt"]))
    found = trajectory_errors(scene, order, alignment)
    if "raises" in recorded:
        assert len(found) < 4
        return
    if name in ("same_centre", "two_images") and alignment != "none":
        return  # rounding decides the rotation
    for metric, errors in found.items():
        for statistic, value in statistics(errors).items():
            scale = 1e-9 if metric.endswith("deg") else 1e-12
            expected = number(recorded[metric][statistic])
            assert value == pytest.approx(expected, rel=1e-7, abs=1e-6 if scale == 1e-9 else 1e-9)
