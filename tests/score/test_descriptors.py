# SPDX-License-Identifier: BSD-3-Clause
"""`score.matching`, `.verification` and `.retrieval` give the scores of the tasks on the same arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hpatches_v1_world import make_descriptors, make_world, run_task
from keypoint_world import make_features, make_scenes
from keypoint_world import run_task as run_keypoints
from same_rows import assert_same_rows

import tiepoint as tp
from tiepoint.core.errors import InputError
from tiepoint.core.records import Features
from tiepoint.run.scoring import score_rows_with_intervals
from tiepoint.tasks.hpatches_v1.classification.task import TASK as CLASSIFICATION
from tiepoint.tasks.hpatches_v1.matching.task import TASK as MATCHING
from tiepoint.tasks.hpatches_v1.protocols import hpatches_v1_rules, printed_classification
from tiepoint.tasks.keypoints.retrieval.task import TASK as RETRIEVAL

LENGTHS = {f"{'iv'[k % 2]}_{k}": 8 + k for k in range(8)}


@pytest.mark.parametrize("kind", ["noisy", "ties", "constant"])
@pytest.mark.parametrize("protocol", ["exact", "hbench-2016"])
def test_matching_equals_task(tmp_path: Path, kind: str, protocol: str) -> None:
    world = make_world(tmp_path, LENGTHS)
    values = make_descriptors(world, kind)
    features = Features(lambda key: {"values": values[key]})
    opened, records = run_task(MATCHING, world, features, protocol)
    ((benchmark, truth),) = [d.content for d in opened.definitions.values()]
    pairs = [[values[name.replace(".", "/")] for name in pair] for pair in benchmark.pairs]
    found = tp.score.matching(
        [a for a, _ in pairs],
        [b for _, b in pairs],
        [t.target for t in truth],
        scenes=[a.partition(".")[0] for a, _ in benchmark.pairs],
        protocol=protocol,
    )
    assert_same_rows(found, score_rows_with_intervals(MATCHING, MATCHING.score(records, protocol)))
    assert found.low is not None
    assert {"ap", "ap_ratio", "success_rate", "map_query"} <= set(found.values)


@pytest.mark.parametrize("kind", ["noisy", "ties"])
@pytest.mark.parametrize("protocol", ["exact", "hbench-2016"])
@pytest.mark.filterwarnings("ignore:a ROC area")
def test_verification_equals_task(tmp_path: Path, kind: str, protocol: str) -> None:
    world = make_world(tmp_path, LENGTHS)
    values = make_descriptors(world, kind)
    features = Features(lambda key: {"values": values[key]})
    _, records = run_task(CLASSIFICATION, world, features, protocol)
    (r,) = records
    names = np.array(r.meta["scenes"])
    distances = printed_classification(r, r["distance"], hpatches_v1_rules(protocol))
    scenes = np.column_stack([names[r["scene_a"]], names[r["scene_b"]]])
    found = tp.score.verification(distances, r["label"], scenes=scenes, protocol=protocol)
    expected = score_rows_with_intervals(CLASSIFICATION, CLASSIFICATION.score(records, protocol))
    assert_same_rows(found, expected)
    assert found.low is not None
    assert {"ap", "auc", "fpr95", "auc[balance=imbalanced]"} <= set(found.values)


@pytest.mark.parametrize("style", ["ties", "real"])
@pytest.mark.parametrize("protocol", ["exact", "bojanic"])
def test_retrieval_equals_task(tmp_path: Path, style: str, protocol: str) -> None:
    root = make_scenes(tmp_path, names=[f"{'iv'[k % 2]}_{k}" for k in range(8)])
    options = {"iterations": 1, "distractor_images": 9}
    _, records = run_keypoints(
        RETRIEVAL, root, lambda opened: make_features(opened, style=style), protocol, **options
    )
    distances, relevant, scenes = [], [], []
    for r in records:
        for query in np.unique(r["query"]):
            rows = r["query"] == query
            distances.append(r["distance"][rows])
            relevant.append(r["right"][rows])
            scenes.append(r.meta["scene"])
        missed = int(r.meta.get("unanswered", 0))  # under `exact`, queries without a relevant candidate
        distances += [np.array([1.0])] * missed
        relevant += [np.array([0])] * missed
        scenes += [r.meta["scene"]] * missed
    found = tp.score.retrieval(distances, relevant, scenes=scenes, protocol=protocol)
    assert_same_rows(found, score_rows_with_intervals(RETRIEVAL, RETRIEVAL.score(records, protocol)))
    assert found.low is not None


def test_matching_one_pair_without_scenes_no_interval() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(20, 8)).astype(np.float32)
    order = rng.permutation(20)
    found = tp.score.matching(a[order], a, order)
    assert (found.value, found.n, found.low, found.interval) == (1.0, 1, None, None)
    assert str(found).startswith("ap 1.0000, n = 1; hpatches-v1/matching, exact (")


def test_matching_tensor_and_hamming_accepted() -> None:
    torch = pytest.importorskip("torch")
    a = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    assert tp.score.matching(torch.tensor(a), torch.tensor(a), torch.arange(9)).value == 1.0
    assert tp.score.matching(a > 0, a > 0, np.arange(9), distance="hamming").values["success_rate"] < 1


def test_retrieval_single_query_array() -> None:
    assert tp.score.retrieval(np.array([0.1, 0.2, 0.3]), np.array([0, 1, 0])).value == 0.5


GOOD = np.eye(4, dtype=np.float32)
MATCH = {"desc_a": GOOD, "desc_b": GOOD, "truth": np.arange(4)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"desc_a": np.zeros(4)}, r"desc_a: descriptors must have shape \(n, d\), found float64 \(4,\)"),
        ({"desc_a": GOOD[:, :3] + 1}, r"desc_a has shape \(4, 3\) and desc_b \(4, 4\)"),
        ({"desc_b": GOOD * np.nan}, "desc_b: 4 descriptors have NaN"),
        ({"desc_b": np.full((4, 4), "x")}, "descriptors must be numbers, found dtype <U1"),
        ({"truth": np.arange(3)}, r"truth is int64 \(3,\); expected integers of shape \(4,\)"),
        ({"truth": np.arange(4) / 2}, r"truth is float64 \(4,\); expected integers"),
        ({"truth": [0, 1, 2, -1]}, r"truth\[3\] is -1, but desc_b has 4 rows"),
        ({"truth": [0, 1, 2, 4]}, r"truth\[3\] is 4, but desc_b has 4 rows"),
        ({"desc_a": [GOOD, GOOD]}, "desc_a has length 2, desc_b has length 1"),
        ({"desc_a": GOOD[:0]}, "found no descriptors"),
        ({"distance": "l3"}, "unknown distance 'l3'"),
        ({"protocol": "hbench"}, "unknown protocol of score.matching 'hbench'; did you mean 'hbench-2016'"),
        ({"scenes": ["a=b"]}, "scene label 'a=b' is not usable"),
    ],
)
def test_matching_wrong_input_shows_what_was_seen(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tp.score.matching(**{**MATCH, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"distances": [0.1, np.nan]}, r"distances\[1\] is nan; pass infinity"),
        ({"distances": [[0.1, 0.2]]}, r"expected numbers of shape \(n,\), found float64 \(1, 2\)"),
        ({"labels": [1, 2]}, r"labels\[1\] is 2; expected True or False"),
        ({"labels": [1, 1]}, "labels has 2 correct and 0 incorrect pairs"),
        ({"labels": [1, 0, 0]}, "distances has length 2, labels has length 3"),
        ({"scenes": [["a", "b"]]}, r"scenes has shape \(1, 2\); expected \(2,\) or \(2, 2\)"),
        ({"protocol": "workbench"}, "unknown protocol of score.verification 'workbench'"),
    ],
)
def test_verification_wrong_input_shows_what_was_seen(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tp.score.verification(**{"distances": [0.1, 0.2], "labels": [True, False], **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"distances": [[0.1, -np.inf]]}, r"distances\[0\]\[1\] is -inf"),
        ({"relevant": [[1]]}, r"distances\[0\] has length 2 and relevant\[0\] 1"),
        ({"relevant": [[0, 0]]}, "no query has a relevant candidate"),
        ({"relevant": [[1, 0], [0, 1]]}, "distances has length 1, relevant has length 2"),
        ({"protocol": "workbench"}, "unknown protocol of score.retrieval 'workbench'"),
    ],
)
def test_retrieval_wrong_input_shows_what_was_seen(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tp.score.retrieval(**{"distances": [[0.1, 0.2]], "relevant": [[1, 0]], **changes})
