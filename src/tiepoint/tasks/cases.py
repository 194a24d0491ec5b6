# SPDX-License-Identifier: BSD-3-Clause
"""The cases of a scene, each with its score; and one case made again: what was asked, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """What was asked in one scene, and how well one method answered; all (n,).

    `keys` are different numbers, or different names, that say the same case for every method on this data;
    their text stands in addresses. `score` is 1 for a right answer and 0 for a wrong one, the average
    precision of a query that is scored so, the share right of a pair of images; NaN where a case has none.
    `confidence` is the ratio of first and second distance, small where the method is sure; None where the
    task has no such thing, NaN where a case has none. `words` say what a key is.

    >>> cases = Cases(np.array([4, 7]), np.array([1.0, 0.0]), None, lambda key: f"patch {key}")
    >>> cases.label(1), cases.find("7"), cases.find("8")
    ('patch 7', 1, None)
    """

    keys: Keys
    score: Floats
    confidence: Floats | None
    words: Callable[[str], str]

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
        """The case in row i, in words."""
        return self.words(str(self.keys[i]))

    def find(self, key: str) -> int | None:
        """Row of a key, None where there is none: keys of addresses may be anything."""
        if self.keys.dtype.kind in "iu":
            if not (key.isascii() and key.isdigit() and len(key) < 19):
                return None
            rows = np.flatnonzero(self.keys == int(key))
        else:
            rows = np.flatnonzero(self.keys == key)
        return int(rows[0]) if len(rows) else None


@dataclass(frozen=True)
class Answer:
    """One candidate of a query: its picture, its distance, its rank, and whether it is right.

    `picture` is ``SEQUENCE/IMAGE#INDEX`` for a patch, ``SCENE/IMAGE@x,y`` for a place of an image. Rank 1 is
    the nearest; of equally near ones the middle one counts for all, and a failed descriptor has none. The
    distance is that of the method as it names it (l2 is the root).
    """

    picture: str
    rank: float | None
    distance: float | None
    right: bool


@dataclass(frozen=True)
class Answered:
    """A query made again: its picture, its right answers, and what the method chose, nearest first.

    `chosen` are the first candidates, right or not; `right` the right ones with their ranks, in the order of
    the task. `score` is what these ranks make, to be held beside the records. `note` says what is odd.
    """

    query: str
    chosen: Sequence[Answer]
    right: Sequence[Answer]
    score: float | None = None
    note: str = ""
