# SPDX-License-Identifier: BSD-3-Clause
"""Precision at fixed recalls of many lists: against one list walked item by item, and against AP."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiepoint.metrics.ranking.average_precision import average_precision
from tiepoint.metrics.ranking.curves import precision_at_recall


def walked(distances: np.ndarray, right: np.ndarray, recall: np.ndarray, could: int) -> list[float]:
    """Precision of the item that lifts recall to each level, 0 where none does; no ties."""
    values = []
    for level in recall:
        found, value = 0, 0.0
        for seen, i in enumerate(np.argsort(distances), start=1):
            if np.isinf(distances[i]):
                break
            found += int(right[i])
            if right[i] and found / could >= level:
                value = found / seen
                break
        values.append(value)
    return values


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_every_list_is_read_like_one_walked_by_hand(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    distances = rng.permutation(len(owner)).astype(float)
    distances[rng.uniform(size=len(owner)) < 0.2] = np.inf
    right = rng.uniform(size=len(owner)) < 0.5
    could = np.array(sizes) + rng.integers(0, 3, len(sizes))
    recall = (np.arange(7) + 0.5) / 7
    found = precision_at_recall(distances, right, owner, len(sizes), recall=recall, normaliser=could)
    for i, n in enumerate(could):
        if n == 0:
            assert np.isnan(found[i]).all()
        else:
            mine = owner == i
            assert found[i].tolist() == pytest.approx(walked(distances[mine], right[mine], recall, n))


@pytest.mark.parametrize("ties", ["expected", "group"])
def test_the_mean_over_recalls_is_the_average_precision(ties: str) -> None:
    rng = np.random.default_rng(0)
    d, right = rng.integers(0, 30, 200).astype(float), rng.uniform(size=200) < 0.4
    recall = (np.arange(20000) + 0.5) / 20000
    found = precision_at_recall(
        d, right, np.zeros(200, int), 1, recall=recall, normaliser=right.sum() + 10, ties=ties
    )
    wanted = average_precision(d, right, normaliser=int(right.sum()) + 10, ties=ties)
    assert found.mean() == pytest.approx(wanted, abs=1e-4)
