# SPDX-License-Identifier: BSD-3-Clause
"""Retrieval among every patch of every other sequence, restated in plain loops."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hpatches_world import features_of, lists_of, make_descriptors, make_world, run_task, value

from tiepoint.core.errors import InputError
from tiepoint.tasks.hpatches.retrieval.task import TASK as RETRIEVAL

NOISES = {"easy": "e", "hard": "h", "tough": "t"}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("every"))


def gap(x, y, distance):
    """Squares of whole numbers, bits, or float64 sums: enough to tell order and ties in these worlds."""
    if distance == "hamming":
        return sum(bin(int(a) ^ int(b)).count("1") for a, b in zip(x, y, strict=True))
    terms = [(float(a) - float(b)) ** 2 for a, b in zip(x, y, strict=True)]
    s = [0.0] * 8
    for k, term in enumerate(terms):
        s[k % 8] += term
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))


def expected_ap(nearer, equal):
    """AP of R right answers without ties among themselves: each stands before, among or behind its equals."""
    total = Fraction(0)
    for k, (lt, eq) in enumerate(sorted(zip(nearer, equal, strict=True)), start=1):
        # A right answer with `eq` equal wrong ones: every place among them is as probable.
        total += sum(Fraction(k, k + lt + j) for j in range(eq + 1)) / (eq + 1)
    return float(total / len(nearer))


def restated(descriptors, valid, queries, scenes, distance):
    """By query and image: wrong patches nearer and equal; None where a descriptor failed."""
    found = {}
    for s, i in queries:
        q = descriptors[f"{s}/ref"][i]
        pool = [
            gap(q, row, distance)
            for key, rows in descriptors.items()
            if key.split("/")[0] in scenes and key.split("/")[0] != s
            for row, good in zip(rows, valid[key], strict=True)
            if good
        ]
        for letter in NOISES.values():
            for k in range(1, 6):
                key = f"{s}/{letter}{k}"
                if not valid[f"{s}/ref"][i] or not valid[key][i]:
                    found[s, i, f"{letter}{k}"] = None
                    continue
                own = gap(q, descriptors[key][i], distance)
                found[s, i, f"{letter}{k}"] = (sum(d < own for d in pool), sum(d == own for d in pool))
    return found


@pytest.mark.parametrize(
    ("kind", "distance"), [("noisy", "l2"), ("integer", "l2"), ("binary", "hamming"), ("constant", "l2")]
)
@pytest.mark.parametrize("failing", [False, True])
def test_counts_and_scores(world, kind, distance, failing):
    descriptors = make_descriptors(kind)
    rng = np.random.default_rng(4)
    valid = {k: rng.random(len(v)) > (0.2 if failing else -1) for k, v in descriptors.items()}
    opened, (records,) = run_task(
        RETRIEVAL, world, features_of(descriptors, distance, valid if failing else None), split="a",
        distractors="every",
    )  # fmt: skip
    scenes, images = records.meta["scenes"], records.meta["images"]
    queries = lists_of(world, "a")["queries"]
    expected = restated(descriptors, valid, queries, scenes, distance)
    lt, eq = records["lt"], records["eq"]
    sizes = {s: sum(len(v) for k, v in descriptors.items() if k.startswith(f"{s}/")) for s in scenes}
    assert records.meta["distractors"] == sum(sizes.values())
    for n, (s, i) in enumerate(queries):
        assert records["negatives"][n, 0] == sum(sizes.values()) - sizes[s]
        for m, image in enumerate(images):
            pair = expected[s, i, image]
            assert np.isfinite(records["distance"][n, m]) == (pair is not None)
            assert (lt[n, m], eq[n, m]) == (pair or (0, 0))
        if records["rival_known"][n]:
            assert scenes[records["rival_scene"][n]] != s
    scores = RETRIEVAL.score([records], "exact")
    assert {s.group for s in scores if "pool" in s.group} >= {"pool=every", "noise=easy,pool=every"}
    if kind == "noisy" and not failing:
        means = []
        for noise, letter in NOISES.items():
            cells = [[expected[s, i, f"{letter}{k}"] for k in range(1, 6)] for s, i in queries]
            plain = np.mean([expected_ap(*zip(*cell, strict=True)) for cell in cells])
            means.append(plain)
            assert value(scores, "map", f"noise={noise},pool=every") == pytest.approx(plain, abs=1e-12)
        assert value(scores, "map") == value(scores, "map", "pool=every") == pytest.approx(np.mean(means))
    assert len(opened.items) == 16 * len(scenes)


def test_it_has_records_of_its_own(world):
    drawn = RETRIEVAL.open(world.data, {"tasks": world.tasks, "split": "a"})
    plain = RETRIEVAL.open(world.data, {"tasks": world.tasks, "split": "a", "distractors": "list"})
    every = RETRIEVAL.open(world.data, {"tasks": world.tasks, "split": "a", "distractors": "every"})
    assert drawn.units[0].definition == plain.units[0].definition != every.units[0].definition


def test_legacy_protocols_refuse_it():
    check = RETRIEVAL.options.check_protocols
    check(RETRIEVAL.name, {"distractors": "every"}, ["exact"])
    check(RETRIEVAL.name, {"distractors": "list"}, ["exact", "hpatches-python"])
    with pytest.raises(InputError, match="distractors=every of hpatches/retrieval needs the protocol exact"):
        check(RETRIEVAL.name, {"distractors": "every"}, ["exact", "hpatches-python"])
