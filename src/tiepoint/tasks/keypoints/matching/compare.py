# SPDX-License-Identifier: BSD-3-Clause
"""Records of `keypoints/matching`: nearest neighbours between keypoint locations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.records import Features, Records
from ....geometry.correspondence import ANSWERED, OUT_OF_VIEW, Answers, Locations, answers, locations
from ....kernels import first_two, nearest, value_table
from ..bojanic import bojanic_kind, bojanic_rows, drawn_queries, is_nearest, nearest_rows, reference_of
from ..data import ColumnBuilder, ComparedFeatures, OpenKeypoints
from ..neighbours import query_rows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_BLOCK = 128
MAX_WRONG_EXAMPLES = 12
CELL_PX = 8
"""Size of a grid cell in pixels. Different methods detect different keypoints; those in one cell count as
equal.
"""


def first_neighbours(
    source: ComparedFeatures,
    places: Locations,
    target: ComparedFeatures,
    spots: Locations,
    queries: Ints,
    right_query: Ints,
    right_target: Ints,
    *,
    distance: str,
) -> tuple[Floats, Floats]:
    """Return the smallest descriptor distance of each query, and the probability that the match is correct.

    Args:
        source: Features of the query image.
        places: Distinct keypoint locations of the query image.
        target: Features of the target image.
        spots: Distinct keypoint locations of the target image.
        queries: (q,) distinct indices of query locations.
        right_query: (r,) query location of each correct answer. Other locations are ignored.
        right_target: (r,) target location of each correct answer.
        distance: Name of the distance.

    Returns:
        distance (q,), infinite without a valid descriptor in either image, and probability (q,) in [0, 1]. If
            several locations are equally near, the probability is the share of correct locations among them.
    """
    found, chance = np.full(len(queries), np.inf), np.zeros(len(queries))
    rows, asked, step = query_rows(source, places, queries)
    rows_p = np.flatnonzero(target.valid)
    if len(rows_p) == 0 or len(rows) == 0:
        return found, chance
    pool = np.ascontiguousarray(target.values[rows_p])
    # Squared values decide ties: a square root may round two of them to one number.
    near = first_two(source.values[rows], pool, distance=distance, squared=distance == "l2")
    best = np.minimum.reduceat(near.d1, step)
    found[asked] = np.sqrt(best) if distance == "l2" else best
    owner = np.repeat(np.arange(len(asked)), np.diff(np.append(step, len(rows))))
    at_best = near.d1 == best[owner]
    ties = np.bincount(owner, weights=at_best * near.ties, minlength=len(asked))
    right = np.unique(right_query.astype(np.int64) * len(spots.xy) + right_target)
    one = np.flatnonzero(at_best & (ties[owner] == 1))
    spot = spots.of[rows_p[near.index[one]]]
    hit = np.isin(queries[asked[owner[one]]] * len(spots.xy) + spot, right)
    chance[asked[owner[one]]] = hit
    tied = np.flatnonzero(ties > 1)
    for i in range(0, len(tied), _BLOCK):
        block = tied[i : i + _BLOCK]
        take = np.isin(owner, block)
        chance[asked[block]] = _share_right(
            source.values[rows[take]], owner[take], pool, spots.of[rows_p], queries[asked[block]], right,
            len(spots.xy), distance,
        )  # fmt: skip
    return found, chance


def _share_right(
    values: Any, owner: Ints, pool: Any, spot_of: Ints, queries: Ints, right: Ints, width: int, distance: str
) -> Floats:
    """Return, for each query, the share of correct locations among those at the smallest distance.

    `values` must be sorted by `owner`.
    """
    tile = value_table(np.ascontiguousarray(values), pool, distance=distance)
    starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
    near = np.minimum.reduceat(tile, starts, axis=0)
    at_best = near == near.min(axis=1, keepdims=True)
    tied = np.zeros((len(queries), width), bool)
    row, column = np.nonzero(at_best)
    tied[row, spot_of[column]] = True
    # There are few correct answers: look each up in the table.
    asked, target = np.divmod(right, width)
    place = np.searchsorted(np.sort(queries), asked)
    order = np.argsort(queries, kind="stable")
    place = np.minimum(place, len(queries) - 1)
    mine = queries[order[place]] == asked
    hits = tied[order[place[mine]], target[mine]]
    count = np.bincount(order[place[mine]], weights=hits, minlength=len(queries))
    return np.asarray(count / tied.sum(axis=1), np.float64)


def wrong_examples(
    source: ComparedFeatures,
    places: Locations,
    target: ComparedFeatures,
    found: Answers,
    seen: NDArray[np.int64],
    right: NDArray[np.float64],
    *,
    distance: str,
) -> list[list[float]]:
    """Return up to twelve wrong matches of a pair: x and y of the query, the true position and the match.

    Only queries with a correct answer in the target image are returned. Grid cells are visited in the same
    order for all methods and images, so that methods with the same failure show the same region.

    Args:
        source: Features of the query image.
        places: Distinct keypoint locations of the query image.
        target: Features of the target image.
        found: Correct answers of the locations.
        seen: (q,) query locations.
        right: (q,) probability that the nearest neighbour is correct.
        distance: Name of the distance.
    """
    wrong = seen[(found.status[seen] == ANSWERED) & (right == 0)]
    first = np.full(len(places.xy), -1, np.int64)
    usable = np.flatnonzero(source.valid)[::-1]
    first[places.of[usable]] = usable
    wrong = wrong[first[wrong] >= 0]
    pool = np.flatnonzero(target.valid)
    if not len(wrong) or not len(pool):
        return []
    cell = np.floor(places.xy[wrong] / CELL_PX).astype(np.int64)
    chosen = wrong[
        np.argsort((cell[:, 0] * 7919 + cell[:, 1] * 104729) % 9973, kind="stable")[:MAX_WRONG_EXAMPLES]
    ]
    answer = nearest(source.values[first[chosen]], target.values[pool], 1, distance=distance)
    given = target.xy[pool[answer.index[:, 0]]]
    table = np.column_stack([places.xy[chosen], found.projected[chosen], given])
    return [[round(float(v), 1) for v in row] for row in table]


def wrong_answers(records: Sequence[Records]) -> Iterator[tuple[str, str, str]]:
    """Yield wrong matches (query, correct answer, method's answer), each as ``SCENE/IMAGE@x,y``.

    The coordinates of the query and of the correct answer are rounded to the centre of their grid cell.
    """
    for r in records:
        scene = r.meta["scene"]
        for pair in r.meta["pairs"]:
            for qx, qy, tx, ty, gx, gy in pair.get("wrong", ()):
                query = f"{scene}/{r.meta['first']}@{_middle(qx)},{_middle(qy)}"
                right = f"{scene}/{pair['image']}@{_middle(tx)},{_middle(ty)}"
                yield query, right, f"{scene}/{pair['image']}@{gx:.0f},{gy:.0f}"


def _middle(value: Any) -> int:
    return int(value // CELL_PX) * CELL_PX + CELL_PX // 2


def _growing() -> ColumnBuilder:
    return ColumnBuilder(iteration=np.int16, image=np.int16, distance=np.float64, right=np.float64)


def compare_bojanic(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """Match the sampled queries to their nearest descriptors in every target image.

    A match is correct if no other target keypoint is closer to the true position.
    """
    _, *others = opened.sequences.images(scene)
    reference = reference_of(opened, scene, features)
    made, candidates = _growing(), []
    for number, k in enumerate(others):
        target = bojanic_rows(features, f"{scene}/{k}")
        candidates.append(len(target.usable))
        for iteration in range(opened.options.iterations):
            chosen = drawn_queries(opened, scene, reference, iteration)
            if len(chosen) and len(target.usable):
                index, distance = nearest_rows(reference.rows.values[chosen], target, features.distance)
                right = is_nearest(reference.projected[k][chosen], target.xy, index)
                made.add(iteration, number, distance, right)
    meta = {"scene": scene, "kind": bojanic_kind(scene), "images": others, "candidates": candidates}
    return Records("pair", made.columns(), meta)


def compare_exact(opened: OpenKeypoints, scene: str, features: Features) -> Records:
    """Match every co-visible query location to the nearest descriptor. A match within tau pixels is correct.

    All locations are used, without random sampling. `answered` in the metadata is the number of queries per
    target that have a correct answer. A failed descriptor has infinite distance, so its query counts as
    missed.
    """
    s, options = opened.sequences, opened.options
    first, *others = s.images(scene)
    source = opened.features_of(features, scene, first)
    places = locations(source.xy)
    made, pairs = _growing(), []
    for number, k in enumerate(others):
        target = opened.features_of(features, scene, k)
        spots = locations(target.xy)
        found = answers(
            s.homography(scene, k), places.xy, spots.xy, source_size=s.size(scene, first),
            target_size=s.size(scene, k), tau_px=options.tau_px,
        )  # fmt: skip
        seen = np.flatnonzero(found.status != OUT_OF_VIEW)
        distance, right = first_neighbours(
            source, places, target, spots, seen, found.query, found.target, distance=features.distance
        )
        made.add(0, number, distance, right)
        guesses = len(found.query) / max(len(spots.xy), 1)
        wrong = wrong_examples(source, places, target, found, seen, right, distance=features.distance)
        pairs.append({"image": k, "chance_right": guesses, "wrong": wrong, **found.counts()})
    meta = {"scene": scene, "kind": s.kind(scene), "first": first, "pairs": pairs}
    return Records("pair", made.columns(), meta)
