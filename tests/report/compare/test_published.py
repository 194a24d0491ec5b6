# SPDX-License-Identifier: BSD-3-Clause
"""The published descriptors on HPatches matching: what an independent calculation found, found again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.scores import SceneValues
from tiepoint.report.compare.comparison import Comparison
from tiepoint.report.compare.methods import compare_methods

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
FILE = DATA / "hpatches_reference_results" / "matching_ap.json"
pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="no published results (TIEPOINT_TEST_DATA)")


def six_cells(published: dict[str, dict[str, dict[str, float]]]) -> SceneValues:
    """Rows kind x noise, the mean over the five images of each sequence."""
    scenes = sorted(published)
    cells = np.array(
        [
            [np.mean(list(published[s][z].values())) if s[0] == kind else np.nan for s in scenes]
            for kind in "iv"
            for z in "eht"
        ]
    )
    return SceneValues(tuple(scenes), tuple(s[0] for s in scenes), cells)


@pytest.fixture(scope="module")
def published() -> Comparison:
    full = json.loads(FILE.read_text())["full"]
    assert (len(full), len(full["orb"])) == (23, 116)
    return compare_methods({m: six_cells(full[m]) for m in full}, task="hpatches/matching", metric="map")


def test_distinct_methods_and_scenes_are_found(published: Comparison) -> None:
    assert (published.n_methods, published.n_scenes) == (22, 115)
    assert any("i_objects = i_table" in n for n in published.notes)
    assert any("DOAP-ST-Lib-256b equals DOAP-Lib-256b" in n for n in published.notes)


def test_sosnet_is_better_than_hardnet_plus(published: Comparison) -> None:
    pair = published.pair("SOSNet", "hardnet+")
    assert round(100 * pair.difference, 2) == 0.96
    assert 100 * pair.single_low == pytest.approx(0.79, abs=0.01)  # type: ignore[operator]
    assert 100 * pair.single_high == pytest.approx(1.12, abs=0.01)  # type: ignore[operator]
    assert 100 * pair.low == pytest.approx(0.68, abs=0.02)  # type: ignore[operator]
    assert 100 * pair.high == pytest.approx(1.24, abs=0.02)  # type: ignore[operator]
    assert pair.wins == (104, 0, 11)
    assert pair.separated
    assert pair.p_adjusted == published.smallest_p
    assert published.answer("SOSNet", "hardnet+").startswith("SOSNet is better than hardnet+ by 0.96 points")


def test_intervals_and_tests_say_the_same_of_all_231_pairs(published: Comparison) -> None:
    for pair in published.pairs:
        assert pair.low is not None
        assert pair.high is not None
        if not pair.separated:
            assert pair.low <= 0 <= pair.high
        else:
            assert min(pair.low, pair.difference) >= 0 or max(pair.high, pair.difference) <= 0
    assert sum(not p.separated for p in published.pairs) > 3


def test_groups(published: Comparison) -> None:
    by = {r.method: r for r in published.rows}
    assert by["SOSNet"].letters == ("a",)
    assert set(by["tfeat-margin-star"].letters) & set(by["cvRSIFT"].letters)
    assert set(by["rootsift"].letters) & set(by["BiSIFT"].letters)
    assert not set(by["rootsift"].letters) & set(by["sift"].letters)
    assert by["SOSNet"].rank_worst == 1
    assert by["cvFREAK"].rank_best == 22


def test_scores_with_all_116_sequences_are_the_published_ones() -> None:
    from tiepoint.stats.resampling import make_scene_score

    full = json.loads(FILE.read_text())["full"]
    for method, value in (("sift", 25.44), ("rootsift", 27.20), ("hardnet+", 52.74), ("SOSNet", 53.70)):
        assert round(100 * make_scene_score(six_cells(full[method])).value(), 2) == value
