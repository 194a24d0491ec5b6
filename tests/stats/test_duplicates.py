# SPDX-License-Identifier: BSD-3-Clause
"""Duplicate scenes and identical methods are found; coincidences are not taken for them."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.scores import SceneValues
from tiepoint.stats.duplicates import duplicate_scenes, identical_methods, merge_duplicates, merge_scenes
from tiepoint.stats.intervals import scene_interval
from tiepoint.stats.resampling import make_scene_score


def names(n: int) -> list[str]:
    return [f"s{k:03d}" for k in range(n)]


def test_three_times_the_same_scene_is_one_group() -> None:
    x = np.random.default_rng(0).random((4, 50))
    x[:, 30] = x[:, 11]
    x[:, 47] = x[:, 11] + 5e-10
    assert duplicate_scenes(x, names(50), ["v"] * 50) == [(11, 30, 47)]


def test_just_outside_the_tolerance_is_another_scene() -> None:
    x = np.random.default_rng(0).random((4, 50))
    x[:, 30] = x[:, 11]
    x[2, 30] += 1e-8
    assert duplicate_scenes(x, names(50), ["v"] * 50) == []


def test_other_kind_or_other_gaps_are_another_scene() -> None:
    x = np.random.default_rng(0).random((6, 50))
    x[:, 30] = x[:, 11]
    kinds = ["v"] * 50
    kinds[30] = "i"
    assert duplicate_scenes(x, names(50), kinds) == []
    x[5, 30] = np.nan
    assert duplicate_scenes(x, names(50), ["v"] * 50) == []


def test_easy_scenes_and_coarse_values_are_not_duplicates() -> None:
    ones = np.ones((8, 30))
    assert duplicate_scenes(ones, names(30), ["v"] * 30) == []
    coarse = np.random.default_rng(1).integers(1, 4, (3, 60)) / 5
    assert duplicate_scenes(coarse, names(60), ["v"] * 60) == []


def test_one_value_per_scene_cannot_prove_anything() -> None:
    x = np.random.default_rng(0).random((1, 50))
    x[:, 3] = x[:, 4]
    assert duplicate_scenes(x, names(50), ["v"] * 50) == []


def test_gaps_shared_by_a_kind_do_not_hide_duplicates() -> None:
    x = np.full((6, 60), np.nan)
    rng = np.random.default_rng(2)
    x[:3, :30], x[3:, 30:] = rng.random((3, 30)), rng.random((3, 30))
    x[3:, 50] = x[3:, 40]
    assert duplicate_scenes(x, names(60), ["i"] * 30 + ["v"] * 30) == [(40, 50)]


def test_merging_keeps_the_score_or_counts_the_scene_once() -> None:
    x = np.random.default_rng(0).random((4, 40))
    x[:, 7] = x[:, 3]
    score = make_scene_score(SceneValues(tuple(names(40)), ("v",) * 40, x))
    merged, found = merge_duplicates(score)
    assert found == [("s003", "s007")]
    assert merged.value() == pytest.approx(score.value(), abs=1e-14)
    once = merge_scenes(score, [(3, 7)], keep_score=False)
    assert once.value() == pytest.approx(np.delete(x, 7, axis=1).mean(), abs=1e-14)
    i = scene_interval(SceneValues(tuple(names(40)), ("v",) * 40, x))
    assert (i.n_scenes, i.kind) == (39, "t")
    assert "s003 = s007" in str(i.note)


def test_identical_methods() -> None:
    x = np.random.default_rng(0).random((5, 20))
    x[3] = x[1] + 1e-10
    x[:, 4] = np.nan
    assert identical_methods(x) == [(1, 3)]
    x[3, 0] += 1e-6
    assert identical_methods(x) == []


def test_two_values_are_too_few_even_if_no_one_else_shares_them() -> None:
    x = np.random.default_rng(0).random((2, 116))
    x[:, 3] = x[:, 4]
    assert duplicate_scenes(x, names(116), ["v"] * 116) == []
