# SPDX-License-Identifier: BSD-3-Clause
"""Each rule of the 2017 tools alone moves a score, on data made for it; conventions lead to `exact`."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hpatches_world import features_of, make_descriptors, make_world, run_task, value

from tiepoint.core.errors import UnknownNameError
from tiepoint.tasks.hpatches.matching import score as v2_matching_scores
from tiepoint.tasks.hpatches.matching.task import TASK as MATCHING
from tiepoint.tasks.hpatches.protocols import HPatchesRules, convention_steps, hpatches_rules
from tiepoint.tasks.hpatches.retrieval import compare as v2_pools
from tiepoint.tasks.hpatches.retrieval import score as v2_retrieval_scores
from tiepoint.tasks.hpatches.retrieval.task import TASK as RETRIEVAL
from tiepoint.tasks.hpatches.verification import score as v2_verification_scores
from tiepoint.tasks.hpatches.verification.task import TASK as VERIFICATION

SCORERS = {
    VERIFICATION: v2_verification_scores.score,
    MATCHING: v2_matching_scores.score,
    RETRIEVAL: v2_retrieval_scores.score,
}
HEADLINE = {VERIFICATION: "ap", MATCHING: "map", RETRIEVAL: "map"}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("v2"))


@pytest.fixture(autouse=True)
def small_pools(monkeypatch):
    monkeypatch.setattr(v2_pools, "SIZES", (8, 12, 20))
    monkeypatch.setattr(v2_pools, "PYTHON_SIZES", (8, 12, 20))
    monkeypatch.setattr(v2_pools, "MATLAB_SIZE", 12)


def some_failed(descriptors, share=0.1):
    rng = np.random.default_rng(4)
    return {k: rng.random(len(v)) > share for k, v in descriptors.items()}


def far_apart():
    """Every image far from every other: squared distances near 18 million, differing by some tens."""
    found = {}
    for i, (k, v) in enumerate(make_descriptors("noisy").items()):
        found[k] = np.c_[v.astype(np.float64), np.zeros((len(v), 80))]
        found[k][:, 8 + i] = 3000.0
    return found


def infinite(descriptors):
    """A row of each image is infinite: of targets that are wrong for every patch but one."""
    rows = {k: v.copy() for k, v in descriptors.items()}
    for i, v in enumerate(rows.values()):
        v[i % len(v), 2] = np.inf
    return rows, {k: np.isfinite(v).all(axis=1) for k, v in rows.items()}


def twins(descriptors):
    """Patches 4 and 5 are alike in every image of a sequence: their distances are 0 and 0."""
    rows = {k: v.copy() for k, v in descriptors.items()}
    for key, v in rows.items():
        v[4] = v[5] = rows[key.rpartition("/")[0] + "/ref"][4]
    return rows


def references_failed(descriptors):
    """The first patch of every reference has no descriptor."""
    return {k: np.arange(len(v)) > 0 if k.endswith("/ref") else np.ones(len(v), bool) for k, v in descriptors}


def near_ties():
    """Rows near 1 or near 0.001: distances differ by little more than the rounding of a difference."""
    rng, found = np.random.default_rng(2), {}
    for key, v in make_descriptors("noisy").items():
        small = rng.integers(-3, 4, (len(v), 5))
        low = rng.random((len(v), 1)) < 0.5
        found[key] = np.where(low, 0.001 + small * 1e-9, 1 + small * 2.0**-23).astype(np.float32)
    return found


SAME = HPatchesRules()
SINGLE = HPatchesRules(single_precision=True)
ROOTED = HPatchesRules(single_precision=True, rooted=True)
# rule: (task, data, metric, group, rules it is added to)
CASES = {
    "trapezoid": (VERIFICATION, "noisy", "ap", "all", SAME),
    "negatives_first": (VERIFICATION, "ties", "ap", "all", SAME),
    "positives_first": (VERIFICATION, "ties", "auc", "all", SAME),
    "retrieval_positives_first": (RETRIEVAL, "ties", "map", "all", SAME),
    "lowest_index_match": (MATCHING, "ties", "success_rate", "all", SAME),
    "file_order": (MATCHING, "ties", "map", "all", SAME),
    "rooted": (VERIFICATION, "far", "ap", "all", SINGLE),
    "single_precision": (VERIFICATION, "far", "ap", "all", SAME),
    "single_precision_match": (MATCHING, "far", "map", "all", SAME),
    "roc_stops": (VERIFICATION, "failed", "auc", "all", SAME),
    "nan_first": (RETRIEVAL, "failed", "map", "all", SAME),
    "precision_floor": (RETRIEVAL, "random", "map", "all", HPatchesRules(trapezoid=True)),
    "single_differences": (VERIFICATION, "near ties", "ap", "all", ROOTED),
    "single_sums": (VERIFICATION, "l1", "ap", "all", SINGLE),
    "double_stays": (VERIFICATION, "far", "ap", "all", SINGLE),
    "stops_at_failures": (MATCHING, "failed", "map", "all", SAME),
    "infinity_is_far": (MATCHING, "infinite", "map", "all", HPatchesRules(stops_at_failures=True)),
    "failed_match_is_first": (
        MATCHING,
        "first",
        "success_rate",
        "all",
        HPatchesRules(lowest_index_match=True),
    ),
    "ratio_nan_first": (MATCHING, "twins", "map_ratio", "all", SAME),
    "sequence_weighted": (MATCHING, "noisy", "map", "all", SAME),
    "all_sequences": (MATCHING, "more", "map", "all", SAME),
    "pool_counts_positives": (RETRIEVAL, "random", "map", "pool=12", SAME),
    "pool_before_exclusion": (RETRIEVAL, "random", "map", "pool=12", SAME),
    "mean_over_pools": (RETRIEVAL, "noisy", "map", "all", SAME),
}


def records_for(world, task, data):
    options, valid, distance = {}, None, "l2"
    if data == "l1":
        descriptors, distance = near_ties(), "l1"
    elif data == "far":
        descriptors = far_apart()
    elif data == "failed":
        descriptors = make_descriptors("noisy")
        valid = some_failed(descriptors)
    elif data == "infinite":
        descriptors, valid = infinite(make_descriptors("noisy"))
    elif data == "twins":
        descriptors = twins(make_descriptors("noisy"))
    elif data == "first":
        descriptors = make_descriptors("noisy")
        valid = references_failed(descriptors.items())
    elif data == "near ties":
        descriptors = near_ties()
    else:
        descriptors = make_descriptors("noisy" if data == "more" else data)
    if data == "more":
        options = {"split": "a", "sequences": "all"}
    return run_task(task, world, features_of(descriptors, distance, valid), **options)[1]


def test_every_rule_has_a_case():
    assert set(CASES) == {f.name for f in fields(HPatchesRules)}


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_alone_moves_the_score(world, rule):
    task, data, metric, group, base = CASES[rule]
    records = records_for(world, task, data)
    score = SCORERS[task]
    before = value(score(records, base, "x"), metric, group)
    after = value(score(records, replace(base, **{rule: True}), "x"), metric, group)
    assert before != after
    task_name = task.name.split("/")[-1]
    assert task_name in HPatchesRules.__dataclass_fields__[rule].metadata["tasks"]


@pytest.mark.parametrize("rule", ["trapezoid", "nan_first", "stops_at_failures", "precision_floor"])
def test_rules_shared_by_tasks_move_them_all(world, rule):
    data = {"trapezoid": "noisy", "precision_floor": "random"}.get(rule, "failed")
    base = HPatchesRules(trapezoid=True) if rule == "precision_floor" else SAME
    for name in HPatchesRules.__dataclass_fields__[rule].metadata["tasks"]:
        task = next(t for t in SCORERS if t.name.endswith(name))
        records = records_for(world, task, data)
        before = value(SCORERS[task](records, base, "x"), HEADLINE[task])
        assert before != value(SCORERS[task](records, replace(base, **{rule: True}), "x"), HEADLINE[task])


@pytest.mark.parametrize("task", SCORERS)
def test_conventions_start_at_a_tool_and_end_at_exact(world, task):
    kinds = ("ties", "failed")
    for data in kinds:
        records = records_for(world, task, data)
        steps = convention_steps(task.name.split("/")[-1])
        assert steps[0][1] == hpatches_rules("hpatches-python")
        tables = {table.title: table.steps for table in task.convention_steps(records)}
        chain = tables[HEADLINE[task]]
        assert len(chain) == len(steps)
        first = value(task.score(records, "hpatches-python"), HEADLINE[task])
        last = value(task.score(records, "exact"), HEADLINE[task])
        matlab = value(task.score(records, "hpatches-matlab"), HEADLINE[task])
        assert chain[0][1] == first or (data == "failed" and np.isnan([chain[0][1], first]).all())
        assert chain[-1][1] == last
        assert matlab in [v for name, v in chain if name.startswith("hpatches-matlab")]


def test_matlab_rules_appear_among_the_steps():
    for task in ("verification", "matching", "retrieval"):
        own = [f.name for f in fields(HPatchesRules) if task in f.metadata["tasks"]]
        wanted = {n: getattr(hpatches_rules("hpatches-matlab"), n) for n in own}
        assert any({n: getattr(r, n) for n in own} == wanted for _, r in convention_steps(task))
        last = convention_steps(task)[-1][1]
        assert not any(getattr(last, n) for n in own)


def test_an_unknown_protocol_is_refused_with_a_hint():
    with pytest.raises(UnknownNameError, match="did you mean 'hpatches-python'"):
        VERIFICATION.comparison("hpatches-pyhton")


def test_the_matlab_note_says_what_is_left_out(world):
    features = features_of(make_descriptors("noisy"))
    _, part = run_task(MATCHING, world, features, split="a")
    note = next(s.note for s in MATCHING.score(part, "hpatches-matlab") if s.group == "all")
    assert 'sequences="all"' in note
    _, whole = run_task(MATCHING, world, features, split="a", sequences="all")
    assert all(s.note is None for s in MATCHING.score(whole, "hpatches-matlab"))
