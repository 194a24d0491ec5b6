# SPDX-License-Identifier: BSD-3-Clause
"""Methods with other keypoints are listed with a caution; other data stay refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tiepoint as tp
from tiepoint.core.errors import InputError
from tiepoint.report.compare.protocol_order import order_sentence, step_order_sentence
from tiepoint.report.compare.sentences import finding

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data")) / "sequences"
TASK = "keypoints/ranking"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("cv2")
    if not DATA.is_dir():
        pytest.skip("the sequences are not here")
    path = tmp_path_factory.mktemp("queries") / "store"
    for method in ("orb", "akaze"):
        tp.evaluate(method, task=TASK, data=DATA, store=path, protocol=["exact", "workbench"], progress=False)
    return path


def test_compare_other_keypoints_gives_caution_without_p(store: Path) -> None:
    c = tp.compare(["orb", "akaze"], task=TASK, metric="true_map_micro", store=store)
    assert [r.method for r in c.rows] == ["akaze", "orb"]
    assert all(r.low is not None and not r.tested for r in c.rows)
    assert not c.pairs
    assert "scored on different queries: weights differ" in c.caution
    assert c.caution in str(c)
    assert "p (family-wise)" not in str(c)
    assert c.to_dict()["caution"] == c.caution
    assert c.caution in finding(c)


def test_compare_other_keypoints_allowed_tests(store: Path) -> None:
    c = tp.compare(["orb", "akaze"], task=TASK, metric="true_map_micro", allow="weights", store=store)
    assert (c.caution, len(c.pairs)) == ("", 1)


def test_compare_other_subset_is_refused_and_names_allow(store: Path) -> None:
    few = tp.evaluate(
        "sift", task=TASK, data=DATA, store=store, scenes=["v_bark", "v_dogman"], progress=False
    )
    with pytest.raises(InputError, match=r"allow=\"dataset|allow=\"lists"):
        tp.compare([few, "orb"], task=TASK, metric="true_map_micro", store=store)


def test_compare_two_protocols_notes_order(store: Path) -> None:
    c = tp.compare(["orb", "akaze"], task=TASK, store=store)
    assert any(n.startswith("The order of methods") and "workbench" in n for n in c.notes)


@pytest.mark.parametrize("lower", [False, True])
def test_order_sentence_names_protocols_and_methods(lower: bool) -> None:
    by = {"exact": {"a": 0.9, "b": 0.8, "c": 0.1}, "old": {"a": 0.5, "b": 0.6, "c": 0.1, "d": 1.0}}
    swap = "b and a swap" if lower else "a and b swap"
    assert order_sentence(by, lower=lower) == f"The order of methods changes between exact and old: {swap}."
    same = {"exact": by["exact"], "old": {"a": 3.0, "b": 2.0, "c": 1.0}}
    assert order_sentence(same, lower=lower) == "The order of methods is the same under exact and old."
    assert order_sentence({"exact": {"a": 1.0}, "old": {"a": 2.0}}, lower=lower) == ""


def test_step_order_sentence_swap_and_undefined_value_names_the_step() -> None:
    steps = {
        "old": {"a": 1.0, "b": 2.0, "c": 3.0},
        "ties: kept": {"a": 1.0, "b": 2.0},
        "limit": {"a": 3.0, "b": 2.0, "c": 0.0},
    }
    assert (
        step_order_sentence(steps, lower=False) == "Step 2 (limit) flips the order of methods: b and a swap."
    )
    same = {"old": {"a": 1.0, "b": 2.0}, "new": {"a": 1.5, "b": 2.5}}
    assert step_order_sentence(same, lower=True) == "No step changes the order of methods."
    assert step_order_sentence({"old": {"a": 1.0}, "new": {"a": 2.0}}, lower=True) == ""
