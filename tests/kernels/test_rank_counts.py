# SPDX-License-Identifier: BSD-3-Clause
"""Rank counts equal those taken from the full matrix of reference values."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.kernels import pair_distances, pair_distances_sq, rank_counts


def options(queries, pool, seed):
    rng = np.random.default_rng(seed)
    limits = rng.integers(0, len(pool) + 3, (len(queries), 4))
    groups = {"query_group": rng.integers(0, 5, len(queries)), "pool_group": rng.integers(0, 4, len(pool))}
    return [{}, {"limits": limits}, groups, {"limits": limits, **groups}]


def targets(queries, pool, seed):
    rng = np.random.default_rng(seed)
    query = rng.integers(0, len(queries), 60)
    return query, rng.integers(0, len(pool), 60)


def check(oracle, queries, pool, distance, *, squared=False):
    value = oracle.matrix(queries, pool, distance)
    value = value if squared else oracle.shown(value, distance)
    query, position = targets(queries, pool, 1)
    target = value[query, position]
    target[:4] = np.inf
    target[4:12] *= 1.01
    for given in options(queries, pool, 2):
        for own in (False, True):
            found = rank_counts(
                queries, pool, query, target, position,
                distance=distance, squared=squared, target_in_pool=own, **given,
            )  # fmt: skip
            expected = oracle.rank_counts(value, query, target, position, own=own, **given)
            for name, right in zip(found._fields, expected, strict=True):
                assert np.array_equal(getattr(found, name), right), (name, own, sorted(given))


@pytest.mark.parametrize("squared", [False, True])
def test_hard_cases(oracle, case, squared):
    check(oracle, *case, "l2", squared=squared)


def test_hard_cases_l1(oracle, case):
    check(oracle, *case, "l1")


@pytest.mark.usefixtures("small_tiles")
def test_hard_cases_in_small_tiles(oracle, case):
    check(oracle, *case, "l2")


@pytest.mark.parametrize("distance", ["cosine", "masked_l1", "hamming"])
def test_other_distances(oracle, distance):
    rng = np.random.default_rng(3)
    if distance == "hamming":
        queries, pool = (rng.integers(0, 256, (n, 3)).astype(np.uint8) for n in (9, 70))
    else:
        queries, pool = (rng.integers(-3, 4, (n, 6)).astype(np.float32) + 0.5 for n in (9, 70))
    check(oracle, queries, pool, distance)


def test_roots_merge_and_squares_do_not():
    x = next(v for v in np.linspace(1.0, 1.4, 999) if np.sqrt(v * v) == np.sqrt(v * v + 2.0**-52))
    query, pool = np.zeros((1, 2)), np.array([[x, 2.0**-26], [x, 0.0]])
    root = rank_counts(query, pool, [0], pair_distances(query, pool, [0], [0]), [0])
    square = rank_counts(query, pool, [0], pair_distances_sq(query, pool, [0], [0]), [0], squared=True)
    assert (root.lt.item(), root.eq.item()) == (0, 2)
    assert (square.lt.item(), square.eq.item()) == (1, 1)


def test_targets_may_come_in_any_order(oracle):
    rng = np.random.default_rng(4)
    queries, pool = rng.normal(size=(6, 8)), rng.normal(size=(40, 8))
    query, position = targets(queries, pool, 5)
    distance = pair_distances(queries, pool, query, position)
    shuffled = rng.permutation(60)
    plain = rank_counts(queries, pool, query, distance, position)
    moved = rank_counts(queries, pool, query[shuffled], distance[shuffled], position[shuffled])
    assert np.array_equal(moved.lt, plain.lt[shuffled])


def test_groups_may_be_names():
    pool = np.array([[1.0], [2.0], [3.0]])
    found = rank_counts(
        np.zeros((2, 1)), pool, [0, 1], [9.0, 9.0], [0, 0], query_group=["b", "z"], pool_group=["a", "b", "b"]
    )
    assert found.lt.tolist() == [[1], [3]]


def test_nothing_to_count():
    empty = np.zeros(0, np.int64)
    assert rank_counts(np.ones((2, 3)), np.ones((4, 3)), empty, empty, empty).lt.shape == (0, 1)
    assert rank_counts(np.ones((2, 3)), np.ones((0, 3)), [0], [1.0], [0]).lt.tolist() == [[0]]


def test_a_constant_descriptor_ties_with_everything():
    same = np.full((50, 16), 0.3, np.float32)
    found = rank_counts(same, same, np.arange(50), np.zeros(50), np.arange(50), target_in_pool=True)
    assert (found.lt == 0).all()
    assert (found.eq == 49).all()
    assert found.eq_before[:, 0].tolist() == list(range(50))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target_distance": [np.nan]}, r"target_distance\[0\] is nan"),
        ({"target_distance": [-1.0]}, "pass a value >= 0"),
        ({"target_distance": [1.0, 2.0]}, "equal length"),
        ({"target_query": [2]}, r"target_query\[0\] is 2, but there are 2 queries"),
        ({"target_query": [0.5]}, "target_query and target_position: expected integers"),
        ({"target_position": [4], "target_in_pool": True}, r"target_position\[0\] is 4"),
        ({"limits": np.ones((3, 1), int)}, r"limits: expected integers of shape \(2, limits per query\)"),
        ({"query_group": [0, 1]}, "pass both or none"),
        ({"query_group": [0], "pool_group": [0, 1, 2, 3]}, "expected one group"),
        ({"squared": True, "distance": "l1"}, "l2 only"),
    ],
)
def test_wrong_input_is_explained(change, message):
    given = {"target_query": [0], "target_distance": [1.0], "target_position": [0], **change}
    with pytest.raises(InputError, match=message):
        rank_counts(np.ones((2, 3)), np.ones((4, 3)), **given)
