# SPDX-License-Identifier: BSD-3-Clause
"""Orders of cases against sorting by hand; pages, places, keys that may be anything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiepoint.report.case_order import BY, OrderedCases, order_cases, shared_keys
from tiepoint.tasks.cases import Cases

SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0, np.nan])
RATIOS = st.sampled_from([0.1, 0.5, 0.9, np.nan])
ROWS = st.lists(st.tuples(st.integers(0, 12), SCORES, RATIOS), max_size=12, unique_by=lambda r: r[0])


def cases(rows: list[tuple[int, float, float]], *, sure: bool = True) -> Cases:
    keys, score, ratio = (np.array([r[i] for r in rows]) for i in range(3))
    return Cases(keys.astype(np.int64), score.astype(float), ratio.astype(float) if sure else None, str)


def plain(
    a: dict[int, tuple[float, float]], b: dict[int, tuple[float, float]], by: str
) -> tuple[list[int], int]:
    """The order and how many it is about, one case at a time."""

    def rank(key: int) -> tuple[object, ...]:
        (x, r), (y, q) = a[key], b[key]
        if np.isnan(x) or np.isnan(y):
            return (2, key)
        if by == "disagreement":
            return (0, -abs(x - y), key) if x != y else (1, key)
        if by == "wrong":
            return (0 if max(x, y) < 0.5 else 1, max(x, y), (x + y) / 2, key)
        sure = [ratio for score, ratio in ((x, r), (y, q)) if score < 0.5 and not np.isnan(ratio)]
        return (0, min(sure), key) if sure else (1, key)

    keys = sorted(set(a) & set(b), key=rank)
    return keys, sum(rank(k)[0] == 0 for k in keys)


@given(ROWS, ROWS, st.sampled_from(list(BY)))
def test_orders_are_those_of_sorting_by_hand(
    one: list[tuple[int, float, float]], two: list[tuple[int, float, float]], by: str
) -> None:
    found = order_cases([cases(one), cases(two)], by)  # type: ignore[arg-type]
    a, b = ({k: (s, r) for k, s, r in rows} for rows in (one, two))
    keys, meant = plain(a, b, by)
    assert found.keys[found.order].tolist() == keys
    assert found.n_relevant == meant
    for row in found.page(0, 100):
        for score, own in zip(row.scores, (a, b), strict=True):
            assert score == (None if np.isnan(own[int(row.key)][0]) else own[int(row.key)][0])


def test_one_method_is_sorted_by_how_wrong_it_is() -> None:
    own = cases([(1, 1.0, 0.5), (2, 0.0, 0.9), (3, 0.25, 0.1)])
    assert [r.key for r in order_cases([own], "disagreement").page()] == ["2", "3", "1"]
    assert [r.key for r in order_cases([own], "wrong").page()] == ["2", "3", "1"]
    assert [r.key for r in order_cases([own], "confident").page()] == ["3", "2", "1"]


def made() -> OrderedCases:
    rows = [(k, float(k % 3 == 0), 0.5) for k in range(10)]
    return order_cases([cases(rows), cases([(k, 1.0, 0.5) for k in range(10)])], "disagreement")


def test_pages_and_places() -> None:
    found = made()
    every = [r.key for r in found.page(0, 99)]
    assert [r.key for n in range(0, 12, 4) for r in found.page(n, 4)] == every
    assert found.page(99, 4) == []
    assert found.page(-3, 2) == found.page(0, 2)
    assert found.page(0, -1) == []
    assert [found.place(k) for k in every] == list(range(10))
    assert found.beside(every[0]) == (None, every[1])
    assert found.beside(every[-1]) == (every[-2], None)
    assert found.beside("no such key") == (None, None)
    assert (len(found), found.n_relevant) == (10, 6)


@pytest.mark.parametrize("key", ["", "-1", "1.0", "٣", "9" * 40, "x", "../1", "1 ", "None"])
def test_a_key_of_an_address_may_be_anything(key: str) -> None:
    assert cases([(1, 1.0, 0.5)]).find(key) is None
    assert Cases(np.array(["a/b"]), np.ones(1), None, str).find(key) is None
    assert made().place(key) is None


def test_confidence_is_shown_only_where_all_methods_have_it() -> None:
    rows = [(1, 0.0, 0.5)]
    found = order_cases([cases(rows), cases(rows, sure=False)], "confident")
    assert found.page()[0].confidence == (None, None)
    assert found.n_relevant == 0


def test_numbers_and_names_share_no_keys() -> None:
    names = Cases(np.array(["1", "2"]), np.ones(2), None, str)
    keys, rows = shared_keys([cases([(1, 1.0, 0.5)]), names])
    assert len(keys) == 0
    assert [len(r) for r in rows] == [0, 0]
    assert len(order_cases([names, names], "wrong")) == 2


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="must have equal lengths"):
        Cases(np.arange(3), np.ones(2), None, str)
