# SPDX-License-Identifier: BSD-3-Clause
"""Records of the 2016 matching benchmark, from descriptors or from neighbour lists of another program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Features, Records
from ....formats.hpatches_v1.definitions import MatchingBenchmark
from ....formats.hpatches_v1.matching import NeighbourList
from ....formats.hpatches_v1.patch_ids import split_image
from ....kernels import first_two, nearest, pair_distances, rank_counts
from ..data import Definition, base_meta, concatenated_rows

NAME = "hpatches-v1/matching"
Columns = dict[str, NDArray[Any]]
Rows = tuple[NDArray[Any], NDArray[np.bool_]]
"""Descriptors (n, d) of an image and whether each is valid (n,)."""


@dataclass(frozen=True)
class MatchingTruth:
    """Ground truth of an image pair: the correct target of each reference patch.

    `first_line` has the reference indices in the order of the labels file. It is None if the target of each
    patch i is i.
    """

    target: NDArray[np.int64]
    first_line: NDArray[np.int64] | None


def meta_of(name: str, benchmark: MatchingBenchmark, features: Features | None) -> dict[str, Any]:
    """Return the metadata of matching records: the image pairs and the scene of each pair."""
    of = [split_image(a)[0] for a, _ in benchmark.pairs]
    scenes = list(dict.fromkeys(of))
    meta = base_meta(NAME, name, scenes, features)
    return meta | {"pairs": [list(p) for p in benchmark.pairs], "pair_scenes": [scenes.index(s) for s in of]}


def compare(definition: Definition, features: Features) -> Records:
    """Compute the neighbours and ranks of all image pairs of a benchmark.

    Records have one row per reference patch. Columns:

    * `pair`: index of the image pair.
    * `index`, `d1`: target with the nearest descriptor (lowest index of a tie) and its distance.
    * `ties`: number of targets at that distance.
    * `index2`, `d2`: second neighbour and its distance.
    * `gt`, `gt_distance`: correct target and its distance.
    * `lt`, `eq`, `eq_before`: numbers of other targets nearer than `gt`, tied, and tied but listed first.
    * `matched`, `gt_listed`: False if a descriptor failed. The distance is then infinite.
    """
    benchmark, truth = definition.content
    rows = ([concatenated_rows(features, (name,))[:2] for name in pair] for pair in benchmark.pairs)
    meta = meta_of(definition.name, benchmark, features)
    return compare_descriptors(rows, truth, features.distance, meta)


def compare_descriptors(
    pairs: Iterable[Sequence[Rows]], truth: Sequence[MatchingTruth], distance: str, meta: dict[str, Any]
) -> Records:
    """Compute the records of image pairs from descriptors (n, d) and validity (n,) of both images.

    `meta` is the metadata that `meta_of` returns.
    """
    parts = [_pair(a, b, t.target, distance) for (a, b), t in zip(pairs, truth, strict=True)]
    return _together(parts, truth, meta | {"ranks_known": True})


def _pair(reference: Rows, target: Rows, truth: NDArray[np.int64], distance: str) -> Columns:
    (a, good_a), (b, good_b) = reference, target
    n = len(a)
    queries, rows = np.flatnonzero(good_a), np.flatnonzero(good_b)
    position = np.cumsum(good_b) - 1
    squared = distance == "l2"
    zero, inf = np.zeros(n, np.int64), np.full(n, np.inf)
    out: Columns = {k: zero.copy() for k in ("index", "ties", "index2", "lt", "eq", "eq_before")}
    out |= {k: inf.copy() for k in ("d1", "d2", "gt_distance")}
    out |= {"gt": truth, "matched": np.zeros(n, bool), "gt_listed": good_a & good_b[truth]}
    out["ties"][:] = 1
    if not len(queries) or not len(rows):
        return out
    q, pool = a[queries], b[rows]
    k = min(2, len(rows))
    near = nearest(q, pool, k, distance=distance, squared=squared)
    out["matched"][queries] = True
    out["index"][queries], out["d1"][queries] = rows[near.index[:, 0]], near.distance[:, 0]
    if k == 2:
        out["index2"][queries], out["d2"][queries] = rows[near.index[:, 1]], near.distance[:, 1]
        tied = np.flatnonzero(near.distance[:, 0] == near.distance[:, 1])
        if tied.size:
            out["ties"][queries[tied]] = first_two(q[tied], pool, distance=distance, squared=squared).ties
    known = np.flatnonzero(out["gt_listed"])
    at = truth[known]
    d = pair_distances(a, b, known, at, distance=distance, squared=squared)
    out["gt_distance"][known] = d
    # A correct nearest neighbour without ties has rank 1; no counting is needed.
    counted = ~((out["index"][known] == at) & (out["ties"][known] == 1))
    some = known[counted]
    if some.size:
        place = np.cumsum(good_a)[some] - 1
        chosen, which = np.unique(place, return_inverse=True)
        counts = rank_counts(
            q[chosen],
            pool,
            which,
            d[counted],
            position[truth[some]],
            distance=distance,
            target_in_pool=True,
            squared=squared,
        )
        for name, column in zip(("lt", "eq", "eq_before"), counts, strict=True):
            out[name][some] = column[:, 0]
    return out


def listed_neighbours(
    features: Features, a: str, b: str, wanted: int | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the k nearest patches in image `b` of each patch in image `a`: indices, distances (k, n).

    `wanted` is k, or None for all patches. Distances are squared for l2. Failed patches are last, in index
    order and with infinite distance.
    """
    (reference, good_a), (target, good_b) = (concatenated_rows(features, (image,))[:2] for image in (a, b))
    queries, rows = np.flatnonzero(good_a), np.flatnonzero(good_b)
    n = len(target)
    k = n if wanted is None else min(wanted, n)
    index = np.tile(np.concatenate([rows, np.flatnonzero(~good_b)])[:k, None], (1, len(reference)))
    distance = np.full((k, len(reference)), np.inf)
    near = min(k, len(rows))
    if near and len(queries):
        found = nearest(
            reference[queries],
            target[rows],
            near,
            distance=features.distance,
            squared=features.distance == "l2",
        )
        index[:near, queries], distance[:near, queries] = rows[found.index].T, found.distance.T
    return index, distance


