# SPDX-License-Identifier: BSD-3-Clause
"""The reference distance, bit for bit, against plain Python floats."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import distance as scipy_distance

from tiepoint.core.errors import InputError
from tiepoint.kernels import fit_across, nearest, pair_distances, pair_distances_across, pair_distances_sq

DIMS = [2, 6, 8, 14, 16, 30, 128]


def rows(distance, dim, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if distance == "hamming":
        return rng.integers(0, 256, (12, dim)).astype(np.uint8)
    values = rng.normal(size=(12, dim)) * 50
    return np.abs(values).astype(dtype) if dtype == np.uint8 else values.astype(dtype)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.float16, np.int32])
@pytest.mark.parametrize("distance", ["l2", "l1", "cosine", "masked_l1", "hamming"])
def test_every_bit_equals_the_plain_sum(oracle, distance, dtype, dim):
    a, b = rows(distance, dim, dtype, 1), rows(distance, dim, dtype, 2)
    left, right = np.arange(12).repeat(12), np.tile(np.arange(12), 12)
    expected = [oracle.one(a[i], b[j], distance) for i, j in zip(left, right, strict=True)]
    assert np.array_equal(
        pair_distances(a, b, left, right, distance=distance), oracle.shown(np.array(expected), distance)
    )
    if distance == "l2":
        assert np.array_equal(pair_distances_sq(a, b, left, right), expected)


def test_hard_cases(oracle, case):
    a, b = case
    i, j = np.arange(len(a)), np.arange(len(a)) % len(b)
    for distance in ("l2", "l1"):
        expected = oracle.shown(oracle.matrix(a, b, distance), distance)[i, j]
        assert np.array_equal(pair_distances(a, b, i, j, distance=distance), expected)


@pytest.mark.parametrize(
    ("distance", "theirs"), [("l2", "euclidean"), ("l1", "cityblock"), ("cosine", "cosine")]
)
def test_agrees_with_scipy(distance, theirs):
    a = np.random.default_rng(3).normal(size=(30, 40))
    found = pair_distances(a, a, np.arange(30), np.arange(30)[::-1], distance=distance)
    expected = scipy_distance.cdist(a, a, theirs)[np.arange(30), np.arange(30)[::-1]]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("dim", [2, 14, 128])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("distance", ["l2", "l1"])
def test_across_matrices_every_bit_is_the_same(distance, dtype, dim):
    rng = np.random.default_rng(5)
    parts = [(rng.normal(size=(n, dim)) * 50).astype(dtype) for n in (3, 1, 7)]
    start = np.array([0, 3, 4])
    rows = rng.integers(0, 11, (2, 5000))
    part = np.searchsorted(start, rows, side="right") - 1
    place = rng.permutation(5000)
    out = np.full(5001, -1.0)
    lists = [part[0], rows[0] - start[part[0]], part[1], rows[1] - start[part[1]], place]
    pair_distances_across(parts, lists, out, distance=distance)
    together = np.concatenate(parts)
    value = pair_distances(together, together, *rows, distance=distance, squared=distance == "l2")
    assert np.array_equal(out[place], value)
    assert out[5000] == -1


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (0, 2, r"part_a\[1\] is 2"),
        (0, -1, r"part_a\[1\] is -1"),
        (1, 3, r"row_a\[1\] is 3, but matrix 0 has 3 rows"),
        (3, 3, r"row_b\[1\] is 3, but matrix 0"),
        (3, -1, r"row_b\[1\] is -1"),
        (3, 1 << 40, "outside"),
        (4, 2, r"place\[1\] is 2"),
    ],
)
def test_across_checks_every_index(at, value, words):
    lists = [np.zeros(2, np.int64) for _ in range(5)]
    lists[at][1] = value
    with pytest.raises(InputError, match=words):
        pair_distances_across([np.zeros((3, 4))] * 2, lists, np.zeros(2))


@pytest.mark.parametrize("dim", DIMS)
def test_steps_lead_to_what_numpy_subtracts_in_single_precision(dim):
    rng = np.random.default_rng(dim)
    a, b = (rng.normal(size=(900, dim)).astype(np.float32) for _ in "ab")
    b[::7] = a[::7]
    index, out, steps = np.arange(900), np.zeros(900), np.zeros(900, np.int8)
    lists = [np.zeros(900, int), index, np.ones(900, int), index, index[::-1].copy()]
    pair_distances_across([a, b], lists, out, steps=steps)
    single = np.sqrt(out).astype(np.float32)
    moved = (single.view(np.int32) + steps).view(np.float32)[::-1]
    assert moved.tolist() == [scipy_distance.euclidean(x, y) for x, y in zip(a, b, strict=True)]
    assert set(np.unique(steps)) == {-1, 0, 1}
    np.testing.assert_array_equal(out[::-1], pair_distances_sq(a, b, index, index))
    with pytest.raises(InputError, match="one entry per output value"):
        pair_distances_across([a.astype(float), b.astype(float)], lists, out, steps=steps)


@pytest.mark.parametrize("dim", [1, 5, *DIMS, 127, 129, 200, 257, 1000])
def test_steps_lead_to_what_scipy_adds_in_single_precision(dim):
    rng = np.random.default_rng(dim)
    a, b = (rng.normal(size=(300, dim)).astype(np.float32) for _ in "ab")
    b[::7] = a[::7]
    index, out, steps = np.arange(300), np.zeros(300), np.zeros(300, np.int8)
    lists = [np.zeros(300, int), index, np.ones(300, int), index, index[::-1].copy()]
    pair_distances_across([a, b], lists, out, distance="l1", steps=steps)
    moved = (out.astype(np.float32).view(np.int32) + steps).view(np.float32)[::-1]
    assert moved.tolist() == [scipy_distance.cityblock(x, y) for x, y in zip(a, b, strict=True)]
    assert steps.any() == (dim > 1)
    np.testing.assert_array_equal(out[::-1], pair_distances(a, b, index, index, distance="l1"))


def test_across_refuses_what_it_cannot_take():
    lists = [np.zeros(1, np.int64)] * 5
    good = np.zeros((2, 4), np.float32)
    assert fit_across([good, good], "l2")
    for parts, distance in (
        ([good, good.astype(np.float64)], "l2"),
        ([good, good[:, :3]], "l2"),
        ([good, np.asfortranarray(good)], "l2"),
        ([good], "cosine"),
    ):
        assert not fit_across(parts, distance)
        with pytest.raises(InputError, match="concatenate the matrices first"):
            pair_distances_across(parts, lists, np.zeros(1), distance=distance)
    with pytest.raises(InputError, match="equal lengths"):
        pair_distances_across([good], [*lists[:4], np.zeros(2, np.int64)], np.zeros(1))
    bad = good.copy()
    bad[1, 2] = np.nan
    row_b = np.ones(1, np.int64)
    with pytest.raises(
        InputError, match=r"row 1 of matrix 1 \(side b\) has NaN, infinite or too large values"
    ):
        pair_distances_across([good, bad], [lists[0], lists[0], row_b, row_b, lists[0]], np.zeros(1))
    huge = np.array([[1e200], [-1e200]])
    with pytest.raises(InputError, match="remove failed rows first"):
        pair_distances_across([huge], [lists[0], lists[0], lists[0], row_b, lists[0]], np.zeros(1))


def test_masked_l1_is_the_l1_distance_of_value_times_mask():
    a = np.array([[1.0, 2.0, 3.0, 1.0, 0.0, 1.0]])
    b = np.array([[4.0, 4.0, 4.0, 1.0, 1.0, 0.0]])
    assert pair_distances(a, b, [0], [0], distance="masked_l1") == abs(1 - 4) + abs(0 - 4) + abs(3 - 0)


def test_cosine_of_equal_directions_is_zero():
    a = np.array([[3.0, 4.0, 0.1], [6.0, 8.0, 0.2], [-3.0, -4.0, -0.1]])
    assert pair_distances(a, a, [0, 0], [0, 1], distance="cosine").tolist() == [0.0, 0.0]
    assert pair_distances(a, a, [0], [2], distance="cosine")[0] == pytest.approx(2.0)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_pairs_read_from_a_read_only_map(tmp_path, threads):
    from tiepoint.kernels import set_threads

    values = np.random.default_rng(4).normal(size=(500, 24)).astype(np.float32)
    np.save(tmp_path / "x.npy", values)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    rng = np.random.default_rng(5)
    i, j = rng.integers(0, 500, 30000), rng.integers(0, 500, 30000)
    set_threads(threads)
    try:
        found = pair_distances(mapped, mapped, i, j)
        assert np.array_equal(found, pair_distances(values[:, ::1], values, i, j))
        assert np.array_equal(found[::-1], pair_distances(values, values, i[::-1], j[::-1]))
    finally:
        set_threads(None)
    np.testing.assert_allclose(found, np.linalg.norm(values[i] - values[j], axis=1), rtol=1e-5)


def test_strided_input_is_read_as_it_looks():
    wide = np.random.default_rng(6).normal(size=(9, 20)).astype(np.float32)
    part = wide[::2, ::2]
    assert np.array_equal(pair_distances(part, part, [0], [3]), pair_distances(part.copy(), part, [0], [3]))


@pytest.mark.parametrize("distance", ["l2", "hamming"])
def test_rows_at_odd_addresses(distance):
    dtype = np.uint8 if distance == "hamming" else np.float32
    values = np.random.default_rng(7).integers(0, 256, (6, 16)).astype(dtype)
    odd = np.frombuffer(b"x" + values.tobytes(), dtype=np.uint8)[1:].view(dtype).reshape(6, 16)
    i, j = np.arange(6), np.arange(6)[::-1].copy()
    found = pair_distances(odd, odd, i, j, distance=distance)
    assert np.array_equal(found, pair_distances(values, values, i, j, distance=distance))
    near = nearest(odd, odd, 2, distance=distance)
    assert np.array_equal(near.index, nearest(values, values, 2, distance=distance).index)


def test_no_pairs():
    assert pair_distances(np.ones((2, 3)), np.ones((2, 3)), [], []).shape == (0,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distance": "l3"}, "unknown distance 'l3'"),
        ({"a": np.ones(3)}, "shape"),
        ({"b": np.ones((3, 5))}, "4 columns"),
        ({"index_a": [0, 3]}, r"index_a\[1\] is 3, but there are 3 rows"),
        ({"index_b": [0, -1]}, r"index_b\[1\] is -1"),
        ({"index_a": [0]}, "found 1 and 2 entries; pass equal lengths"),
        ({"index_a": [0.5, 1.0]}, "index_a: expected integers"),
        ({"distance": "hamming"}, "packed bits"),
        ({"squared": True, "distance": "l1"}, "l2 only"),
        ({"a": np.full((3, 4), np.nan)}, "row 0 of a has NaN or infinite values"),
        ({"b": np.full((3, 4), np.inf)}, "row 0 of b has NaN or infinite values"),
        ({"a": np.zeros((3, 4)), "distance": "cosine"}, "all values are zero"),
        ({"a": np.ones((3, 4), complex)}, "real numbers"),
    ],
)
def test_wrong_input_is_explained(change, message):
    given = {"a": np.ones((3, 4)), "b": np.ones((3, 4)), "index_a": [0, 1], "index_b": [0, 1], **change}
    with pytest.raises(InputError, match=message):
        pair_distances(given.pop("a"), given.pop("b"), given.pop("index_a"), given.pop("index_b"), **given)


def test_masked_l1_needs_an_even_number_of_columns():
    with pytest.raises(InputError, match="pass an even number"):
        pair_distances(np.ones((2, 3)), np.ones((2, 3)), [0], [0], distance="masked_l1")


def test_functions_that_compiled_code_calls_have_names_of_their_own():
    """Code kept on disk knows what it calls by name: closures of one name were taken for each other."""
    from tiepoint.kernels.numba_backend import reference_distance

    sums = (
        reference_distance.sum_squares,
        reference_distance.sum_squares_single,
        reference_distance.sum_absolute,
        reference_distance.sum_absolute_single,
    )
    names = ["sum_squares", "sum_squares_single", "sum_absolute", "sum_absolute_single"]
    assert [f.py_func.__qualname__ for f in sums] == names
