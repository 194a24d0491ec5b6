# SPDX-License-Identifier: BSD-3-Clause
"""Neighbours equal those of the full matrix of reference values, ties and all."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.kernels import first_two, nearest
from tiepoint.kernels.numba_backend.nearest_scan import _kth_smallest


@pytest.mark.parametrize("distance", ["l2", "l1"])
@pytest.mark.parametrize("k", [1, 2, 40])
def test_nearest_on_hard_cases(oracle, case, distance, k):
    queries, pool = case
    k = min(k, len(pool))
    value = oracle.matrix(queries, pool, distance)
    index, expected = oracle.nearest(value, k)
    found = nearest(queries, pool, k, distance=distance)
    assert np.array_equal(found.index, index)
    assert np.array_equal(found.distance, oracle.shown(expected, distance))


@pytest.mark.parametrize("distance", ["l2", "l1"])
def test_first_two_on_hard_cases(oracle, case, distance):
    queries, pool = case
    index, d1, ties, d2 = oracle.first_two(oracle.matrix(queries, pool, distance))
    found = first_two(queries, pool, distance=distance)
    assert np.array_equal(found.index, index)
    assert np.array_equal(found.ties, ties)
    assert np.array_equal(found.d1, oracle.shown(d1, distance))
    assert np.array_equal(found.d2, oracle.shown(d2, distance))


@pytest.mark.usefixtures("small_tiles")
def test_hard_cases_in_small_tiles(oracle, case):
    queries, pool = case
    value = oracle.matrix(queries, pool, "l2")
    index, d1, ties, d2 = oracle.first_two(value)
    found = first_two(queries, pool, squared=True)
    for name, expected in zip(found._fields, (index, d1, ties, d2), strict=True):
        assert np.array_equal(getattr(found, name), expected)
    k = min(19, len(pool))
    assert np.array_equal(nearest(queries, pool, k).index, oracle.nearest(value, k)[0])


def test_excluded_rows_are_not_found(oracle, case):
    queries, pool = case
    if len(pool) == 1:
        pytest.skip("nothing is left of a pool of one")
    exclude = np.random.default_rng(1).integers(-1, len(pool), len(queries))
    value = oracle.matrix(queries, pool, "l2")
    exclude[:5] = value[:5].argmin(axis=1)
    found = nearest(queries, pool, 5, exclude=exclude)
    assert np.array_equal(found.index, oracle.nearest(value, 5, exclude)[0])


@pytest.mark.parametrize("distance", ["cosine", "masked_l1", "hamming"])
def test_other_distances(oracle, distance):
    rng = np.random.default_rng(2)
    if distance == "hamming":
        queries, pool = (rng.integers(0, 256, (n, 5)).astype(np.uint8) for n in (9, 60))
    else:
        queries, pool = (rng.integers(-3, 4, (n, 10)).astype(np.float32) + 0.5 for n in (9, 60))
    value = oracle.matrix(queries, pool, distance)
    index, expected = oracle.nearest(value, 7)
    found = nearest(queries, pool, 7, distance=distance)
    assert np.array_equal(found.index, index)
    assert np.array_equal(found.distance, oracle.shown(expected, distance))
    index, d1, ties, d2 = oracle.first_two(value)
    two = first_two(queries, pool, distance=distance)
    assert np.array_equal(two.index, index)
    assert np.array_equal(two.ties, ties)
    assert np.array_equal(two.d1, oracle.shown(d1, distance))
    assert np.array_equal(two.d2, oracle.shown(d2, distance))


def test_order_is_decided_on_the_sum_of_squares_not_on_its_root():
    # x^2 and x^2 + one ulp have the same square root: the farther row stands first in the pool.
    x = next(v for v in np.linspace(1.0, 1.4, 999) if np.sqrt(v * v) == np.sqrt(v * v + 2.0**-52))
    pool = np.array([[x, 2.0**-26], [x, 0.0]])
    found = first_two(np.zeros((1, 2)), pool)
    assert found.index == [1]
    assert found.ties == [1]
    assert found.d1 == found.d2
    assert nearest(np.zeros((1, 2)), pool, 2).index.tolist() == [[1, 0]]


def test_a_larger_pool_against_scipy():
    from scipy.spatial.distance import cdist

    rng = np.random.default_rng(3)
    queries, pool = (rng.gamma(0.3, size=(n, 128)).astype(np.float32) for n in (300, 9000))
    expected = np.argsort(cdist(queries, pool), axis=1)[:, :51]
    assert np.array_equal(nearest(queries, pool, 51).index, expected)
    assert np.array_equal(first_two(queries, pool).index, expected[:, 0])


def test_no_queries():
    assert nearest(np.ones((0, 3)), np.ones((4, 3)), 2).index.shape == (0, 2)
    assert first_two(np.ones((0, 3)), np.ones((4, 3))).d1.shape == (0,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 5}, "k is 5, but a query has 4 pool rows"),
        ({"k": 0}, "choose 1 to 4"),
        ({"k": 4, "exclude": [0, -1]}, "a query has 3 pool rows"),
        ({"exclude": [4, 0]}, r"exclude\[0\] is 4"),
        ({"exclude": [0]}, "exclude: expected 2 integers"),
        ({"pool": np.full((4, 3), np.nan)}, "pool, row 0: NaN"),
        ({"queries": np.array([[0.0] * 3, [np.inf] * 3])}, "queries, row 1: infinite"),
        ({"queries": np.full((2, 3), 1e200)}, "square overflows"),
        ({"queries": np.zeros((2, 3)), "distance": "cosine"}, "queries, row 0: all values are zero"),
        ({"pool": np.ones((4, 2))}, "3 columns"),
        ({"queries": np.ones((2, 0)), "pool": np.ones((4, 0))}, "no columns"),
    ],
)
def test_wrong_input_is_explained(change, message):
    given = {"queries": np.ones((2, 3)), "pool": np.ones((4, 3)), "k": 2, **change}
    with pytest.raises(InputError, match=message):
        nearest(given.pop("queries"), given.pop("pool"), given.pop("k"), **given)


def test_an_empty_pool_is_explained():
    with pytest.raises(InputError, match="pool is empty"):
        first_two(np.ones((2, 3)), np.ones((0, 3)))


def test_selected_values_equal_the_sorted_ones():
    rng = np.random.default_rng(7)
    for n in (1, 2, 3, 17, 64, 130):
        values = rng.choice(np.array([0, 1, 2, 5, 9, np.inf], np.float32), n)
        for row in (values, np.sort(values), np.sort(values)[::-1], rng.random(n, np.float32)):
            found = [_kth_smallest(row.copy(), k) for k in range(1, n + 1)]
            assert np.array_equal(found, np.sort(row))
