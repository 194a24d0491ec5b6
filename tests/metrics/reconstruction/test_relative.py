# SPDX-License-Identifier: BSD-3-Clause
"""Errors of ordered pairs worked out by hand: directions of translation, and pairs in several models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfm_models import posed_scene
from tiepoint.metrics.reconstruction.areas import recall
from tiepoint.metrics.reconstruction.relative import colmap_errors, exact_errors
from tiepoint.metrics.reconstruction.scene import PosedScene


def pose(x: float, turn_deg: float = 0.0) -> dict[str, Any]:
    """A camera at (x, 0, 0), turned about its viewing direction."""
    a = np.deg2rad(turn_deg)
    t = [-x * np.cos(a), -x * np.sin(a), 0.0]
    return {"qvec": [np.cos(a / 2), 0.0, 0.0, np.sin(a / 2)], "tvec": t}


def scene(*models: dict[str, Any], true: dict[str, Any]) -> PosedScene:
    return posed_scene({"input": {"gt": true, "models": list(models), "components": None}})


def test_direction_of_translation_is_measured_in_the_second_camera() -> None:
    found = exact_errors(scene({"a": pose(0), "b": pose(1, 3)}, true={"a": pose(0), "b": pose(1)}))
    by_pair = {(int(i), int(j)): t for i, j, t in zip(found.i, found.j, found.translation, strict=True)}
    assert by_pair[0, 1] == pytest.approx(3, abs=1e-9)
    assert by_pair[1, 0] == pytest.approx(0, abs=1e-9)
    assert found.rotation.tolist() == pytest.approx([3, 3])
    assert found.total == 2


def test_pair_in_two_models_has_the_mean_of_its_scores_and_counts_twice_for_colmap() -> None:
    true = {"a": pose(0), "b": pose(1), "c": pose(2)}
    wrong = {"a": pose(0), "b": pose(1, 90)}
    both = scene(true, wrong, true=true)
    exact = exact_errors(both)
    assert exact.total == 6
    assert exact.share(exact.error, 5) == pytest.approx((2 * 0.5 + 4) / 6)
    errors = colmap_errors(both)
    assert len(errors) == 8
    assert recall(errors, 5) == pytest.approx(6 / 8)
    again = exact_errors(scene(wrong, true, true=true))
    assert again.share(again.error, 5) == exact.share(exact.error, 5)
