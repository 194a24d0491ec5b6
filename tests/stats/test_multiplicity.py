# SPDX-License-Identifier: BSD-3-Clause
"""Letters and ranks: two methods share a letter if and only if they are not separated, for any number."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tiepoint.stats.multiplicity import join_letters, letter, letter_groups, rank_intervals


@st.composite
def relations(draw: st.DrawFn) -> np.ndarray:
    m = draw(st.integers(1, 14))
    share = draw(st.floats(0, 1))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    apart = np.triu(rng.random((m, m)) < share, 1)
    return apart | apart.T


@settings(max_examples=200, deadline=None)
@given(relations())
def test_sharing_a_letter_is_not_being_separated(apart: np.ndarray) -> None:
    letters = [set(x) for x in letter_groups(apart)]
    assert all(letters)
    for i in range(len(apart)):
        for j in range(i):
            assert bool(letters[i] & letters[j]) == (not apart[i, j])


def test_neighbours_only_is_a_chain() -> None:
    m = 60
    apart = np.abs(np.subtract.outer(np.arange(m), np.arange(m))) > 1
    groups = letter_groups(apart)
    assert groups[0] == ("a",)
    assert groups[1] == ("a", "b")
    assert groups[40] == (letter(39), letter(40)) == ("an", "ao")
    assert join_letters(groups[40]) == "an ao"


def test_hundreds_of_methods() -> None:
    m = 300
    apart = np.abs(np.subtract.outer(np.arange(m), np.arange(m))) > 3
    assert len({x for g in letter_groups(apart) for x in g}) == m - 3


def test_letters_never_run_out_and_never_repeat() -> None:
    many = [letter(k) for k in range(20000)]
    assert len(set(many)) == 20000
    assert many[:3] == ["a", "b", "c"]


def test_ranks_widen_with_what_is_not_separated() -> None:
    better = np.zeros((4, 4), dtype=bool)
    assert [x.tolist() for x in rank_intervals(better)] == [[1] * 4, [4] * 4]
    better = np.triu(np.ones((4, 4), dtype=bool), 1)
    assert [x.tolist() for x in rank_intervals(better)] == [[1, 2, 3, 4], [1, 2, 3, 4]]


def test_rank_intervals_hold_the_true_ranks_at_once() -> None:
    from tiepoint.stats.paired import all_pairs
    from tiepoint.stats.sign_flip import sign_flip_family

    rng = np.random.default_rng(1)
    truth = np.array([0.9, 0.6, 0.55, 0.2])
    pairs = all_pairs(4)
    held = 0
    for _ in range(200):
        y = truth + rng.normal(0, 0.25, (12, 4))
        family = sign_flip_family(y, pairs, np.zeros(12, dtype=np.int64))
        better = np.zeros((4, 4), dtype=bool)
        for k, (a, b) in enumerate(pairs):
            if family.adjusted[k] <= 0.05:
                first = y[:, a].mean() > y[:, b].mean()
                better[(a, b) if first else (b, a)] = True
        best, worst = rank_intervals(better)
        held += bool(((best <= np.arange(1, 5)) & (np.arange(1, 5) <= worst)).all())
    assert held / 200 > 0.93
