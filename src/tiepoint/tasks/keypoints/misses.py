# SPDX-License-Identifier: BSD-3-Clause
"""Examples of wrong matches between keypoints: where the query was, should be found, and was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...geometry.correspondence import ANSWERED, Answers, Locations
from ...kernels import nearest
from ...model.records import Records
from .opened import ImageFeatures

MOST = 12
CELL_PX = 8
"""Methods detect at different places: queries of the same cell of the image count as the same."""


def wrong_examples(
    source: ImageFeatures,
    places: Locations,
    target: ImageFeatures,
    found: Answers,
    seen: NDArray[np.int64],
    right: NDArray[np.float64],
    *,
    distance: str,
) -> list[list[float]]:
    """Up to twelve wrong matches of an image pair: x, y of the query, of its true place, of the answer given.

    Only queries that could have been answered right. Cells are taken in an order that is the same for all
    methods and images, so that methods that fail in the same place show the same place.

    Args:
        source: features of the query image.
        places: its locations.
        target: features of the other image.
        found: right answers of the locations.
        seen: (q,) locations that were asked for.
        right: (q,) probability that the first neighbour was right.
        distance: name of the distance.
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
    chosen = wrong[np.argsort((cell[:, 0] * 7919 + cell[:, 1] * 104729) % 9973, kind="stable")[:MOST]]
    answer = nearest(source.values[first[chosen]], target.values[pool], 1, distance=distance)
    given = target.xy[pool[answer.index[:, 0]]]
    table = np.column_stack([places.xy[chosen], found.projected[chosen], given])
    return [[round(float(v), 1) for v in row] for row in table]


def misses(records: Sequence[Records]) -> Iterator[tuple[str, str, str]]:
    """(query, right answer, given answer) as ``SCENE/IMAGE@x,y``, query and right answer by cell."""
    for r in records:
        scene = r.meta["scene"]
        for pair in r.meta["pairs"]:
            for qx, qy, tx, ty, gx, gy in pair.get("wrong", ()):
                query = f"{scene}/{r.meta['first']}@{_middle(qx)},{_middle(qy)}"
                right = f"{scene}/{pair['image']}@{_middle(tx)},{_middle(ty)}"
                yield query, right, f"{scene}/{pair['image']}@{gx:.0f},{gy:.0f}"


def _middle(value: Any) -> int:
    return int(value // CELL_PX) * CELL_PX + CELL_PX // 2
