# SPDX-License-Identifier: BSD-3-Clause
"""Each quirk of the 2016 evaluator alone moves a score, on data made for it."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hpatches_v1_world import World, make_descriptors, make_world, run_task
from hpatches_world import features_of, value

from tiepoint.core.errors import UnknownNameError
from tiepoint.tasks.hpatches_v1.classification import score as v1_classification_scores
from tiepoint.tasks.hpatches_v1.classification.task import TASK as CLASSIFICATION
from tiepoint.tasks.hpatches_v1.matching import score as v1_matching_scores
from tiepoint.tasks.hpatches_v1.matching.task import TASK as MATCHING
from tiepoint.tasks.hpatches_v1.protocols import (
    HPatchesV1Rules,
    convention_steps,
    exact_rules,
    hpatches_v1_rules,
    six_decimals,
    six_digits,
)
from tiepoint.tasks.hpatches_v1.retrieval import score as v1_retrieval_scores
from tiepoint.tasks.hpatches_v1.retrieval.task import TASK as RETRIEVAL

SCORERS = {
    CLASSIFICATION: v1_classification_scores.score,
    MATCHING: v1_matching_scores.score,
    RETRIEVAL: v1_retrieval_scores.score,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("v1"))


def some_failed(descriptors, share=0.1):
    rng = np.random.default_rng(4)
    return {k: rng.random(len(v)) > share for k, v in descriptors.items()}


def one_target_left(descriptors):
    """Only patch 0 of every target image has a descriptor: no second neighbour anywhere."""
    return {k: np.arange(len(v)) == 0 for k, v in descriptors.items() if not k.endswith("/ref")}


def far_apart(world):
    """Every image far from every other: squared distances near 18 million, differing by some tens."""
    found = {}
    for i, (k, v) in enumerate(make_descriptors(world, "noisy").items()):
        found[k] = np.c_[v.astype(np.float64), np.zeros((len(v), 18))]
        found[k][:, 8 + i] = 3000.0
    return found


def permuted_labels(world):
    path = world.root / "matching" / "bench.labels"
    rng = np.random.default_rng(0)
    lines = []
    for line in (world.root / "matching" / "bench.benchmark").read_text().split():
        n = world.counts[line.split(",")[0]]
        lines += [line, ",".join(map(str, range(n))), ",".join(map(str, rng.permutation(n)))]
    path.write_text("\n".join(lines) + "\n")
    return path


CASES = {
    "matching_normaliser_valid": (MATCHING, "noisy", None, "ap", 1),
    "zero_without_match": (MATCHING, "random", None, "ap", 1),
    "retrieval_normaliser_retrieved": (RETRIEVAL, "noisy", None, "map_patch", 1),
    "file_order": (CLASSIFICATION, "ties", None, "ap", 1),
    "lowest_index_match": (MATCHING, "ties", None, "success_rate", 1),
    "squared": (CLASSIFICATION, "noisy", None, "ap", 1e-4),
    "single_precision": (CLASSIFICATION, "far", None, "ap", 1),
    "six_decimals": (CLASSIFICATION, "noisy", None, "ap", 1e-4),
    "six_digits": (MATCHING, "far", None, "ap", 1),
    "roc_stops": (CLASSIFICATION, "noisy", some_failed, "auc", 1),
    "nan_is_infinite": (CLASSIFICATION, "noisy", some_failed, "ap", 1),
    "both_infinite": (MATCHING, "noisy", one_target_left, "ap", 1),
    "ratio_nan_first": (MATCHING, "ties", None, "ap_ratio", 1),
    "first_label_line": (MATCHING, "noisy", None, "ap", 1),
    "balanced_first_negatives": (CLASSIFICATION, "noisy", None, "auc", 1),
    "headline_imbalanced": (CLASSIFICATION, "noisy", None, "auc", 1),
    "query_swapped_first": (RETRIEVAL, "ties", None, "map_patch", 1),
    "divisor_q_plus_one": (RETRIEVAL, "noisy", None, "map_patch", 1),
}


def test_every_quirk_has_a_case():
    assert set(CASES) == {f.name for f in fields(HPatchesV1Rules)}


@pytest.mark.parametrize("quirk", CASES)
def test_a_quirk_alone_moves_a_score(world, quirk):
    task, kind, failures, metric, scale = CASES[quirk]
    descriptors = far_apart(world) if kind == "far" else make_descriptors(world, kind)
    descriptors = {k: v * scale for k, v in descriptors.items()}
    labels = permuted_labels(world) if quirk == "first_label_line" else None
    valid = failures(descriptors) if failures else None
    try:
        _, records = run_task(task, world, features_of(descriptors, valid=valid))
    finally:
        if labels is not None:
            labels.unlink()
    group = "all"
    if quirk == "balanced_first_negatives":
        group = "balance=balanced"
    base = HPatchesV1Rules()
    if quirk in ("six_digits", "single_precision"):
        # These two overlap: single precision already removes what six digits would.
        base = replace(base, single_precision=quirk == "single_precision", six_digits=quirk == "six_digits")
        base = replace(base, six_decimals=False)
    on = value(SCORERS[task](records, base, "p"), metric, group)
    off = value(SCORERS[task](records, replace(base, **{quirk: False}), "p"), metric, group)
    assert on != pytest.approx(off, abs=1e-9)


def test_conventions_lead_from_one_protocol_to_the_other(world):
    features = features_of(make_descriptors(world, "ties"))
    for task in SCORERS:
        _, records = run_task(task, world, features)
        legacy, exact = task.score(records, "hbench-2016"), task.score(records, "exact")
        for metric, steps, _ in task.convention_steps(records):
            assert steps[0] == ("hbench-2016", pytest.approx(value(legacy, metric)))
            assert steps[-1][1] == pytest.approx(value(exact, metric), abs=1e-15)
            assert len(steps) >= 4
        assert convention_steps(task.name.split("/")[1])[-1][1].file_order is False


def test_rules():
    assert hpatches_v1_rules("exact") == exact_rules()
    with pytest.raises(UnknownNameError, match="did you mean 'hbench-2016'"):
        hpatches_v1_rules("hbench-2017")


def test_text_round_trips_are_those_of_the_formats():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            rng.random(5000) * 4,
            (rng.integers(0, 10**7, 2000) + 0.5) / 1e6,
            10 ** rng.uniform(-9, 15, 3000),
            [0.0, 0.5, 1.0, 0.0000005, 0.0000015, 2.0**50 + 0.5],
        ]
    )
    assert six_decimals(x).tolist() == [float(f"{v:.6f}") for v in x]
    expected = [v if v == int(v) else float(f"{v:e}") for v in x]
    assert six_digits(x) == pytest.approx(expected, rel=1e-15, abs=0)
    assert six_decimals(np.array([np.inf]))[0] == np.inf
    assert six_digits(np.zeros(0)).shape == (0,)


def test_worlds_are_large_enough_for_a_cut_tie(tmp_path):
    """A pool smaller than the list works too."""
    small = World(tmp_path, {"i_one": 3, "v_two": 2})
    from hpatches_v1_world import write_retrieval_files

    write_retrieval_files(tmp_path / "retrieval", small, queries=4)
    for kind in ("ties", "constant", "oracle"):
        _, records = run_task(RETRIEVAL, small, features_of(make_descriptors(small, kind)))
        for s in RETRIEVAL.score(records, "exact"):
            if kind == "constant" and s.chance is not None:
                assert s.value == pytest.approx(s.chance)
            if kind == "oracle" and s.metric == "map_patch":
                assert s.value == pytest.approx(1.0)
        assert all(0 <= s.value <= 1 for s in RETRIEVAL.score(records, "hbench-2016"))
