# SPDX-License-Identifier: BSD-3-Clause
"""`exact` of the 2017 tasks: chance for a constant descriptor, plain definitions, absurd scores."""

from pathlib import Path

import hpatches_restatement as plain
import numpy as np
import pytest
from hpatches_world import (
    LETTERS,
    SPLITS,
    features_of,
    lists_of,
    make_descriptors,
    make_world,
    run_task,
    value,
)

from tiepoint.core.records import Records
from tiepoint.tasks.hpatches.matching.score import image_values
from tiepoint.tasks.hpatches.matching.task import TASK as MATCHING
from tiepoint.tasks.hpatches.protocols import HPatchesRules
from tiepoint.tasks.hpatches.retrieval import compare as v2_pools
from tiepoint.tasks.hpatches.retrieval.task import TASK as RETRIEVAL
from tiepoint.tasks.hpatches.verification.task import TASK as VERIFICATION

TASKS = (VERIFICATION, MATCHING, RETRIEVAL)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("v2"))


@pytest.fixture(autouse=True)
def small_pools(monkeypatch):
    monkeypatch.setattr(v2_pools, "SIZES", (8, 12, 4000))
    monkeypatch.setattr(v2_pools, "PYTHON_SIZES", (8, 12, 4000))
    monkeypatch.setattr(v2_pools, "MATLAB_SIZE", 11)


@pytest.mark.parametrize("task", TASKS)
def test_a_constant_descriptor_scores_chance(world, task):
    _, records = run_task(task, world, features_of(make_descriptors("constant")))
    scores = task.score(records, "exact")
    with_chance = [s for s in scores if s.chance is not None]
    assert len(with_chance) >= 3
    for s in with_chance:
        assert s.value == pytest.approx(s.chance, abs=1e-12), (s.metric, s.group)
        assert 0 < s.chance < 1


def test_a_constant_descriptor_under_the_tools(world):
    features = features_of(make_descriptors("constant"))
    _, records = run_task(RETRIEVAL, world, features)
    assert value(RETRIEVAL.score(records, "hpatches-python"), "map") == 1
    assert value(RETRIEVAL.score(records, "hpatches-matlab"), "map") == 1
    _, records = run_task(VERIFICATION, world, features)
    matlab, python = (VERIFICATION.score(records, f"hpatches-{t}") for t in ("matlab", "python"))
    assert (value(matlab, "ap"), value(matlab, "auc")) == (1, 1)
    assert value(python, "auc") == 0
    # All negatives, then all positives; 90 pairs a list, a fifth of the positives.
    behind = plain.trapezoid_ap([0] * 90 + [1] * 18, 18)
    assert value(python, "ap") == pytest.approx(behind, abs=1e-12)
    chance = next(s.chance for s in python if s.metric == "ap" and s.group == "all")
    assert value(python, "ap") < 0.6 * chance


def test_a_constant_descriptor_of_the_published_size_scores_half_of_chance_under_python():
    behind = plain.trapezoid_ap([0] * 100_000 + [1] * 20_000, 20_000)
    assert behind == pytest.approx(0.088, abs=5e-4)


@pytest.mark.parametrize("kind", ["integer", "ties"])
def test_auc_is_the_mann_whitney_value(world, kind):
    descriptors = make_descriptors(kind)
    _, records = run_task(VERIFICATION, world, features_of(descriptors))
    scores = VERIFICATION.score(records, "exact")
    lists = lists_of(world, "full")

    def distances(name, z):
        rows = [(f"{a}/{plain.image_of(t, z)}", i, f"{b}/{plain.image_of(u, z)}", j)
                for a, t, i, b, u, j in lists[name]]  # fmt: skip
        return np.array([plain.dist(descriptors[a][i], descriptors[b][j]) for a, i, b, j in rows])

    for noise, z in LETTERS.items():
        p, n = distances("pos", z), distances("neg_inter", z)
        won = (p[:, None] < n[None]).mean() + 0.5 * (p[:, None] == n[None]).mean()
        assert value(scores, "auc", f"negatives=inter,noise={noise}") == pytest.approx(won, abs=1e-12)


def test_without_ties_exact_is_the_plain_definition(world):
    descriptors = make_descriptors("noisy")
    features = features_of(descriptors)
    _, records = run_task(MATCHING, world, features)
    expected = plain.matching(descriptors, SPLITS["full"]["test"], "matlab")
    scores = MATCHING.score(records, "exact")
    assert value(scores, "map") == pytest.approx(plain.matching_mean(expected, "matlab"), abs=1e-9)
    by_sequence = np.mean([v[0] for v in expected.values()])
    assert value(scores, "map", "weighting=sequences") == pytest.approx(by_sequence, abs=1e-9)
    _, records = run_task(RETRIEVAL, world, features)
    scores = RETRIEVAL.score(records, "exact")
    lists = lists_of(world, "full")
    for size in (8, 12):
        mean = []
        for s, i in lists["queries"]:
            others = [d for d in lists["distractors"] if d[0] != s][:size]
            found = plain.retrieval_matlab(descriptors, [(s, i)], others, None)
            mean.append(np.mean(list(found.values())))
        assert value(scores, "map", f"pool={size}") == pytest.approx(np.mean(mean), abs=1e-12)
    assert "pool=4000" not in {s.group for s in scores}


