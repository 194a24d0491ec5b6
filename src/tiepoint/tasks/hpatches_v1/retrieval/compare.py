# SPDX-License-Identifier: BSD-3-Clause
"""Records of the 2016 retrieval benchmark, from descriptors or from rankings of another program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Features, Records
from ....formats.hpatches_v1.definitions import RetrievalBenchmark
from ....formats.hpatches_v1.patch_ids import PatchList, sequence_codes
from ....formats.hpatches_v1.retrieval import NEIGHBOURS, Rankings, Relevant
from ....kernels import nearest, pair_distances, rank_counts
from ..data import Definition, base_meta, concatenated_rows

NAME = "hpatches-v1/retrieval"
TOP_K = NEIGHBOURS - 1
"""Number of ranks that count, excluding the query itself."""
PATCH, IMAGE = 1, 2
"""Bit flags of relevance: the same patch in another image; any patch of the same sequence."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PatchPool:
    """All patches of a benchmark's pool, numbered by row. Queries and correct answers are row numbers.

    `starts` is the first row of each image. Query i is row query[i]; its correct answers are rows
    truth[offsets[i]:offsets[i + 1]].
    """

    benchmark: RetrievalBenchmark
    starts: Ints
    scenes: tuple[str, ...]
    scene_of_row: NDArray[np.int32]
    query: Ints
    truth: Ints
    offsets: Ints


def pool_of(benchmark: RetrievalBenchmark, relevant: Relevant, counts: Any) -> PatchPool:
    """Build the pool of a benchmark. Images are in the order of the benchmark file's header."""
    sizes = [counts[name] for name in benchmark.pool]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    scenes, code = sequence_codes(benchmark.pool)

    def rows(patches: PatchList) -> Ints:
        return np.asarray(starts[patches.image] + patches.index, np.int64)

    return PatchPool(
        benchmark,
        starts,
        scenes,
        np.repeat(code, sizes).astype(np.int32),
        rows(benchmark.queries),
        rows(relevant.patches),
        relevant.offsets,
    )


def compare(definition: Definition, features: Features) -> Records:
    """Find the 51 pool rows with the nearest descriptors for every query.

    Records have one row per query. Columns:

    * `ids`, `distances` (q, 51): nearest pool rows, sorted by distance and row. They may include the query.
      Distances are infinite if there are fewer rows.
    * `relevant`: bit flags of relevance of these rows.
    * `query`, `scene`: row and scene of the query.
    * `n_patch`, `n_image`: numbers of correct answers in the pool.
    * `cut_total`: number of rows at the distance of the fiftieth row, without the query. `cut_patch` and
      `cut_image` count those that show the same patch or the same sequence. These numbers give the expected
      score if a tie crosses the end of the list.
    """
    pool: PatchPool = definition.content
    values, valid, _ = concatenated_rows(features, definition.images)
    rows = np.flatnonzero(valid)
    width = min(NEIGHBOURS, len(valid))
    q = len(pool.query)
    ids = np.zeros((q, width + 1), np.int64)
    distances = np.full((q, width + 1), np.inf)
    asked = np.flatnonzero(valid[pool.query])
    squared = features.distance == "l2"
    if asked.size:
        body = values if len(rows) == len(values) else values[rows]
        k = min(width + 1, len(rows))
        near = nearest(values[pool.query[asked]], body, k, distance=features.distance, squared=squared)
        ids[asked, :k] = rows[near.index]
        distances[asked, :k] = near.distance
    else:
        body = values[:0]
    cut = _cut_ties(pool, ids, distances)
    far = np.flatnonzero(cut["open"])
    if far.size:
        _count_far(pool, values, body, rows, features.distance, far, cut)
    meta = base_meta(NAME, definition.name, pool.scenes, features)
    return _records(pool, ids[:, :width], distances[:, :width], cut, meta)


def relevance(pool: PatchPool, ids: Ints) -> NDArray[np.uint8]:
    """Return the relevance of pool rows (q, k) to each query as bit flags, 0 for the query itself."""
    same = pool.scene_of_row[ids] == pool.scene_of_row[pool.query][:, None]
    size = len(pool.scene_of_row)
    owner = np.repeat(np.arange(len(pool.query)), np.diff(pool.offsets))
    right = np.isin(np.arange(len(ids))[:, None] * size + ids, owner * size + pool.truth)
    bits = np.where(right, PATCH, 0) | np.where(same, IMAGE, 0)
    return np.where(ids == pool.query[:, None], 0, bits).astype(np.uint8)


