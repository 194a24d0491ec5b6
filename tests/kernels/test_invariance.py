# SPDX-License-Identifier: BSD-3-Clause
"""Block size, threads, row order and the filter's format never change a bit."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.kernels import first_two, nearest, pair_distances, rank_counts, set_threads, tiles


def data(kind, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "ties":
        return tuple((rng.integers(0, 3, (n, 12)) / 255).astype(np.float32) for n in (70, 400))
    if kind == "repeats":
        few = rng.normal(size=(30, 12)).astype(np.float32)
        return few[rng.integers(0, 30, 70)], few[rng.integers(0, 30, 400)]
    if kind == "bytes":
        return tuple(rng.integers(0, 256, (n, 12)).astype(np.uint8) for n in (70, 400))
    return tuple(rng.normal(size=(n, 12)).astype(np.float32) for n in (70, 400))


def everything(queries, pool, distance):
    query = np.arange(140) % 70
    position = (np.arange(140) * 7) % 400
    target = pair_distances(queries, pool, query, position, distance=distance)
    limits = np.tile([10, 399, 200], (70, 1))
    counts = rank_counts(
        queries, pool, query, target, position,
        distance=distance, limits=limits, query_group=np.arange(70) % 3, pool_group=np.arange(400) % 4,
    )  # fmt: skip
    return (
        target,
        *nearest(queries, pool, 9, distance=distance, exclude=np.arange(70)),
        *first_two(queries, pool, distance=distance),
        *counts,
    )


def same(left, right):
    return all(a.tobytes() == b.tobytes() for a, b in zip(left, right, strict=True))


KINDS = [("normal", "l2"), ("ties", "l2"), ("repeats", "l2"), ("bytes", "l2"), ("bytes", "hamming")]
KINDS += [("normal", "l1"), ("ties", "cosine"), ("ties", "masked_l1")]


@pytest.mark.parametrize(("kind", "distance"), KINDS)
@pytest.mark.parametrize(("columns", "size"), [(16, 640), (33, 4000), (4096, 1 << 22)])
def test_block_size(monkeypatch, kind, distance, columns, size):
    queries, pool = data(kind)
    if distance == "cosine":
        queries, pool = queries + 1, pool + 1
    expected = everything(queries, pool, distance)
    monkeypatch.setattr(tiles, "TILE_COLUMNS", columns)
    monkeypatch.setattr(tiles, "TILE_BYTES", size)
    assert same(everything(queries, pool, distance), expected)


@pytest.mark.parametrize(("kind", "distance"), KINDS[:6])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_threads(monkeypatch, kind, distance, threads):
    queries, pool = data(kind)
    expected = everything(queries, pool, distance)
    monkeypatch.setattr(tiles, "SMALL_PRODUCT", 0)
    monkeypatch.setattr(tiles, "SMALL_SUMS", 0)
    monkeypatch.setattr(tiles, "TILE_BYTES", 8000)
    set_threads(threads)
    try:
        assert same(everything(queries, pool, distance), expected)
    finally:
        set_threads(None)


@pytest.mark.parametrize("threads", [1, 2])
def test_blas_threads(threads):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    queries, pool = data("normal")
    expected = everything(queries, pool, "l2")
    with threadpoolctl.threadpool_limits(threads):
        assert same(everything(queries, pool, "l2"), expected)


@pytest.mark.parametrize("kind", ["normal", "ties", "repeats", "bytes"])
def test_the_format_of_the_filter(monkeypatch, kind):
    queries, pool = data(kind)
    expected = everything(queries, pool, "l2")
    monkeypatch.setattr(tiles, "AMBIGUOUS_SHARE", -1e9)  # the first tile already counts as hopeless
    monkeypatch.setattr(tiles, "TILE_COLUMNS", 50)
    assert same(everything(queries, pool, "l2"), expected)


def test_hopeless_rows_move_the_filter_to_float64():
    rng = np.random.default_rng(5)
    pool = (rng.normal(size=(400, 12)) * 10.0 ** rng.integers(-6, 6, (400, 1))).astype(np.float32)
    from tiepoint.kernels.threads import ThreadTeam

    scores = tiles.TileScores(pool, pool, "l2", ThreadTeam())
    assert scores.dtype == np.float32
    scores.run(lambda tile: tile.similarity.size, free=0.0)
    assert scores.dtype == np.float64


@pytest.mark.parametrize("kind", ["normal", "ties", "repeats", "bytes"])
def test_row_order(kind):
    queries, pool = data(kind)
    rng = np.random.default_rng(6)
    rows, asked = rng.permutation(400), rng.permutation(70)
    plain, moved = first_two(queries, pool), first_two(queries[asked], pool[rows])
    assert moved.d1.tobytes() == plain.d1[asked].tobytes()
    assert moved.d2.tobytes() == plain.d2[asked].tobytes()
    assert np.array_equal(moved.ties, plain.ties[asked])
    unique = plain.ties[asked] == 1
    assert np.array_equal(rows[moved.index][unique], plain.index[asked][unique])
    near, near_moved = nearest(queries, pool, 9), nearest(queries[asked], pool[rows], 9)
    assert near_moved.distance.tobytes() == near.distance[asked].tobytes()
    query = np.arange(70)
    target = pair_distances(queries, pool, query, query)
    counts = rank_counts(queries, pool, query, target, query)
    back = np.argsort(asked)
    moved_counts = rank_counts(queries[asked], pool[rows], back, target, np.argsort(rows)[:70])
    assert np.array_equal(moved_counts.lt, counts.lt)
    assert np.array_equal(moved_counts.eq, counts.eq)