def test_a_failed_descriptor_is_a_miss_never_a_gain(world):
    descriptors = make_descriptors("noisy")
    rng = np.random.default_rng(1)
    valid = {k: rng.random(len(v)) > 0.2 for k, v in descriptors.items()}
    for task, metric in ((VERIFICATION, "ap"), (MATCHING, "map"), (RETRIEVAL, "map")):
        whole = task.score(run_task(task, world, features_of(descriptors))[1], "exact")
        some = task.score(run_task(task, world, features_of(descriptors, valid=valid))[1], "exact")
        assert value(some, metric) < value(whole, metric)
    nothing = {k: np.zeros(len(v), bool) for k, v in descriptors.items()}
    for task, metric in ((VERIFICATION, "ap"), (MATCHING, "map"), (RETRIEVAL, "map")):
        scores = task.score(run_task(task, world, features_of(descriptors, valid=nothing))[1], "exact")
        assert value(scores, metric) == 0


def test_golden_matching_vector():
    """Spec, section 3: d ascending, valid = 1 0 1 1 0 0, every reference patch in the denominator."""
    valid = np.array([1, 0, 1, 1, 0, 0], bool)
    columns = {
        "d1": np.arange(1.0, 7.0) ** 2,
        "d2": np.arange(2.0, 8.0) ** 2,
        "index": np.where(valid, np.arange(6), (np.arange(6) + 1) % 6).astype(np.uint8),
        "ties": np.ones(6, np.uint8),
        "right": valid,
    }
    meta = {"images": ["e1"], "patches": 6, "squared": True, "noises": ["easy"], "in_split": True}
    records = Records("rank", columns, meta)
    assert image_values(records, HPatchesRules())["map"][0] == pytest.approx(0.4027777778, abs=1e-10)
    trapezoid = image_values(records, HPatchesRules(trapezoid=True))["map"][0]
    assert trapezoid == pytest.approx(0.3819444444, abs=1e-10)


def _matched(n, wrong):
    """Records of one image of n patches, distances ascending, all right except the places in `wrong`."""
    right = np.ones(n, bool)
    right[wrong] = False
    index = np.where(right, np.arange(n), (np.arange(n) + 1) % n)
    d = np.arange(1.0, n + 1)
    columns = {"d1": d, "d2": d + 1, "index": index, "ties": np.ones(n, np.uint8), "right": right}
    meta = {"images": ["e1"], "patches": n, "squared": False, "noises": ["easy"], "in_split": True}
    return image_values(Records("rank", columns, meta), HPatchesRules(trapezoid=True))["map"][0]


def test_figures_of_published_results_at_the_known_lengths(reference_matching):
    """Spec, end of section 3: these APs of the published files pin down ranks and lengths."""
    ap = reference_matching
    n = 1175
    assert ap["cvBRISK"]["v_bark"]["e"]["5"] == pytest.approx(1 / (2 * 943 * n), abs=1e-13)
    everything_but_942 = [i for i in range(n) if i != 942]
    assert _matched(n, everything_but_942) == pytest.approx(ap["cvBRISK"]["v_bark"]["e"]["5"], abs=1e-13)
    n = 1995
    two = [i for i in range(n) if i not in (1922, 1923)]
    assert _matched(n, two) == pytest.approx(ap["cvBRISK"]["i_pencils"]["e"]["2"], abs=1e-13)
    assert _matched(2000, [1999]) == pytest.approx(ap["SOSNet"]["v_bricks"]["e"]["1"], abs=1e-13)
    assert _matched(790, [526]) == pytest.approx(ap["SOSNet"]["v_laptop"]["e"]["1"], abs=1e-13)


@pytest.fixture
def reference_matching():
    import json
    import os

    root = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
    path = root / "hpatches_reference_results" / "matching_ap.json"
    if not path.is_file():
        pytest.skip("the published results are not here (TIEPOINT_TEST_DATA)")
    return json.loads(path.read_text())["full"]


def test_misses_name_the_query_the_right_and_the_given_answer(world):
    descriptors = make_descriptors("noisy")
    _, records = run_task(MATCHING, world, features_of(descriptors))
    found = list(MATCHING.wrong_answers(records))
    assert found
    for query, right, wrong in found:
        image, patch = right.split("#")
        assert (query, wrong.split("#")[0]) == (f"{right.split('/')[0]}/ref#{patch}", image)
        q = descriptors[query.split("#")[0]][int(patch)]
        d = [plain.dist(q, x) for x in descriptors[image]]
        assert int(np.argmin(d)) == int(wrong.split("#")[1]) != int(patch)
    _, records = run_task(RETRIEVAL, world, features_of(descriptors))
    lists = lists_of(world, "full")
    found = list(RETRIEVAL.wrong_answers(records))
    assert found
    for query, right, wrong in found:
        rows = [descriptors[x.split("#")[0]][int(x.split("#")[1])] for x in (query, right, wrong)]
        assert plain.dist(rows[0], rows[2]) < plain.dist(rows[0], rows[1])
        assert (wrong.split("/")[0], int(wrong.split("#")[1])) in lists["distractors"]


def test_misses_of_the_2016_task(tmp_path):
    import hpatches_v1_world

    from tiepoint.tasks.hpatches_v1.matching.task import TASK

    old = hpatches_v1_world.make_world(tmp_path)
    descriptors = hpatches_v1_world.make_descriptors(old, "noisy")
    _, records = hpatches_v1_world.run_task(TASK, old, features_of(descriptors))
    found = list(TASK.wrong_answers(records))
    assert found
    for query, right, wrong in found:
        rows = [descriptors[x.split("#")[0]][int(x.split("#")[1])] for x in (query, right, wrong)]
        assert query.split("#")[1] == right.split("#")[1]
        assert plain.dist(rows[0], rows[2]) < plain.dist(rows[0], rows[1])