def _others(pool: PatchPool, ids: Ints, distances: Any) -> tuple[Any, Any]:
    """Move the query to the end of its own list, with infinite distance.

    Return distances (q, k) and the order.
    """
    own = (ids == pool.query[:, None]) & np.isfinite(distances)
    order = np.argsort(own, axis=1, kind="stable")
    return np.take_along_axis(np.where(own, np.inf, distances), order, axis=1), order


def _cut_ties(pool: PatchPool, ids: Ints, distances: Any) -> dict[str, Any]:
    """Count the listed rows tied with the fiftieth row.

    `open` marks queries whose tie continues beyond the list.
    """
    d, order = _others(pool, ids, distances)
    last = min(TOP_K, len(pool.scene_of_row) - 1) - 1
    at = d[:, last]
    finite = np.isfinite(at)
    bits = np.take_along_axis(relevance(pool, ids), order, axis=1)
    tied = (d == at[:, None]) & finite[:, None]
    more = d.shape[1] > last + 1
    return {
        "distance": at,
        "cut_total": tied.sum(axis=1),
        "cut_patch": (tied & (bits & PATCH > 0)).sum(axis=1),
        "cut_image": (tied & (bits & IMAGE > 0)).sum(axis=1),
        "open": finite & (d[:, last + 1] == at) if more else np.zeros(len(d), bool),
    }


def _count_far(
    pool: PatchPool, values: Any, body: Any, rows: Ints, distance: str, far: Ints, cut: dict[str, Any]
) -> None:
    """Recount the ties of the queries with indices `far` over the complete pool. Update `cut` in place."""
    squared = distance == "l2"
    queries = values[pool.query[far]]
    at = cut["distance"][far]
    number = np.arange(len(far))
    group = pool.scene_of_row
    common: dict[str, Any] = {"distance": distance, "squared": squared}
    zeros = np.zeros(len(far), np.int64)
    every = rank_counts(queries, body, number, at, zeros, **common).eq[:, 0]
    outside = rank_counts(
        queries, body, number, at, zeros, query_group=group[pool.query[far]], pool_group=group[rows], **common
    ).eq[:, 0]
    itself = pair_distances(values, values, pool.query[far], pool.query[far], **common) == at
    sizes = np.diff(pool.offsets)[far]
    owner = np.repeat(number, sizes)
    first = pool.offsets[far]
    answer = pool.truth[np.repeat(first - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())]
    usable = np.isin(answer, rows)
    d = np.full(len(answer), np.inf)
    d[usable] = pair_distances(values, values, pool.query[far][owner[usable]], answer[usable], **common)
    cut["cut_total"][far] = every - itself
    cut["cut_image"][far] = every - outside - itself
    cut["cut_patch"][far] = np.bincount(owner, weights=d == at[owner], minlength=len(far)).astype(np.int64)


def records_of_rankings(name: str, pool: PatchPool, rankings: Rankings) -> Records:
    """Build records from rankings without distances. The file order gives the ranks, without ties."""
    ids = pool.starts[rankings.image] + rankings.index
    distances = np.broadcast_to(np.arange(ids.shape[1], dtype=np.float64), ids.shape).copy()
    cut = _cut_ties(pool, ids, distances)
    return _records(pool, ids, distances, cut, base_meta(NAME, name, pool.scenes, None))


def _records(
    pool: PatchPool, ids: Ints, distances: Any, cut: dict[str, Any], meta: dict[str, Any]
) -> Records:
    scene = pool.scene_of_row[pool.query]
    in_scene = np.bincount(pool.scene_of_row, minlength=len(pool.scenes))
    bits = np.where(np.isfinite(distances), relevance(pool, ids), 0).astype(np.uint8)
    columns = {
        "ids": ids.astype(np.int32),
        "distances": np.ascontiguousarray(distances),
        "relevant": bits,
        "query": pool.query.astype(np.int32),
        "scene": scene.astype(np.int16),
        "n_patch": np.diff(pool.offsets).astype(np.int32),
        "n_image": (in_scene[scene] - 1).astype(np.int32),
    }
    columns |= {k: np.asarray(cut[k]).astype(np.int32) for k in ("cut_total", "cut_patch", "cut_image")}
    named = {"pool_images": list(pool.benchmark.pool), "pool_starts": pool.starts[:-1].tolist()}
    return Records("rank", columns, meta | {"pool_rows": len(pool.scene_of_row)} | named)