def records_of_neighbours(
    name: str, benchmark: MatchingBenchmark, truth: Sequence[MatchingTruth], blocks: Sequence[NeighbourList]
) -> Records:
    """Build records from neighbour lists of another program. Neighbours beyond the lists remain unknown.

    The rank of a correct target is known if the list contains it and continues beyond its distance, or if the
    list is complete. If a tie reaches the end of the list, only its listed part is counted. `cut_ties` is the
    number of these ties.
    """
    parts, known, cut = [], True, 0
    for block, t in zip(blocks, truth, strict=True):
        k, n = block.index.shape
        index, d = block.index, block.distance
        hit = (index == t.target[None, :]) & np.isfinite(d)
        listed = hit.any(axis=0)
        gt_distance = np.where(listed, np.where(hit, d, np.inf).min(axis=0), np.inf)
        other = ~hit
        before = np.cumsum(hit, axis=0) == 0
        same = other & (d == gt_distance[None, :]) & listed[None, :]
        complete = k >= n
        known &= complete or bool((listed & (d[-1] > gt_distance)).all())
        cut += 0 if complete else int(np.sum(np.isfinite(d[0]) & (d[0] == d[-1]))) if k > 1 else 0
        parts.append(
            {
                "index": index[0],
                "d1": d[0],
                "ties": np.maximum((d == d[0]).sum(axis=0), 1),
                "index2": index[1] if k > 1 else np.zeros(n, np.int64),
                "d2": d[1] if k > 1 else np.full(n, np.inf),
                "gt": t.target,
                "gt_distance": gt_distance,
                "lt": (other & (d < gt_distance[None, :])).sum(axis=0),
                "eq": same.sum(axis=0),
                "eq_before": (same & before).sum(axis=0),
                "matched": np.isfinite(d[0]),
                "gt_listed": listed,
            }
        )
    meta = meta_of(name, benchmark, None) | {"ranks_known": bool(known), "cut_ties": cut}
    return _together(parts, truth, meta)


def _together(parts: Sequence[Columns], truth: Sequence[MatchingTruth], meta: dict[str, Any]) -> Records:
    columns: Columns = {
        "pair": np.repeat(np.arange(len(parts), dtype=np.int32), [len(p["d1"]) for p in parts])
    }
    for name in parts[0]:
        column = np.concatenate([p[name] for p in parts])
        columns[name] = column.astype(np.int32) if column.dtype.kind in "iu" else column
    if any(t.first_line is not None for t in truth):
        first = [t.target if t.first_line is None else t.first_line for t in truth]
        columns["first_label"] = np.concatenate(first).astype(np.int32)
    return Records("rank", columns, meta)
