# SPDX-License-Identifier: BSD-3-Clause
"""Every kernel with every distance, memory layout and block size, against plain NumPy, bit for bit.

The fast tests reduce every block size and size threshold of the code, so that small shapes lie on both sides
of each. The slow tests use the real sizes.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest

from tiepoint import kernels
from tiepoint.core.errors import InputError
from tiepoint.formats.npy import map_npy
from tiepoint.kernels import inputs, pooled_counts, tiles

DISTANCES = ("l2", "l1", "hamming", "cosine", "masked_l1")
LAYOUTS = ("contiguous", "strided", "column-major", "mapped", "slice of a map")
BLOCK = 16
WIDTH = 10
# Queries and pool rows: 1, a block less one, a block, a block and one, several blocks.
SHAPES = ((1, 1), (1, 17), (15, 15), (16, 16), (17, 17), (9, 33), (40, 15))
FEW_SHAPES = ((16, 16), (9, 33))
REAL_SHAPES = {
    "500 x 500": (500, 500, 64),
    "below one device product": (511, 512, 64),
    "one device product": (512, 512, 64),
    "tile - 1": (65, 4095, 16),
    "tile": (64, 4096, 16),
    "tile + 1": (63, 4097, 16),
    "block of rows": (16383, 16, 8),
    "block of rows + 1": (16385, 16, 8),
    "below threads": (1023, 1024, 2048),
    "threads": (1024, 1024, 2048),
    "device tile + 1": (257, 65537, 8),
}


@lru_cache(maxsize=64)
def sample(distance, values, queries, rows, width=WIDTH):
    """Queries and pool. `ties` are small integers with repeated rows, for which every score is exact."""
    rng = np.random.default_rng([queries, rows, width, len(distance)])

    def make(n):
        if distance == "hamming":
            return rng.integers(0, 2 if values == "ties" else 256, (n, width)).astype(np.uint8)
        if values == "ties":
            return rng.integers(1, 3, (n, width)).astype(np.uint8)
        return rng.normal(size=(n, width)).astype(np.float64 if values == "float64" else np.float32)

    return make(queries), make(rows)


@lru_cache(maxsize=64)
def reference_values(matrix, distance, values, *shape):
    """Squared sums for l2, distances otherwise."""
    value = matrix(*sample(distance, values, *shape), distance)
    return value / 2 if distance == "cosine" else value


def laid_out(x, layout, folder, name):
    """Return the values of `x` in another memory layout."""
    if layout == "contiguous":
        return np.ascontiguousarray(x)
    if layout == "column-major":
        return np.asfortranarray(x)
    if layout == "strided":
        wide = np.zeros((2 * len(x), 3 * x.shape[1]), x.dtype)
        wide[1::2, ::3] = x
        return wide[1::2, ::3]
    first = 3 if layout == "slice of a map" else 0
    path = folder / f"{name}-{x.shape[0]}.npy"
    np.save(path, np.concatenate([np.zeros((first, x.shape[1]), x.dtype), x]))
    return map_npy(path)[first:]


def same(found, expected):
    """Assert equal bits. Integer arrays may differ in their format."""
    for a, b in zip(found, expected, strict=True):
        assert a.shape == np.shape(b)
        assert np.asarray(b, a.dtype).tobytes() == a.tobytes()


def listed(value, count):
    """Pairs of a query and a row, at most `count`, in random order and with repeats."""
    rng = np.random.default_rng(count)
    return rng.integers(0, value.shape[0], count), rng.integers(0, value.shape[1], count)


def check_value_table(oracle, a, b, distance, value):
    same([kernels.value_table(a, b, distance=distance)], [value])


def check_pair_distances(oracle, a, b, distance, value):
    for count in (1, BLOCK, 70):
        i, j = listed(value, count)
        distances = np.sqrt(value) if distance == "l2" else value
        same([kernels.pair_distances(a, b, i, j, distance=distance)], [distances[i, j]])
        if distance == "l2":
            same([kernels.pair_distances_sq(a, b, i, j)], [value[i, j]])


def check_pair_distances_across(oracle, a, b, distance, value):
    i, j = listed(value, 70)
    place = np.random.default_rng(1).permutation(70)
    lists = [np.zeros(70, np.int64), i, np.ones(70, np.int64), j, place]
    out = np.empty(70)
    if not kernels.fit_across([a, b], distance):
        assert distance not in ("l2", "l1") or not (a.flags.c_contiguous and b.flags.c_contiguous)
        with pytest.raises(InputError, match="fit_across"):
            kernels.pair_distances_across([a, b], lists, out, distance=distance)
        return
    kernels.pair_distances_across([a, b], lists, out, distance=distance)
    same([out[place]], [value[i, j]])
    if distance == "l2" and a.dtype == np.float32:
        steps = np.empty(70, np.int8)
        kernels.pair_distances_across([a, b], lists, out, steps=steps)
        rounded = np.zeros((8, 70))
        for k in range(a.shape[1]):
            rounded[k % 8] += (a[i, k] - b[j, k]).astype(np.float64) ** 2
        s = rounded
        total = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
        ordinal = np.sqrt([total, value[i, j]]).astype(np.float32).view(np.int32)
        same([steps[place]], [ordinal[0] - ordinal[1]])


def check_nearest(oracle, a, b, distance, value):
    exclude = np.arange(len(a)) % len(b)
    for skip in (None, exclude):
        most = len(b) - (skip is not None)
        for k in {min(5, most), min(most, 4 * BLOCK)} - {0}:
            index, near = oracle.nearest(value, k, skip)
            near = np.sqrt(near) if distance == "l2" else near
            same(kernels.nearest(a, b, k, distance=distance, exclude=skip), [index, near])


def check_first_two(oracle, a, b, distance, value):
    index, d1, ties, d2 = oracle.first_two(value)
    if distance == "l2":
        d1, d2 = np.sqrt(d1), np.sqrt(d2)
    same(kernels.first_two(a, b, distance=distance), [index, d1, ties, d2])


def check_first_two_aligned(oracle, a, b, distance, value):
    n = min(len(a), len(b))
    value = value[:n, :n]
    expected = [*oracle.first_two(value), np.diagonal(value)]
    backwards = [*oracle.first_two(value[:, ::-1]), np.diagonal(value[:, ::-1])]
    found = kernels.first_two_aligned(
        a[:n], [b[:n], b[:n][::-1]], distance=distance, squared=distance == "l2"
    )
    for (near, own), right in zip(found, (expected, backwards), strict=True):
        same([*near, own], right)


def check_rank_counts(oracle, a, b, distance, value):
    rng = np.random.default_rng(2)
    query, position = listed(value, 40)
    named = {"limits": rng.integers(0, len(b) + 2, (len(a), 3))}
    named |= {"query_group": rng.integers(0, 4, len(a)), "pool_group": rng.integers(0, 3, len(b))}
    for squared in (False, True) if distance == "l2" else (False,):
        compared = np.sqrt(value) if distance == "l2" and not squared else value
        target = compared[query, position]
        target[:3] = np.inf
        for own in (False, True):
            found = kernels.rank_counts(
                a, b, query, target, position,
                distance=distance, squared=squared, target_in_pool=own, **named,
            )  # fmt: skip
            same(found, oracle.rank_counts(compared, query, target, position, own=own, **named))


def check_rank_counts_across(oracle, a, b, distance, value):
    query, position = listed(value, 40)
    group = np.arange(len(a)) % 3
    edges = [0, len(b) // 3, len(b) // 2, len(b)]
    parts = [(g, b[i:j]) for g, (i, j) in enumerate(pairwise(edges))]
    pool_group = np.repeat([0, 1, 2], np.diff(edges))
    target = value[query, position]
    expected = oracle.rank_counts(
        value, query, target, 0 * position, query_group=group, pool_group=pool_group
    )
    found = kernels.rank_counts_across(
        a, iter(parts), query, target, query_group=group, distance=distance, squared=distance == "l2"
    )
    same(found, [expected[0], expected[1], 0 * expected[2]])


def check_pooled_counts(oracle, a, b, distance, value):
    position = np.arange(len(a))[:, None] * 3 * len(b) + np.arange(len(b))[None] * 2
    right = np.unique(np.ravel_multi_index(listed(value, 12), value.shape))
    counts = kernels.PooledCounts(value.ravel()[right], position.ravel()[right])
    counts.add_pairs(a, b, position[:, 0], distance=distance, stride=2)
    wrong, places = np.delete(value.ravel(), right), np.delete(position.ravel(), right)
    expected = []
    for v, p in zip(value.ravel()[right], position.ravel()[right], strict=True):
        equal = wrong == v
        expected.append([(wrong < v).sum(), equal.sum(), (equal & (places < p)).sum()])
    same(counts.result(), np.array(expected).T[:, :, None])


def check_group_rank_counts(oracle, a, b, distance, value):
    rng = np.random.default_rng(3)

    def groups(n):
        """Start of groups of one row, mostly, and of two or three."""
        start = np.cumsum(np.append(0, rng.choice([1, 1, 1, 2, 3], n)))
        return np.append(start[start < n], n).astype(np.int64)

    start_a, start_b = groups(len(a)), groups(len(b))
    near = np.minimum.reduceat(np.minimum.reduceat(value, start_a[:-1], axis=0), start_b[:-1], axis=1)
    position = rng.permutation(near.shape[1])
    limits = rng.integers(0, near.shape[1] + 1, (len(near), 2))
    query = np.sort(rng.integers(0, len(near), 30))
    target = near[query, rng.integers(0, near.shape[1], 30)]
    expected = np.zeros((3, 30, 2), np.int64)
    for t, q in enumerate(query):
        for s in range(2):
            inside = position < limits[q, s]
            expected[:2, t, s] = (
                (inside & (near[q] < target[t])).sum(),
                (inside & (near[q] == target[t])).sum(),
            )
    found = kernels.group_rank_counts(
        a, start_a, b, start_b, position, query, target, distance=distance, limits=limits
    )
    same(found, expected)


CHECKS = {
    name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")
}


def test_checks_name_every_kernel():
    """A kernel that is exported has a check, so that a new one cannot be forgotten."""
    settings = ("device", "threads", "ahead", "ThreadTeam", "one_blas_thread")
    helpers = {"FirstTwo", "Nearest", "RankCounts", "fit_across", "group_rows", "pair_distances_sq"}
    computing = {name for name in kernels.__all__ if not name.endswith(settings)} - helpers
    assert {"pooled_counts" if name == "PooledCounts" else name for name in computing} == set(CHECKS)


@pytest.fixture
def small_blocks(device, monkeypatch):
    """Reduce every block size and threshold of the code to about `BLOCK` rows."""
    monkeypatch.setattr(inputs, "BLOCK", BLOCK)
    monkeypatch.setattr(import_module("tiepoint.kernels.pair_distances"), "BLOCK", BLOCK)
    monkeypatch.setattr(tiles, "TILE_COLUMNS", BLOCK)
    monkeypatch.setattr(tiles, "TILE_BYTES", BLOCK * BLOCK * 4)
    monkeypatch.setattr(tiles, "SMALL_PRODUCT", BLOCK * BLOCK * WIDTH)
    monkeypatch.setattr(tiles, "SMALL_SUMS", BLOCK * BLOCK * WIDTH)
    monkeypatch.setattr(pooled_counts, "_ROWS", BLOCK)
    monkeypatch.setattr(pooled_counts, "_COLUMNS", BLOCK)
    monkeypatch.setattr(pooled_counts, "_BLOCK_BYTES", BLOCK * WIDTH * 4)
    monkeypatch.setattr("tiepoint.kernels.group_ranks._BLOCK", BLOCK)
    if device != "cpu":
        from tiepoint.kernels.torch_backend import counts
        from tiepoint.kernels.torch_backend import device as kernel_device

        monkeypatch.setattr(counts, "FEW", BLOCK)
        monkeypatch.setitem(kernel_device._bytes, device, BLOCK * BLOCK * 8)


def run(check, oracle, distance, values, layout, folder, *shape):
    a, b = sample(distance, values, *shape)
    value = reference_values(oracle.matrix, distance, values, *shape)
    a, b = laid_out(a, layout, folder, "a"), laid_out(b, layout, folder, "b")
    check(oracle, a, b, distance, value)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("kernel", CHECKS)
def test_kernel_in_small_blocks_equals_plain_sums(oracle, tmp_path, kernel, distance, layout):
    for shape in SHAPES if layout == "contiguous" else FEW_SHAPES:
        run(CHECKS[kernel], oracle, distance, "float32", layout, tmp_path, *shape)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("values", ["ties", "float64"])
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("kernel", CHECKS)
def test_kernel_with_ties_or_float64_equals_plain_sums(oracle, tmp_path, kernel, distance, values):
    run(CHECKS[kernel], oracle, distance, values, "contiguous", tmp_path, 17, 33)


@pytest.mark.parametrize("values", ["float32", "ties"])
@pytest.mark.parametrize("distance", DISTANCES)
def test_kernels_in_one_block_equal_plain_sums(oracle, tmp_path, distance, values):
    for check in CHECKS.values():
        run(check, oracle, distance, values, "contiguous", tmp_path, 17, 33)


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("distance", DISTANCES)
def test_kernels_at_size_threshold_of_device_equal_plain_sums(
    oracle, tmp_path, monkeypatch, device, distance, below
):
    """Below the threshold a GPU leaves the work to the CPU; torch on the CPU follows it here."""
    if device == "cpu":
        pytest.skip("the compiled code has no such threshold")
    from tiepoint.kernels.torch_backend import counts, nearest_scan

    monkeypatch.setattr(nearest_scan, "SMALL", 17 * 15 * WIDTH + int(below))
    for module in (counts, nearest_scan):
        monkeypatch.setattr(module, "get_device", lambda: "cuda")
    for check in CHECKS.values():
        run(check, oracle, distance, "float32", "contiguous", tmp_path, 17, 15)


# Products decide l2 and cosine, so block sizes matter most there.
REAL_CASES = [
    (distance, name)
    for distance in DISTANCES
    for name in REAL_SHAPES
    if distance in ("l2", "cosine") or name in ("one device product", "tile + 1")
]


@pytest.mark.slow
@pytest.mark.parametrize(("distance", "name"), REAL_CASES)
def test_kernels_in_real_blocks_equal_plain_sums(oracle, tmp_path, device, distance, name):
    queries, rows, width = REAL_SHAPES[name]
    if device != "cpu" and "threads" in name:
        queries //= 16  # only the compiled code has this threshold
    for check in CHECKS.values():
        run(check, oracle, distance, "float32", "mapped", tmp_path, queries, rows, width)
