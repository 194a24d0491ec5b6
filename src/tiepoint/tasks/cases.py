# SPDX-License-Identifier: BSD-3-Clause
"""Cases: single queries or image pairs with their scores, and the data to draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Keys = NDArray[Any]
"""Keys of cases: integers or texts."""
WRONG_BELOW = 0.5
"""Threshold: a case with a lower score counts as wrong."""


@dataclass(frozen=True)
class Cases:
    """Queries or image pairs of one scene and the scores of one method. All arrays have shape (n,).

    `keys` are distinct numbers or names. A key identifies the same case for every method on this data and is
    part of URLs. `score` is 1 or 0 for a correct or wrong answer, the average precision of a query, or the
    accuracy of an image pair. It is NaN if the case has no score. `confidence` is the ratio of first to
    second distance; a small ratio means that the method is confident. It is None if the task defines no
    confidence, and NaN for a case without a second distance. `description` returns a text for a key.

    >>> cases = Cases(np.array([4, 7]), np.array([1.0, 0.0]), None, lambda key: f"patch {key}")
    >>> cases.label(1), cases.find("7"), cases.find("8")
    ('patch 7', 1, None)
    """

    keys: Keys
    score: Floats
    confidence: Floats | None
    description: Callable[[str], str]

    def __post_init__(self) -> None:
        lengths = {
            len(self.keys),
            len(self.score),
            len(self.score if self.confidence is None else self.confidence),
        }
        if len(lengths) > 1:
            raise ValueError(f"keys, score and confidence must have equal lengths, found {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.keys)

    def label(self, i: int) -> str:
        """Return the description of the case in row i."""
        return self.description(str(self.keys[i]))

    def find(self, key: str) -> int | None:
        """Return the row of the case with a given key. None if no case has this key."""
        return row_of(self.keys, key)


def row_of(keys: Keys, key: str) -> int | None:
    """Return the row of a key, which may be any text from a URL. None if no case has this key.

    >>> row_of(np.array([5, 7]), "7"), row_of(np.array([5, 7]), "x"), row_of(np.array(["x"]), "x")
    (1, None, 0)
    """
    if keys.dtype.kind not in "iu":
        rows = np.flatnonzero(keys == key)
    elif key.isascii() and key.isdigit() and len(key) < 19:
        rows = np.flatnonzero(keys == int(key))
    else:
        return None
    return int(rows[0]) if len(rows) else None


@dataclass(frozen=True)
class Candidate:
    """One candidate of a query: its picture, distance, rank, and whether it is correct.

    `picture` is ``SEQUENCE/IMAGE#INDEX`` for a patch and ``SCENE/IMAGE@x,y`` for a position in an image. Rank
    1 has the smallest distance. Ties share the mean of their ranks. A failed descriptor has no rank.
    `distance` is the distance of the method; for l2 it is not squared.
    """

    picture: str
    rank: float | None
    distance: float | None
    right: bool


@dataclass(frozen=True)
class QueryCase:
    """Result of recomputing a query: its picture, its correct answers and its nearest candidates.

    `chosen` are the candidates of smallest distance, in ascending order. `right` are the correct candidates
    with their ranks, in the order of the task. `score` is computed from these ranks and should equal the
    score in the records. `note` describes anything unusual.
    """

    query: str
    chosen: Sequence[Candidate]
    right: Sequence[Candidate]
    score: float | None = None
    note: str = ""


@dataclass(frozen=True)
class DenseCase:
    """Result of recomputing a flow between two images (h, w, 3), at the resolution of the flow.

    `flow` (h, w, 2) is defined on the pixels of `source`. It is None if the method returned no flow. `truth`
    is the true flow in the same layout. `points` (q, 2) are keypoints of the source, `true_points` (q, 2)
    their true positions in the target, and `estimated_points` (q, 2) their positions according to `flow`.
    """

    source: NDArray[np.uint8]
    target: NDArray[np.uint8]
    flow: NDArray[Any] | None
    truth: NDArray[Any] | None = None
    points: Floats | None = None
    true_points: Floats | None = None
    estimated_points: Floats | None = None


def pair_cases(shares: Iterable[tuple[str, float]], words: Callable[[str], str] = str) -> Cases:
    """Return image pairs as cases scored by accuracy. The values of a repeated name are averaged.

    `shares` are (name, accuracy); `words` returns the description of a name.

    >>> cases = pair_cases([("b", 1.0), ("a", 0.25), ("b", 0.0)])
    >>> cases.keys.tolist(), cases.score.tolist()
    (['a', 'b'], [0.25, 0.5])
    """
    names, values = zip(*shares, strict=True) if (shares := list(shares)) else ((), ())
    keys, of = np.unique(np.array(names, np.str_), return_inverse=True)
    known = np.array(values, np.float64)
    return Cases(keys, np.bincount(of, weights=known, minlength=len(keys)) / np.bincount(of), None, words)


def ratio_of(d1: NDArray[Any], d2: NDArray[Any], *, squared: bool) -> Floats:
    """Return the ratio (n,) of first to second distance.

    The ratio is 1 if both distances are 0, and NaN if there is no second distance.

    >>> ratio_of(np.array([1.0, 0.0, 2.0]), np.array([4.0, 0.0, np.inf]), squared=True).tolist()
    [0.5, 1.0, nan]
    """
    one, two = np.asarray(d1, np.float64).ravel(), np.asarray(d2, np.float64).ravel()
    found = np.full(len(one), np.nan)
    known = np.isfinite(one) & np.isfinite(two)
    found[known] = 1.0
    np.divide(one, two, out=found, where=known & (two > 0))
    return np.sqrt(found) if squared else found


def side_shares(own: NDArray[Any], others: NDArray[Any], *, nearer: bool) -> Floats:
    """For each distance in `own`, return the share of `others` on its correct side.

    Use it to score pairs of patches: pairs of the same patch should have smaller distances than pairs of
    different patches. With `nearer`, `own` are pairs of the same patch, and larger distances in `others` (m,)
    count. Otherwise `own` are pairs of different patches, and smaller distances count. Ties count half.
    `others` must be in ascending order. An infinite distance (a failed descriptor) is wrong for pairs of the
    same patch and correct for pairs of different patches.

    >>> side_shares(np.array([1.0, 3.0, np.inf]), np.array([1.0, 2.0]), nearer=True).tolist()
    [0.75, 0.0, 0.0]
    """
    values = np.asarray(own, np.float64)
    order = np.argsort(values)
    low, high = np.empty(len(values)), np.empty(len(values))
    low[order] = np.searchsorted(others, values[order], "left")
    high[order] = np.searchsorted(others, values[order], "right")
    below = (low + high) / (2.0 * max(len(others), 1))
    return np.where(np.isinf(values), 0.0, 1.0 - below) if nearer else np.where(np.isinf(values), 1.0, below)


def nearest_candidates(
    values: NDArray[Any], right: Sequence[int], picture: Callable[[int], str], *, squared: bool, most: int = 5
) -> tuple[tuple[Candidate, ...], tuple[Candidate, ...]]:
    """Return the nearest candidates of a query and all correct candidates, with rank and distance.

    `most` limits the number of nearest candidates. `values` (m,) determine the order: squared distances for
    l2, distances otherwise, and infinity for failed descriptors. `right` are the indices of the correct
    candidates. Tied candidates are listed by index and share the mean of their ranks.

    >>> near, rights = nearest_candidates(np.array([4.0, 1.0, 1.0]), [0], "p#{}".format, squared=True, most=1)
    >>> near[0].picture, near[0].rank, rights[0].rank, rights[0].distance
    ('p#1', 1.5, 3.0, 2.0)
    """
    table = np.asarray(values, np.float64)
    wanted = frozenset(right)
    few = np.argpartition(table, most)[:most] if len(table) > most else np.arange(len(table))
    at = table[few].max(initial=-np.inf)
    first = np.flatnonzero(table <= at)
    first = first[np.argsort(table[first], kind="stable")][:most]

    def answer(row: int) -> Candidate:
        value = table[row]
        if not np.isfinite(value):
            return Candidate(picture(row), None, None, row in wanted)
        rank = np.count_nonzero(table < value) + (np.count_nonzero(table == value) + 1) / 2
        distance = float(np.sqrt(value) if squared else value)
        return Candidate(picture(row), float(rank), distance, row in wanted)

    chosen = tuple(answer(int(row)) for row in first if np.isfinite(table[row]))
    return chosen, tuple(answer(int(row)) for row in right)


Image = NDArray[np.uint8]
Size = tuple[int, int]


@dataclass(frozen=True)
class MatchedPair:
    """Matches of two images: `points0`, `points1` (n, 2) in pixels, first pixel's centre at (0, 0).

    `measure` describes what the errors `errors_px` (n,) measure; they are None without ground truth. `F` maps
    points of image 0 to epipolar lines in image 1. `H` maps points of image 0 to points of image 1. Each of F
    and H is None if the ground truth does not define it. If an image file is missing, the image is None and
    its size (width, height) is still known.
    """

    name: str
    images: tuple[Image | None, Image | None]
    sizes: tuple[Size, Size]
    points0: Floats
    points1: Floats
    errors_px: Floats | None = None
    measure: str = ""
    F: Floats | None = None
    H: Floats | None = None
    confidence: Floats | None = None
    """Confidence (n,) of the matches, larger is better. For descriptors it is 1 - d1/d2."""

    def __len__(self) -> int:
        return len(self.points0)
