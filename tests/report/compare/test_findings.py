# SPDX-License-Identifier: BSD-3-Clause
"""Findings in words: who leads, whether it is sure, where kinds of scenes turn it around."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tiepoint.core.scores import PooledBins, SceneValues
from tiepoint.report.compare.comparison import Comparison, MethodRow
from tiepoint.report.compare.findings import find_in_comparison
from tiepoint.report.compare.methods import compare_methods
from tiepoint.report.compare.rows import pooled_kinds
from tiepoint.report.compare.runs import compare_runs
from tiepoint.report.compare.sentences import finding, p_value, sentences
from tiepoint.report.leaderboard import leaderboard
from tiepoint.report.runs.sections import sections
from tiepoint.run.result import Run

KINDS = ("i",) * 5 + ("v",) * 5


def values(cells: np.ndarray) -> SceneValues:
    return SceneValues(tuple(f"{k}_{n}" for n, k in enumerate(KINDS)), KINDS, cells[None])


@pytest.fixture(scope="module")
def base() -> np.ndarray:
    return 0.5 + 0.1 * np.random.default_rng(1).random(10)


def test_a_clear_winner_is_said_to_be_better(base: np.ndarray) -> None:
    c = compare_methods({"a": values(base * 1.1 + 0.1449), "b": values(base), "c": values(base * 0.5)})
    found = find_in_comparison(c)
    assert found is not None
    assert (found.first, found.second, found.lead, found.sure) == ("a", "b", "20.00 points", True)
    p = p_value(c.pair("a", "b").p_adjusted)
    assert finding(c).startswith("a is better than b by 20.00 points (joint 95 % confidence interval ")
    assert finding(c).endswith(f"p = {p}, ahead in 10 of 10 scenes, and than the other method.")


def test_lower_values_lead_where_lower_is_better(base: np.ndarray) -> None:
    c = compare_methods({"a": values(base + 0.2), "b": values(base)}, higher_is_better=False)
    assert finding(c).startswith("b is better than a by 20.00 points, p = ")


def test_what_is_not_separated_is_not_called_better(base: np.ndarray) -> None:
    noise = 0.02 * np.random.default_rng(2).standard_normal(10)
    said = finding(
        compare_methods({"a": values(base + 0.001), "b": values(base + noise), "c": values(base - 0.3)})
    )
    assert "but these 10 scenes do not separate them (p = " in said
    assert "; it is better than the other method." in said


def test_differences_below_the_printed_digits_are_no_lead(base: np.ndarray) -> None:
    noise = 1e-9 * np.random.default_rng(2).standard_normal(10)
    c = compare_methods({"a": values(base), "b": values(base + noise)})
    assert re.fullmatch(r"[ab] and [ab] are equal in the printed digits\.", finding(c))


def test_kinds_that_turn_the_order_around_are_told_with_their_numbers(base: np.ndarray) -> None:
    tilt = np.where(np.array(KINDS) == "i", 0.06, -0.04)
    c = compare_methods({"a": values(base + tilt), "b": values(base)})
    words = "Not everywhere: on 5 illumination scenes a is ahead by 6.00 points, "
    assert finding(c).endswith(f"{words}on 5 viewpoint scenes b is ahead by 4.00 points.")
    assert dict(c.kind_differences("b", "a")) == pytest.approx({"i": -0.06, "v": 0.04})
    assert sentences(c)[-1].startswith(words)
    assert "everywhere" not in finding(compare_methods({"a": values(base + 0.06), "b": values(base)}))


def test_pooled_scores_by_kind_count_pairs_of_that_kind_alone() -> None:
    positives = np.array([[4.0, 0.0], [0.0, 4.0]])
    negatives = np.array([[0, 0, 1, 4], [1, 1, 0, 4], [0, 1, 0, 9]])
    bins = PooledBins(("i_a", "v_b"), ("i", "v"), positives, negatives, "auc")
    assert pooled_kinds(bins) == (("i", 1.0), ("v", 0.0))


def test_methods_that_are_the_same_everywhere_are_not_told_as_one_alone(base: np.ndarray) -> None:
    c = compare_methods({"a": values(base), "b": values(base)})
    assert re.fullmatch(r"a and b have [0-9.]+ %, the same in every scene\.", finding(c))


def test_numbers_alone_and_canaries_win_nothing() -> None:
    rows = (MethodRow("oracle", 1.0, None, None, tested=False), MethodRow("a", 0.9, None, None, tested=False))
    c = Comparison(rows, "t", "m", "all", "exact", True, True)
    assert finding(c) == "a alone has 90.00 %."
    more = Comparison((*rows, MethodRow("b", 0.8, None, None)), "t", "m", "all", "exact", True, True)
    assert finding(more) == "a leads b by 10.00 points; a has no scene values, so nothing is tested."


def test_page_and_compare_say_the_same(report_runs: list[Run]) -> None:
    (section,) = sections(report_runs)
    c = compare_runs(report_runs, protocol=section.protocol)
    assert finding(section) == finding(c) != ""
    of = {r.method: r for r in c.rows}
    for row in leaderboard(section).rows:
        assert row.letters == "".join(of[row.name].letters)


def test_values_shifted_by_duplicate_scenes_are_explained(base: np.ndarray) -> None:
    from tiepoint.report.compare.runs import _shift

    twice = base.copy()
    twice[1] = twice[0]
    tables = {n: values(twice * f) for n, f in (("a", 1.0), ("b", 0.9), ("c", 0.81))}
    c = compare_methods(tables)
    stored = {n: float(t.cells.mean()) for n, t in tables.items()}
    (note,) = _shift(c, stored)
    assert "from the stored scores" in note
    assert _shift(c, {r.method: r.value for r in c.rows}) == []
