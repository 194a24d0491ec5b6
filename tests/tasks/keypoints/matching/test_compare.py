# SPDX-License-Identifier: BSD-3-Clause
"""Examples of wrong matches: wrong, answerable, and with the answer that was given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from keypoint_world import make_features, make_scenes

from tiepoint.geometry.homography import project
from tiepoint.tasks.keypoints.matching.compare import (
    CELL_PX,
    MAX_WRONG_EXAMPLES,
    compare_exact,
    wrong_answers,
)
from tiepoint.tasks.keypoints.matching.task import TASK

TAU_PX = 3.0


@pytest.mark.parametrize("style", ["real", "constant"])
def test_examples_are_wrong_matches_with_the_nearest_answer(tmp_path: Path, style: str) -> None:
    opened = TASK.open(make_scenes(tmp_path), {"tau_px": TAU_PX})
    features = make_features(opened, style=style, count=60)
    seen = 0
    for unit in opened.units:
        records = compare_exact(opened, unit.key, features)
        first = records.meta["first"]
        source = features.arrays(f"{unit.key}/{first}")
        for pair in records.meta["pairs"]:
            target = features.arrays(f"{unit.key}/{pair['image']}")
            h = opened.sequences.homography(unit.key, pair["image"])
            assert len(pair["wrong"]) <= MAX_WRONG_EXAMPLES
            for qx, qy, tx, ty, gx, gy in pair["wrong"]:
                seen += 1
                places = source["keypoints"][:, :2]
                at = np.flatnonzero(np.abs(places - [qx, qy]).max(axis=1) < 0.06)
                assert len(at)
                assert project(h, places[at[:1]])[0] == pytest.approx([tx, ty], abs=0.06)
                assert np.hypot(gx - tx, gy - ty) > TAU_PX - 0.2
                spots = target["keypoints"][:, :2]
                assert (np.hypot(*(spots - [tx, ty]).T) <= TAU_PX + 0.2).any()
                if style == "real":
                    d = ((target["values"] - source["values"][at[0]]) ** 2).sum(axis=1)
                    assert np.abs(spots[np.argmin(d)] - [gx, gy]).max() < 0.06
    assert seen > (10 if style == "real" else -1)


def test_references_name_images_and_places(tmp_path: Path) -> None:
    opened = TASK.open(make_scenes(tmp_path), {})
    features = make_features(opened, style="real", count=60)
    records = [compare_exact(opened, u.key, features) for u in opened.units]
    named = list(wrong_answers(records))
    assert len(named) == sum(len(p["wrong"]) for r in records for p in r.meta["pairs"])
    items = {i.key for i in opened.items}
    for query, right, given in named:
        for reference in (query, right, given):
            item, _, place = reference.partition("@")
            assert item in items
            x, y = map(int, place.split(","))
            if reference is not given:
                assert x % CELL_PX == y % CELL_PX == CELL_PX // 2
        assert right.split("@")[0] == given.split("@")[0] != query.split("@")[0]
