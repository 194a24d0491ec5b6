# SPDX-License-Identifier: BSD-3-Clause
"""Sorting and merging long lists, against NumPy and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiepoint.metrics.ranking import sorting
from tiepoint.metrics.ranking.sorting import count_nearer, sort_ascending

NUMBERS = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0, np.inf, -np.inf, 5e-324, -5e-324])


@pytest.fixture
def radix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "_FEW", 0)


@pytest.mark.usefixtures("radix")
@settings(deadline=None)  # the first example may compile
@given(st.lists(NUMBERS, max_size=60))
def test_ascending_is_a_sort(numbers: list[float]) -> None:
    values = np.array(numbers, np.float64)
    before = values.copy()
    assert np.array_equal(sort_ascending(values), np.sort(values))
    assert values.tobytes() == before.tobytes()


@pytest.mark.parametrize("kind", ["random", "whole", "constant", "wide"])
def test_ascending_on_long_lists(kind: str) -> None:
    rng = np.random.default_rng(0)
    values = {
        "random": rng.standard_normal(50_000),
        "whole": rng.integers(0, 256, 50_000).astype(float),
        "constant": np.full(50_000, 2.5),
        "wide": np.exp(rng.uniform(-700, 700, 50_000)) * rng.choice([-1, 1], 50_000),
    }[kind]
    assert np.array_equal(sort_ascending(values), np.sort(values))
    assert np.array_equal(sort_ascending(values[::2]), np.sort(values[::2]))


def test_ascending_refuses_a_matrix() -> None:
    with pytest.raises(ValueError, match="shape"):
        sort_ascending(np.zeros((2, 2)))


@settings(deadline=None)  # the first example may compile
@given(st.lists(st.integers(0, 9) | st.just(np.inf)), st.lists(st.integers(0, 9) | st.just(np.inf)))
def test_nearer_counts(targets: list[float], others: list[float]) -> None:
    t, o = np.sort(np.array(targets, float)), np.sort(np.array(others, float))
    below, equal = count_nearer(t, o)
    assert below.tolist() == [sum(1 for y in o if y < x) for x in t]
    assert equal.tolist() == [sum(1 for y in o if y == x) for x in t]
