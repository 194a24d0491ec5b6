# SPDX-License-Identifier: BSD-3-Clause
"""Cases of the 2016 tasks, benchmark after benchmark, from records; and one of them made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import Features, Records
from ...formats.hpatches_v1.classification import LabelledPairs
from ...metrics.ranking.average_precision import average_precision
from ..cases import Candidate, Cases, Floats, QueryCase, nearest_candidates, ratio_of, side_shares
from ..hpatches.cases import distances_to, first_share, pair_answer
from .data import SHIFT, item_key, parse_case_key
from .matching.score import neighbour_distances, validity
from .protocols import hpatches_v1_rules
from .retrieval.compare import TOP_K, PatchPool
from .retrieval.score import query_values

Ints = NDArray[np.int64]
EXACT = hpatches_v1_rules("exact")
Part = tuple[Ints, Floats, Floats | None]
"""Rows of a benchmark, their scores and their confidence."""


def _cases(
    records: Sequence[Records],
    scene: str,
    part: Callable[[Records, int], Part],
    words: Callable[[Records, int], str],
) -> Cases | None:
    """The parts of all benchmarks that have a scene, one after another."""
    named = sorted(records, key=lambda r: str(r.meta["benchmark"]))
    found: list[tuple[int, Part]] = []
    for number, r in enumerate(named):
        if scene in r.meta["scenes"]:
            found.append((number, part(r, r.meta["scenes"].index(scene))))
    if not found:
        return None
    keys = np.concatenate([number * SHIFT + rows for number, (rows, _, _) in found])
    score = np.concatenate([value for _, (_, value, _) in found])
    sure = [c for _, (_, _, c) in found if c is not None]

    def label(key: str) -> str:
        number, row = parse_case_key(key)
        return f"{words(named[number], row)}, {named[number].meta['benchmark']}"

    return Cases(keys, score, np.concatenate(sure) if len(sure) == len(found) else None, label)


def matching_cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Reference patches in every image; how probably the nearest one is right."""

    def part(r: Records, number: int) -> Part:
        own = np.flatnonzero(np.asarray(r.meta["pair_scenes"])[r["pair"]] == number)
        d1, d2 = neighbour_distances(r, EXACT)
        return own, validity(r, EXACT)[own], ratio_of(d1[own], d2[own], squared=r.meta["squared"])

    def words(r: Records, row: int) -> str:
        pair = int(r["pair"][row])
        return f"patch {row - int(np.searchsorted(r['pair'], pair))} in {r.meta['pairs'][pair][1]}"

    return _cases(records, scene, part, words)


def classification_cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Pairs whose first patch is of the sequence; the share of the other kind of pair on the right side."""

    def part(r: Records, number: int) -> Part:
        own = np.flatnonzero(r["scene_a"] == number)
        distance, label = np.asarray(r["distance"]), np.asarray(r["label"], bool)
        same = label[own]
        value = np.empty(len(own))
        value[same] = side_shares(distance[own[same]], np.sort(distance[~label]), nearer=True)
        value[~same] = side_shares(distance[own[~same]], np.sort(distance[label]), nearer=False)
        return own, value, None

    def words(r: Records, row: int) -> str:
        return f"{'same patch' if r['label'][row] else 'different patches'}, pair {row}"

    return _cases(records, scene, part, words)


def retrieval_cases(records: Sequence[Records], scene: str) -> Cases | None:
    """Queries of the sequence; average precision of the first 50, the same patch is right."""

    def part(r: Records, number: int) -> Part:
        own = np.flatnonzero(r["scene"] == number)
        few = Records(r.kind, {name: column[own] for name, column in r.columns.items()}, r.meta)
        return own, query_values(few, "map_patch", EXACT), None

    def words(r: Records, row: int) -> str:
        query = int(r["query"][row])
        image = int(np.searchsorted(r.meta["pool_starts"], query, side="right")) - 1
        return f"patch {query - r.meta['pool_starts'][image]} of {r.meta['pool_images'][image]}"

    return _cases(records, scene, part, words)


def replay_match(content: Any, row: int, features: Features | None) -> QueryCase:
    """A reference patch among the patches of the other image."""
    benchmark, truth = content
    ends = np.cumsum([len(t.target) for t in truth])
    pair = int(np.searchsorted(ends, row, side="right"))
    a, b = (item_key(name) for name in benchmark.pairs[pair])
    patch = row - int(ends[pair]) + len(truth[pair].target)
    right = int(truth[pair].target[patch])
    query = f"{a}#{patch}"
    if features is None:
        return QueryCase(query, (), (Candidate(f"{b}#{right}", None, None, True),))
    values = distances_to(features, a, patch, [(b, None)])
    chosen, rights = nearest_candidates(
        values, [right], f"{b}#{{}}".format, squared=features.distance == "l2"
    )
    return QueryCase(query, chosen, rights, first_share(values, [right]))


def replay_pair(pairs: LabelledPairs, row: int, features: Features | None) -> QueryCase:
    """A pair of patches."""
    table = pairs.pairs
    images = [table.images[int(of[row])] for of in (table.image_a, table.image_b)]
    items = item_key(images[0]), item_key(images[1])
    rows = int(table.index_a[row]), int(table.index_b[row])
    pictures = [f"{item}#{patch}" for item, patch in zip(items, rows, strict=True)]
    return pair_answer(items, rows, pictures, bool(pairs.labels[row]), features)


def replay_retrieval(pool: PatchPool, row: int, features: Features | None) -> QueryCase:
    """A query among all other patches of its pool."""
    names = [item_key(name) for name in pool.benchmark.pool]

    def picture(place: int) -> str:
        image = int(np.searchsorted(pool.starts, place, side="right")) - 1
        return f"{names[image]}#{place - int(pool.starts[image])}"

    own = int(pool.query[row])
    truth = [int(t) for t in pool.truth[pool.offsets[row] : pool.offsets[row + 1]]]
    if features is None:
        return QueryCase(picture(own), (), tuple(Candidate(picture(t), None, None, True) for t in truth))
    image = int(np.searchsorted(pool.starts, own, side="right")) - 1
    values = distances_to(features, names[image], own - int(pool.starts[image]), [(n, None) for n in names])
    values[own] = np.inf  # the query is in the pool, and no answer
    chosen, right = nearest_candidates(values, truth, picture, squared=features.distance == "l2")
    labels = np.isin(np.arange(len(values)), truth)
    most = min(len(truth), TOP_K)
    score = average_precision(values, labels, normaliser=most, cutoff=TOP_K) if truth else None
    return QueryCase(picture(own), chosen, right, score)
