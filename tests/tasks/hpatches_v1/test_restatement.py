# SPDX-License-Identifier: BSD-3-Clause
"""`hbench-2016` equals a restatement of the 2016 evaluator in plain loops, to 1e-12."""

import hpatches_v1_restatement as tool
import pytest
from hpatches_v1_world import make_descriptors, make_world, run_task
from hpatches_world import features_of, value

from tiepoint.tasks.hpatches_v1.classification.task import TASK as CLASSIFICATION
from tiepoint.tasks.hpatches_v1.matching.task import TASK as MATCHING
from tiepoint.tasks.hpatches_v1.retrieval.task import TASK as RETRIEVAL

KINDS = ("random", "noisy", "integer", "ties", "constant")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("v1"))


def lines(path):
    return path.read_text().split()


@pytest.mark.parametrize("kind", KINDS)
def test_classification(world, kind):
    descriptors = make_descriptors(world, kind)
    _, records = run_task(CLASSIFICATION, world, features_of(descriptors))
    scores = CLASSIFICATION.score(records, "hbench-2016")
    folder = world.root / "classification"
    expected = tool.classification(descriptors, lines(folder / "b_pos.pairs"), lines(folder / "b_neg.pairs"))
    for balance, (auc, ap) in expected.items():
        group = f"balance={balance},benchmark=bench"
        assert value(scores, "auc", group) == pytest.approx(auc, abs=1e-12)
        assert value(scores, "ap", group) == pytest.approx(ap, abs=1e-12)
    assert value(scores, "auc") == value(scores, "auc", "balance=imbalanced,benchmark=bench")


@pytest.mark.parametrize("kind", KINDS)
def test_matching(world, kind):
    descriptors = make_descriptors(world, kind)
    _, records = run_task(MATCHING, world, features_of(descriptors))
    scores = MATCHING.score(records, "hbench-2016")
    ap, ratio = tool.matching(descriptors, lines(world.root / "matching" / "bench.benchmark"))
    assert value(scores, "ap") == pytest.approx(ap, abs=1e-12)
    assert value(scores, "ap_ratio") == pytest.approx(ratio, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_retrieval(world, kind):
    descriptors = make_descriptors(world, kind)
    _, records = run_task(RETRIEVAL, world, features_of(descriptors))
    scores = RETRIEVAL.score(records, "hbench-2016")
    head, *queries = lines(world.root / "retrieval" / "bench.benchmark")
    patch, image = tool.retrieval(descriptors, head.split(","), queries)
    assert value(scores, "map_patch") == pytest.approx(patch, abs=1e-12)
    assert value(scores, "map_image") == pytest.approx(image, abs=1e-12)
