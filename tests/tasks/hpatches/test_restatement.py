# SPDX-License-Identifier: BSD-3-Clause
"""Both 2017 tools, restated in plain loops, give the numbers of the fast path to 1e-12."""

from dataclasses import replace

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
from tiepoint.tasks.hpatches.matching.task import TASK as MATCHING
from tiepoint.tasks.hpatches.protocols import HPatchesRules, hpatches_rules
from tiepoint.tasks.hpatches.retrieval import compare as v2_pools
from tiepoint.tasks.hpatches.retrieval.score import score as score_retrieval
from tiepoint.tasks.hpatches.retrieval.task import TASK as RETRIEVAL
from tiepoint.tasks.hpatches.verification.score import as_ranked
from tiepoint.tasks.hpatches.verification.task import TASK as VERIFICATION

CASES = [
    ("random", "l2"),
    ("double", "l2"),
    ("noisy", "l2"),
    ("integer", "l2"),
    ("integer", "l1"),
    ("noisy", "l1"),
    ("ties", "l2"),
    ("binary", "hamming"),
    ("constant", "l2"),
    ("noisy", "cosine"),
    ("masked", "masked_l1"),
    ("weighted", "masked_l1"),
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


def described(kind):
    """Descriptors of a kind; `failing` ones are noisy, `double` ones are noisy in float64."""
    if kind == "double":
        return {k: v.astype(np.float64) * np.pi for k, v in make_descriptors("noisy").items()}
    if kind == "weighted":  # real numbers with real masks, whose products are rounded
        return {k: np.hstack([v, np.abs(v[:, ::-1])]) / 3 for k, v in make_descriptors("noisy").items()}
    return make_descriptors("noisy" if kind == "failing" else kind)


def close(a, b):
    return a == pytest.approx(b, abs=1e-12)


def no_numbers(scores):
    """Whether there is no value at all, and a reason for each."""
    return all(np.isnan(s.value) and s.note.startswith("no number exists") for s in scores)


@pytest.mark.parametrize("split", ["full", "a"])
@pytest.mark.parametrize(("kind", "distance"), [*CASES, ("failing", "l2")])
def test_verification(world, kind, distance, split):
    descriptors, valid = described(kind), None
    plain = descriptors
    if kind == "failing":
        valid, plain = failing(descriptors)
    _, records = run_task(VERIFICATION, world, features_of(descriptors, distance, valid), split=split)
    lists = lists_of(world, split)
    for name in TOOLS:
        scores = VERIFICATION.score(records, f"hpatches-{name}")
        aps = []
        if tool.verification(plain, lists, "e", name, distance) is None:
            assert (kind, name) == ("failing", "python")
            assert no_numbers(scores)
            continue
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
    descriptors, valid = described(kind), None
    plain = descriptors
    if kind == "failing":
        valid, plain = failing(descriptors, 0.03)
    features = features_of(descriptors, distance, valid)
    _, records = run_task(MATCHING, world, features, split=split, sequences="all")
    for name in TOOLS:
        used = SPLITS[split]["test"] if name == "python" else list(world.lengths)
        expected = tool.matching(plain, used, name, distance)
        scores = MATCHING.score(records, f"hpatches-{name}")
        if None in expected.values():
            assert (kind, name) == ("failing", "python")
            assert no_numbers(scores)
            continue
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
    descriptors, valid = described(kind), None
    plain = descriptors
    if kind == "failing":
        valid, plain = failing(descriptors)
    _, records = run_task(RETRIEVAL, world, features_of(descriptors, distance, valid), split=split)
    lists = lists_of(world, split)
    scores = RETRIEVAL.score(records, "hpatches-python")
    expected = tool.retrieval_python(plain, lists["queries"], lists["distractors"], SMALL, distance)
    if expected is None:
        assert kind == "failing"
        assert no_numbers(scores)
    else:
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


@pytest.mark.parametrize("distance", ["l2", "l1", "masked_l1"])
@pytest.mark.parametrize("kind", ["random", "noisy"])
def test_python_verification_computes_in_single_precision(world, kind, distance):
    """Every distance of the tool, not only what it does to a score."""
    descriptors = make_descriptors(kind, dim=38)
    if distance == "masked_l1":
        descriptors = {k: v + np.float32(1 / 3) for k, v in descriptors.items()}
    _, records = run_task(VERIFICATION, world, features_of(descriptors, distance), split="full")
    lists, moved = lists_of(world, "full"), 0
    for r, z in zip(records, "eht", strict=True):
        rows = [*lists["pos"], *lists["neg_intra"], *lists["neg_inter"]]
        expected = [tool.pair_distance(descriptors, row, z, "python", distance) for row in rows]
        own = as_ranked(r, hpatches_rules("hpatches-python"))
        assert own.tolist() == expected
        moved += int((own != as_ranked(r, HPatchesRules(rooted=True, single_precision=True))).sum())
    assert moved > 10


def test_references_that_failed_are_dropped_and_counted(world):
    """In the Python tool only targets stop it: NaN and infinity in references leave the list."""
    plain = make_descriptors("noisy")
    for bad in (np.nan, np.inf):
        rows = {k: v.copy() for k, v in plain.items()}
        valid = {k: np.ones(len(v), bool) for k, v in rows.items()}
        for key in rows:
            if key.endswith("/ref"):
                rows[key][[0, 3], 2] = bad
                valid[key][[0, 3]] = False
        _, records = run_task(MATCHING, world, features_of(rows, valid=valid), split="full")
        expected = tool.matching(rows, list(world.lengths), "python")
        scores = MATCHING.score(records, "hpatches-python")
        assert close(value(scores, "map"), tool.matching_mean(expected, "python"))
        for scene in world.lengths:
            own = [v[1] for (s, _, _), v in expected.items() if s == scene]
            assert close(value(scores, "success_rate", f"scene={scene}"), np.mean(own))


@pytest.mark.parametrize("distance", ["l2", "l1"])
def test_infinity_is_an_ordinary_far_point_of_the_python_matching(world, distance):
    rows = {k: v.copy() for k, v in make_descriptors("noisy").items()}
    valid = {k: np.ones(len(v), bool) for k, v in rows.items()}
    for i, key in enumerate(rows):
        at = [i % 7, (i + 3) % 8]
        rows[key][at, [1, i % 5]] = np.inf, -np.inf
        valid[key][at] = False
    features = features_of(rows, distance, valid)
    _, records = run_task(MATCHING, world, features, split="full")
    expected = tool.matching(rows, list(world.lengths), "python", distance)
    scores = MATCHING.score(records, "hpatches-python")
    assert value(scores, "map") > 0.1
    assert close(value(scores, "map"), tool.matching_mean(expected, "python"))
    for scene in world.lengths:
        own = [v for (s, _, _), v in expected.items() if s == scene]
        assert close(value(scores, "map", f"scene={scene}"), np.mean([v[0] for v in own]))
        assert close(value(scores, "success_rate", f"scene={scene}"), np.mean([v[1] for v in own]))


@pytest.mark.parametrize("kind", ["noisy", "ties", "constant", "integer"])
def test_the_ratio_of_the_matlab_tool(world, kind):
    plain = make_descriptors(kind)
    _, records = run_task(MATCHING, world, features_of(plain), split="full")
    scores = MATCHING.score(records, "hpatches-matlab")
    for scene in world.lengths:
        aps = [
            tool.matlab_ratio_ap(plain[f"{scene}/ref"], plain[f"{scene}/{z}{k}"])
            for z in "eht"
            for k in range(1, 6)
        ]
        assert close(value(scores, "map_ratio", f"scene={scene}"), np.mean(aps))
    if kind == "constant":
        assert value(scores, "map_ratio") == 0


def with_zeros(descriptors):
    """A row of zeros in the reference and in an easy image of every sequence; nothing failed."""
    out = {k: v.copy() for k, v in descriptors.items()}
    for key, rows in out.items():
        if key.endswith(("/ref", "/e1")):
            rows[3] = 0
    return out


@pytest.mark.filterwarnings("ignore:.*descriptors failed", "ignore:.*no number exists")
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
    assert missed.value("map", "all", "hpatches-matlab") != matching.value("map", "all", "hpatches-matlab")
    assert np.isnan(missed.value("map", "all", "hpatches-python"))
    assert any(
        w.startswith("hpatches-python: no number exists") and "keep-zeros" in w for w in missed.warnings
    )


def test_precision_floor_moves_python_retrieval(world):
    lists = lists_of(world, "full")
    plain = make_descriptors("random")
    sharp = tool.retrieval_python(plain, lists["queries"], lists["distractors"], SMALL, eps=0.0)
    floored = tool.retrieval_python(plain, lists["queries"], lists["distractors"], SMALL)
    _, records = run_task(RETRIEVAL, world, features_of(plain), split="full")
    rules = hpatches_rules("hpatches-python")
    for given, expected in ((rules, floored), (replace(rules, precision_floor=False), sharp)):
        scores = score_retrieval(records, given, "x")
        for noise, z in LETTERS.items():
            for k in SMALL:
                found = value(scores, "map", f"noise={noise},pool={k}")
                assert found == pytest.approx(expected[z, k], abs=1e-15)
    change = [floored[c] - sharp[c] for c in sharp]
    assert 1e-13 < max(change) < 5e-11
