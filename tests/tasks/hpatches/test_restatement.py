# SPDX-License-Identifier: BSD-3-Clause
"""Both 2017 tools, restated in plain loops, give the numbers of the fast path to 1e-12."""

import hpatches_restatement as tool
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

import tiepoint as tp
from tiepoint.tasks.hpatches import retrieval_compare as v2_pools
from tiepoint.tasks.hpatches.matching import TASK as MATCHING
from tiepoint.tasks.hpatches.retrieval import TASK as RETRIEVAL
from tiepoint.tasks.hpatches.verification import TASK as VERIFICATION

CASES = [
    ("random", "l2"),
    ("noisy", "l2"),
    ("integer", "l2"),
    ("integer", "l1"),
    ("ties", "l2"),
    ("binary", "hamming"),
    ("constant", "l2"),
    ("noisy", "cosine"),
    ("masked", "masked_l1"),
]
SMALL = (8, 12, 20, 40)
TOOLS = ("python", "matlab")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("v2"))


@pytest.fixture(autouse=True)
def small_pools(monkeypatch):
    monkeypatch.setattr(v2_pools, "SIZES", SMALL)
    monkeypatch.setattr(v2_pools, "PYTHON_SIZES", SMALL)
    monkeypatch.setattr(v2_pools, "MATLAB_SIZE", 11)


def failing(descriptors, share=0.15):
    """Some rows failed: masks for the fast path, NaN rows for the restatement."""
    rng = np.random.default_rng(5)
    valid = {k: rng.random(len(v)) > share for k, v in descriptors.items()}
    nan = {k: np.where(valid[k][:, None], v, np.nan) for k, v in descriptors.items()}
    return valid, nan


def close(a, b):
    return a == pytest.approx(b, abs=1e-12)


@pytest.mark.parametrize("split", ["full", "a"])
@pytest.mark.parametrize(("kind", "distance"), [*CASES, ("failing", "l2")])
def test_verification(world, kind, distance, split):
    descriptors, valid = make_descriptors("noisy" if kind == "failing" else kind), None
    plain = descriptors
    if kind == "failing":
        valid, plain = failing(descriptors)
    _, records = run_task(VERIFICATION, world, features_of(descriptors, distance, valid), split=split)
    lists = lists_of(world, split)
    for name in TOOLS:
        scores = VERIFICATION.score(records, f"hpatches-{name}")
        aps = []
        for noise, z in LETTERS.items():
            expected = tool.verification(plain, lists, z, name, distance)
            for negatives, (auc, ap) in expected.items():
                group = f"negatives={negatives},noise={noise}"
                assert close(value(scores, "auc", group), auc)
                assert close(value(scores, "ap", group), ap)
                aps.append(ap)
        assert close(value(scores, "ap"), np.mean(aps))


@pytest.mark.parametrize("split", ["full", "a"])
@pytest.mark.parametrize(("kind", "distance"), [*CASES, ("failing", "l2")])
def test_matching(world, kind, distance, split):
    descriptors, valid = make_descriptors("noisy" if kind == "failing" else kind), None
    plain = descriptors
    if kind == "failing":
        valid, plain = failing(descriptors, 0.03)
    features = features_of(descriptors, distance, valid)
    _, records = run_task(MATCHING, world, features, split=split, sequences="all")
    for name in TOOLS:
        used = SPLITS[split]["test"] if name == "python" else list(world.lengths)
        expected = tool.matching(plain, used, name, distance)
        scores = MATCHING.score(records, f"hpatches-{name}")
        assert close(value(scores, "map"), tool.matching_mean(expected, name))
        for scene in used:
            own = [v for (s, _, _), v in expected.items() if s == scene]
            assert close(value(scores, "map", f"scene={scene}"), np.mean([v[0] for v in own]))
            assert close(value(scores, "success_rate", f"scene={scene}"), np.mean([v[1] for v in own]))
        for noise, z in LETTERS.items():
            cell = [v[0] for (s, y, _), v in expected.items() if y == z and s[0] == "v"]
            assert close(value(scores, "map", f"kind=v,noise={noise}"), np.mean(cell))


