# SPDX-License-Identifier: BSD-3-Clause
"""Several benchmarks at once: each has its score, `all` is their mean, scenes keep their names."""

import numpy as np
import pytest
from hpatches_v1_world import make_descriptors, make_world, run_task
from hpatches_world import features_of, value

from tiepoint.stats.resampling import make_scene_score
from tiepoint.tasks.hpatches_v1.classification.task import TASK as CLASSIFICATION
from tiepoint.tasks.hpatches_v1.matching.task import TASK as MATCHING


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = make_world(tmp_path_factory.mktemp("v1"))
    (world.root / "matching" / "second.benchmark").write_text("v_two.ref,v_two.e4\nv_two.ref,v_two.e5\n")
    folder = world.root / "classification"
    (folder / "second.benchmark").write_text("b_pos.pairs\nc_neg.pairs\n")
    lines = (folder / "b_neg.pairs").read_text().split("\n")
    (folder / "c_neg.pairs").write_text("\n".join(lines[:40]) + "\n")
    return world


def test_matching_means(world):
    _, records = run_task(MATCHING, world, features_of(make_descriptors(world, "noisy")))
    for protocol in MATCHING.protocols:
        scores = MATCHING.score(records, protocol)
        for metric in ("ap", "ap_ratio", "success_rate", "map_query"):
            parts = [value(scores, metric, f"benchmark={b}") for b in ("bench", "second")]
            assert value(scores, metric) == pytest.approx(np.mean(parts))
            whole = next(s for s in scores if s.metric == metric and s.group == "all")
            assert make_scene_score(whole.scenes).value() == pytest.approx(whole.value)
            assert whole.scenes.cells.shape == (2, 3)
            assert {s.group for s in scores if s.metric == metric and "scene" in s.group} == {
                "scene=i_one",
                "scene=v_two",
                "scene=v_three",
            }


def test_classification_means_and_fewer_negatives_than_positives(world):
    _, records = run_task(CLASSIFICATION, world, features_of(make_descriptors(world, "noisy")))
    scores = CLASSIFICATION.score(records, "exact")
    for metric in ("auc", "ap", "fpr95"):
        for balance in ("balanced", "imbalanced"):
            parts = [value(scores, metric, f"balance={balance},benchmark={b}") for b in ("bench", "second")]
            assert value(scores, metric, f"balance={balance}") == pytest.approx(np.mean(parts))
    # The second has 60 positives and 40 negatives: there is nothing to leave out.
    both = [value(scores, "ap", f"balance={b},benchmark=second") for b in ("balanced", "imbalanced")]
    assert both[0] == both[1]
    # A mean over benchmarks has an interval too: its bins carry those of every list.
    means = [s for s in scores if "benchmark" not in s.group]
    assert all(s.pooled is not None and len(s.pooled.also) == 1 for s in means)
