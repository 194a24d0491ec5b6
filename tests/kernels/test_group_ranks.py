# SPDX-License-Identifier: BSD-3-Clause
"""Counts between groups of rows, and counts of one pooled list, against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.kernels import pair_distances, rank_counts_across, set_threads
from tiepoint.kernels.group_ranks import group_rank_counts, group_rows
from tiepoint.kernels.pooled_counts import PooledCounts

DISTANCES = ("l2", "l1", "hamming", "cosine", "masked_l1")


def rows(rng, n, distance, ties):
    if distance == "hamming":
        return rng.integers(0, 4 if ties else 256, (n, 3), dtype=np.uint8)
    if ties:
        return rng.integers(1, 3, (n, 6)).astype(np.float32)
    return rng.normal(size=(n, 6)).astype(np.float32)


def table(a, b, distance):
    i, j = np.divmod(np.arange(len(a) * len(b)), len(b))
    value = pair_distances(a, b, i, j, distance=distance, squared=distance == "l2")
    return value.reshape(len(a), len(b))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("distance", DISTANCES)
def test_group_counts(distance, ties):
    rng = np.random.default_rng(len(distance) + ties)
    for size in (9, 150):
        a, b = rows(rng, size, distance, ties), rows(rng, size + 4, distance, ties)
        of_a, of_b = rng.integers(0, size, size), rng.integers(0, size, size + 4)
        valid_a, valid_b = rng.random(size) < 0.9, rng.random(size + 4) < 0.9
        rows_a, names_a, start_a = group_rows(of_a, valid_a)
        rows_b, names_b, start_b = group_rows(of_b, valid_b)
        near = table(a, b, distance)
        groups = np.array(
            [
                [near[np.ix_(valid_a & (of_a == g), valid_b & (of_b == p))].min() for p in names_b]
                for g in names_a
            ]
        )
        position = rng.permutation(len(names_b))
        limits = np.sort(rng.integers(0, len(names_b) + 1, (len(names_a), 3)), axis=1)[:, ::-1]
        query = np.sort(rng.integers(0, len(names_a), 40))
        value = groups[query, rng.integers(0, len(names_b), 40)]
        found = group_rank_counts(
            a[rows_a], start_a, b[rows_b], start_b, position, query, value, distance=distance, limits=limits
        )
        for t, (q, v) in enumerate(zip(query, value, strict=True)):
            for s in range(3):
                inside = position < limits[q, s]
                assert found.lt[t, s] == (inside & (groups[q] < v)).sum()
                assert found.eq[t, s] == (inside & (groups[q] == v)).sum()


def test_group_counts_without_anything():
    nothing = np.empty(0, np.int64)
    found = group_rank_counts(
        np.ones((1, 2)), np.array([0, 1]), np.empty((0, 2)), np.array([0]), nothing, np.array([0]),
        np.array([1.0]), distance="l2", limits=np.array([[5]]),
    )  # fmt: skip
    assert found.lt.tolist() == [[0]]


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("threads", [1, 3])
def test_pooled_counts(distance, ties, threads):
    rng = np.random.default_rng(11 + ties)
    a, b = rows(rng, 170, distance, ties), rows(rng, 90, distance, ties)
    value = table(a, b, distance)
    position = np.arange(170)[:, None] * 200 + np.arange(90)[None] * 2
    right = rng.random(value.shape) < 0.02
    counts = PooledCounts(value[right], position[right])
    set_threads(threads)
    try:
        counts.add_pairs(a, b, position[:, 0], distance=distance, stride=2)
    finally:
        set_threads(None)
    extra = rng.choice(value.ravel(), 50)
    counts.add_values(extra, np.full(50, 10**6))
    found = counts.result()
    wrong, places = np.append(value[~right], extra), np.append(position[~right], np.full(50, 10**6))
    for k, (v, p) in enumerate(zip(value[right], position[right], strict=True)):
        assert found.lt[k, 0] == (wrong < v).sum()
        assert found.eq[k, 0] == (wrong == v).sum()
        assert found.eq_before[k, 0] == ((wrong == v) & (places < p)).sum()


def test_pooled_counts_edges():
    assert PooledCounts([], []).result().lt.shape == (0, 1)
    nothing = PooledCounts([], [])
    nothing.add_values([1.0], [0])
    one = PooledCounts([2.0], [5])
    one.add_values([2.0, 2.0, 2.0, np.inf], [5, 4, 6, 7])
    found = one.result()
    assert (found.lt[0, 0], found.eq[0, 0], found.eq_before[0, 0]) == (0, 2, 1)
    with pytest.raises(InputError, match="finite"):
        PooledCounts([np.inf], [0])


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("distance", DISTANCES)
def test_counts_across_parts(distance, ties, monkeypatch):
    """Parts of any size, in any order, several of one group, against a loop over all pairs."""
    rng = np.random.default_rng(3 + len(distance) + ties)
    a = rows(rng, 21, distance, ties)
    parts = [(int(g), rows(rng, n, distance, ties)) for g, n in ((2, 30), (0, 0), (1, 7), (2, 1), (0, 55))]
    group = rng.integers(0, 4, len(a))
    query = rng.integers(0, len(a), 50)
    near = [table(a, p, distance) for _, p in parts]
    value = near[0][query, rng.integers(0, 30, 50)]
    value[:3] = np.inf
    for size in (40, 1 << 20):
        monkeypatch.setattr("tiepoint.kernels.pooled_counts._BLOCK_BYTES", size * parts[0][1][0].nbytes)
        found = rank_counts_across(
            a, iter(parts), query, value, query_group=group, distance=distance, squared=distance == "l2"
        )
        for t, (q, v) in enumerate(zip(query, value, strict=True)):
            met = [d for (g, _), d in zip(parts, near, strict=True) if g != group[q]]
            assert found.lt[t, 0] == sum(int((d[q] < v).sum()) for d in met)
            assert found.eq[t, 0] == sum(int((d[q] == v).sum()) for d in met)
    assert not found.eq_before.any()


@pytest.mark.parametrize("spread", [1e-7, 1e-3, 1e12, "whole", "large"])
@pytest.mark.parametrize("tile", [7, 64])
def test_groups_near_the_threshold(monkeypatch, spread, tile):
    """Rows a rounding apart, whole numbers, and such as float32 does not hold, in blocks of a few rows."""
    monkeypatch.setattr("tiepoint.kernels.tiles.TILE_COLUMNS", tile)
    monkeypatch.setattr("tiepoint.kernels.tiles.TILE_BYTES", 1024)
    monkeypatch.setattr("tiepoint.kernels.tiles.SMALL_PRODUCT", 0)
    rng = np.random.default_rng(8)
    base = rng.normal(size=(3, 16))
    if spread in ("whole", "large"):
        span = 8 if spread == "whole" else 620
        a, b = (rng.integers(0, span, (n, 16)).astype(np.float32) for n in (70, 90))
    else:
        a, b = ((base[rng.integers(0, 3, n)] + spread * rng.normal(size=(n, 16))) for n in (70, 90))
        a, b = a.astype(np.float32), b.astype(np.float32)
        b[:20] = b[20:40]  # repeats
    of_a, of_b = rng.integers(0, 30, 70), rng.integers(0, 50, 90)
    rows_a, names_a, start_a = group_rows(of_a, np.ones(70, bool))
    rows_b, names_b, start_b = group_rows(of_b, np.ones(90, bool))
    near = table(a, b, "l2")
    groups = np.array([[near[np.ix_(of_a == g, of_b == p)].min() for p in names_b] for g in names_a])
    query = np.sort(rng.integers(0, len(names_a), 80))
    value = groups[query, rng.integers(0, len(names_b), 80)]
    position, limits = rng.permutation(len(names_b)), np.full((len(names_a), 1), len(names_b))
    found = group_rank_counts(
        a[rows_a], start_a, b[rows_b], start_b, position, query, value, distance="l2", limits=limits
    )
    assert np.array_equal(found.lt[:, 0], (groups[query] < value[:, None]).sum(axis=1))
    assert np.array_equal(found.eq[:, 0], (groups[query] == value[:, None]).sum(axis=1))


def test_parts_of_different_widths_are_refused():
    parts = [(0, np.zeros((2, 3))), (1, np.zeros((2, 4)))]
    with pytest.raises(InputError, match="must have equal length"):
        rank_counts_across(np.zeros((1, 3)), parts, [0], [1.0], query_group=[5])
