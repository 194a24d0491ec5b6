# SPDX-License-Identifier: BSD-3-Clause
"""Matches between the keypoints of two images: nearest neighbour, mutual, ratio test.

Rows are put in a random order first, so that the "first of equals" of a tie is a random one: with rows in
file order a constant descriptor would match row 0 to row 0, which is right in projected keypoint sets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...kernels import first_two
from .draws import permutation
from .opened import ImageFeatures

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MATCHERS = ("mutual", "nn", "ratio")


class Matches(NamedTuple):
    """Keypoint rows of the first and second image, (m,) each, and their distance."""

    first: Ints
    second: Ints
    distance: Floats


class Neighbours(NamedTuple):
    """First neighbours of the valid rows `first` (a,): row `second`, distances d1 and d2, and `mutual`."""

    first: Ints
    second: Ints
    d1: Floats
    d2: Floats
    mutual: NDArray[np.bool_]


def neighbours(a: ImageFeatures, b: ImageFeatures, *, distance: str, seed: int | None = None) -> Neighbours:
    """First neighbours from a to b, and whether each is mutual.

    Args:
        a: features of the first image.
        b: features of the second.
        distance: name of the distance.
        seed: of the random order that breaks ties; None keeps the order of the rows (lowest index first).

    Empty where a side has no valid row.
    """
    rows_a, rows_b = np.flatnonzero(a.valid), np.flatnonzero(b.valid)
    if len(rows_a) == 0 or len(rows_b) == 0:
        none = np.empty(0, np.int64)
        return Neighbours(none, none, np.empty(0), np.empty(0), np.empty(0, bool))
    if seed is not None:
        rows_a = rows_a[permutation(len(rows_a), seed, "ties", a.key)]
        rows_b = rows_b[permutation(len(rows_b), seed, "ties", b.key)]
    x, y = np.ascontiguousarray(a.values[rows_a]), np.ascontiguousarray(b.values[rows_b])
    there = first_two(x, y, distance=distance)
    hit, where = np.unique(there.index, return_inverse=True)
    back = first_two(y[hit], x, distance=distance).index[where.reshape(-1)]
    mutual = back == np.arange(len(x))
    return Neighbours(rows_a, rows_b[there.index], there.d1, there.d2, mutual)


def select(found: Neighbours, matcher: str, *, ratio: float = 0.8) -> Matches:
    """The matches a matcher keeps.

    `nn` keeps all first neighbours, `mutual` those that choose each other, `ratio` those with d1/d2 strictly
    below the ratio (a lone candidate has no second distance and is rejected; two zeros are a tie).
    """
    if matcher == "mutual":
        keep = found.mutual
    elif matcher == "ratio":
        keep = np.isfinite(found.d2) & (found.d1 < ratio * found.d2)
    else:
        keep = np.ones(len(found.first), bool)
    return Matches(found.first[keep], found.second[keep], found.d1[keep])
