# SPDX-License-Identifier: BSD-3-Clause
"""Cases of a scene with their scores, and single recomputed cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Keys = NDArray[Any]
"""Integers or texts."""
WRONG_BELOW = 0.5
"""A case with a lower score counts as wrong."""


@dataclass(frozen=True)
class Cases:
    """Questions of one scene and the scores of one method, all (n,).

    `keys` are distinct numbers or names that identify a case for every method on this data; URLs contain
    them. `score` is 1 if correct and 0 if wrong, the average precision of a query, or the share correct of an
    image pair; NaN for none. `confidence` is the ratio of first and second distance, small where the method
    is sure; None if the task has none, NaN if a case has none. `description` returns the text of a key.

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
            raise ValueError(f"keys, score and confidence of cases differ in length: {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.keys)

    def label(self, i: int) -> str:
        """Return the case in row i, as text."""
        return self.description(str(self.keys[i]))

    def find(self, key: str) -> int | None:
        """Return the row of a key. None if there is none."""
        return row_of(self.keys, key)


def row_of(keys: Keys, key: str) -> int | None:
    """Return the row of a key. None if there is none: a key of a URL may be any text.

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
    """One candidate of a query: its picture, its distance, its rank, and whether it is right.

    `picture` is ``SEQUENCE/IMAGE#INDEX`` for a patch, ``SCENE/IMAGE@x,y`` for a place of an image. Rank 1 is
    the nearest; ties share the mean of their ranks, and a failed descriptor has none. The distance is that of
    the method (l2 is the root).
    """

    picture: str
    rank: float | None
    distance: float | None
    right: bool


@dataclass(frozen=True)
class QueryCase:
    """A recomputed query: its picture, its correct answers, and the method's choices, nearest first.

    `chosen` are the first candidates; `right` the correct ones with their ranks, in the order of the task.
    `score` follows from these ranks and should equal that of the records. `note` names anything unusual.
    """

    query: str
    chosen: Sequence[Candidate]
    right: Sequence[Candidate]
    score: float | None = None
    note: str = ""


@dataclass(frozen=True)
class DenseCase:
    """A recomputed flow between two images (h, w, 3) at the scale of the flow.

    `flow` (h, w, 2) lives on `source`, None if the method gave none; `truth` likewise.
    `points` and `true_points` (q, 2) are keypoints of the source and where they belong in the target,
    `estimated_points` where the flow takes them.
    """

    source: NDArray[np.uint8]
    target: NDArray[np.uint8]
    flow: NDArray[Any] | None
    truth: NDArray[Any] | None = None
    points: Floats | None = None
    true_points: Floats | None = None
    estimated_points: Floats | None = None


def pair_cases(shares: Iterable[tuple[str, float]], words: Callable[[str], str] = str) -> Cases:
    """Return pairs as cases with their share correct; the mean for a name that occurs twice.

    >>> cases = pair_cases([("b", 1.0), ("a", 0.25), ("b", 0.0)])
    >>> cases.keys.tolist(), cases.score.tolist()
    (['a', 'b'], [0.25, 0.5])
    """
    names, values = zip(*shares, strict=True) if (shares := list(shares)) else ((), ())
    keys, of = np.unique(np.array(names, np.str_), return_inverse=True)
    known = np.array(values, np.float64)
    return Cases(keys, np.bincount(of, weights=known, minlength=len(keys)) / np.bincount(of), None, words)


def ratio_of(d1: NDArray[Any], d2: NDArray[Any], *, squared: bool) -> Floats:
    """Return the first over second distance, (n,); 1 where both are 0, NaN where there is no second one.

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
    """Return the share of `others` (m,), ascending, on the correct side of each of `own`; ties count half.

    Same patches should be nearer than different ones (`nearer`), different ones farther. An infinite distance
    (a failed descriptor) is wrong for the same and correct for different ones.

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
    """Return at most `most` nearest candidates of a query, and the correct ones, with rank and distance.

    `values` (m,) decide the order (squared l2, else the distance itself) and are infinite where a descriptor
    failed. Equally near ones are listed by their number and share the mean of their ranks.

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

    `errors_px` (n,) are described by `measure`, None without ground truth. `F` maps points of
    image 0 to epipolar lines of image 1, `H` to points of it, if the ground truth has one. A missing image is
    None; its size (width, height) is known.
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
    """(n,), larger where the method is surer; 1 - d1/d2 of descriptors."""

    def __len__(self) -> int:
        return len(self.points0)