@pytest.mark.parametrize("split", ["full", "a"])
@pytest.mark.parametrize(("kind", "distance"), [*CASES, ("failing", "l2")])
def test_retrieval(world, kind, distance, split):
    descriptors, valid = make_descriptors("noisy" if kind == "failing" else kind), None
    plain = descriptors
    if kind == "failing":
        valid, plain = failing(descriptors)
    _, records = run_task(RETRIEVAL, world, features_of(descriptors, distance, valid), split=split)
    lists = lists_of(world, split)
    scores = RETRIEVAL.score(records, "hpatches-python")
    expected = tool.retrieval_python(plain, lists["queries"], lists["distractors"], SMALL, distance)
    for noise, z in LETTERS.items():
        for k in SMALL:
            assert close(value(scores, "map", f"noise={noise},pool={k}"), expected[z, k])
    assert close(value(scores, "map"), np.mean(list(expected.values())))
    scores = RETRIEVAL.score(records, "hpatches-matlab")
    for size, label in ((11, "11"), (None, "all")):
        expected = tool.retrieval_matlab(plain, lists["queries"], lists["distractors"], size, distance)
        for noise, z in LETTERS.items():
            assert close(value(scores, "map", f"noise={noise},pool={label}"), expected[z])
    assert close(value(scores, "map"), np.mean(list(expected.values())))


def with_zeros(descriptors):
    """A row of zeros in the reference and in an easy image of every sequence; nothing failed."""
    out = {k: v.copy() for k, v in descriptors.items()}
    for key, rows in out.items():
        if key.endswith(("/ref", "/e1")):
            rows[3] = 0
    return out


@pytest.mark.filterwarnings("ignore:.*descriptors failed")
@pytest.mark.parametrize("distance", ["l2", "l1"])
def test_zero_rows_that_are_kept_are_ordinary_vectors(world, tmp_path, distance):
    plain = with_zeros(make_descriptors("noisy"))
    for key, rows in plain.items():
        (tmp_path / "d" / key).parent.mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "d" / f"{key}.npy", rows)

    def scores(task, on_bad="keep-zeros", **options):
        return tp.evaluate(
            f"files:{tmp_path / 'd'}?distance={distance}",
            task=f"hpatches/{task}",
            data=world.data,
            tasks=world.tasks,
            split="full",
            protocol=["hpatches-python", "hpatches-matlab"],
            store=tmp_path / "store",
            on_bad=on_bad,
            **options,
        )

    lists, used = lists_of(world, "full"), list(world.lengths)
    verification, matching, retrieval = scores("verification"), scores("matching"), scores("retrieval")
    for name in TOOLS:
        protocol = f"hpatches-{name}"
        aps = [v[1] for z in "eht" for v in tool.verification(plain, lists, z, name, distance).values()]
        assert close(verification.value("ap", "all", protocol), np.mean(aps))
        expected = tool.matching_mean(tool.matching(plain, used, name, distance), name)
        assert close(matching.value("map", "all", protocol), expected)
    where = (lists["queries"], lists["distractors"])
    expected = np.mean(list(tool.retrieval_python(plain, *where, SMALL, distance).values()))
    assert close(retrieval.value("map", "all", "hpatches-python"), expected)
    expected = np.mean(list(tool.retrieval_matlab(plain, *where, None, distance).values()))
    assert close(retrieval.value("map", "all", "hpatches-matlab"), expected)
    missed = scores("matching", on_bad="miss")
    assert missed.value("map", "all", "hpatches-python") < matching.value("map", "all", "hpatches-python")


def test_precision_floor_of_the_python_tool_is_below_every_printed_digit(world):
    lists = lists_of(world, "full")
    plain = make_descriptors("random")
    sharp = tool.retrieval_python(plain, lists["queries"], lists["distractors"], SMALL)
    floored = tool.retrieval_python(plain, lists["queries"], lists["distractors"], SMALL, eps=1e-10)
    change = [abs(sharp[c] - floored[c]) for c in sharp]
    assert 0 < max(change) < 5e-11
