# SPDX-License-Identifier: BSD-3-Clause
"""Keypoint matchers: nearest (`nn`) and mutual nearest neighbours (`mnn`), ratio test, user classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.hashing import permutation
from ...core.records import Arrays
from ...kernels import first_two, pair_distances
from ..identity import config_of
from ..user_code import UserObject, load_from_file

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Matches(NamedTuple):
    """Matched keypoints: row numbers (m,) in the first and second image, and descriptor distances."""

    first: Ints
    second: Ints
    distance: Floats


class FirstNeighbours(NamedTuple):
    """For each row `first`: its nearest row `second`, the two smallest distances, whether it is mutual."""

    first: Ints
    second: Ints
    d1: Floats
    d2: Floats
    mutual: NDArray[np.bool_]


def nearest_both_ways(
    a: NDArray[Any], b: NDArray[Any], rows_a: Ints, rows_b: Ints, *, distance: str
) -> FirstNeighbours:
    """Find the nearest descriptor in b for each row of a, and whether the two are mutual neighbours.

    `rows_a` and `rows_b` select the rows to compare. Ties go to the first row in `rows_b`, and in the reverse
    direction to the first in `rows_a`. Trap: with rows in file order, a constant descriptor matches row 0 to
    row 0, which may be correct. Pass rows in random order to break ties independently of the ground truth.
    The result is empty if `rows_a` or `rows_b` is.

    >>> x = np.array([[0.0], [5.0]])
    >>> nearest_both_ways(x, x[::-1] + 0.5, np.arange(2), np.arange(2), distance="l2").second.tolist()
    [1, 0]
    """
    if len(rows_a) == 0 or len(rows_b) == 0:
        none = np.empty(0, np.int64)
        return FirstNeighbours(none, none, np.empty(0), np.empty(0), np.empty(0, bool))
    x, y = np.ascontiguousarray(a[rows_a]), np.ascontiguousarray(b[rows_b])
    there = first_two(x, y, distance=distance)
    hit, where = np.unique(there.index, return_inverse=True)
    back = first_two(y[hit], x, distance=distance).index[where.reshape(-1)]
    mutual = back == np.arange(len(x))
    return FirstNeighbours(rows_a, rows_b[there.index], there.d1, there.d2, mutual)


def within_ratio(found: FirstNeighbours, ratio: float) -> NDArray[np.bool_]:
    """Return whether the distance ratio d1/d2 of each match is below `ratio`.

    False if there is no second candidate or if d2 is 0.

    >>> none = np.arange(3)
    >>> two = np.array([2.0, 0.0, np.inf])
    >>> within_ratio(FirstNeighbours(none, none, np.array([1.0, 0, 1]), two, none > 0), 0.8).tolist()
    [True, False, False]
    """
    return np.asarray(np.isfinite(found.d2) & (found.d1 < ratio * found.d2))


MATCHERS = ("mnn", "nn")
DEFAULT = "mnn"
REVISION = 1


@dataclass(frozen=True)
class ImageKeypoints:
    """Features of one image as a matcher receives them."""

    key: str
    keypoints: NDArray[np.float64]
    values: NDArray[Any]
    valid: NDArray[np.bool_]

    @property
    def xy(self) -> NDArray[np.float64]:
        """Keypoint positions (n, 2)."""
        return self.keypoints[:, :2]

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, key: str, arrays: Arrays) -> ImageKeypoints:
        """Build an instance from the arrays of a keypoint method."""
        values = np.asarray(arrays["values"])
        valid = np.asarray(arrays.get("valid", np.ones(len(values), bool)))
        return cls(key, np.asarray(arrays["keypoints"]), values, valid)


@dataclass(frozen=True)
class Matcher:
    """Matcher `name` (``nn``, ``mnn`` or ``FILE.py:CLASS``) with an optional ratio test d1/d2 < `ratio`.

    `mnn` returns mutual nearest neighbours only. The confidence of a match is 1 - d1/d2, where d2 is the
    distance of the second nearest neighbour in image 2. It is 0 if both distances are equal.
    """

    name: str = DEFAULT
    ratio: float | None = None
    own: UserObject | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Matcher:
        """Build a matcher from the parameters ``matcher`` and ``ratio`` of a specification."""
        name, ratio = given.get("matcher", DEFAULT), _ratio(given.get("ratio"))
        if name in MATCHERS:
            return cls(name, ratio)
        file, _, attribute = name.rpartition(":")
        if not file.endswith(".py"):
            raise UnknownNameError("matcher", name, [*MATCHERS, "FILE.py:CLASS"])
        if ratio is not None:
            raise InputError(
                f"`ratio` has no effect on {attribute}, which selects its matches itself; remove it or "
                "use nn or mnn"
            )
        made = load_from_file(file, attribute)()
        if not hasattr(made, "match"):
            raise InputError(f"{name}: match(features1, features2) is missing; add it to the class")
        return cls(name, None, made)

    @property
    def label(self) -> str:
        """Name in tables: ``matcher=mnn&ratio=0.8``."""
        shown = self.name.rpartition(":")[2]
        return f"matcher={shown}" + ("" if self.ratio is None else f"&ratio={self.ratio:g}")

    def config(self) -> tuple[dict[str, Any], str | None]:
        """Return the matcher's config, and why its matches cannot be cached (None if they can)."""
        if self.own is None:
            return {"matcher": self.name, "ratio": self.ratio, "revision": REVISION}, None
        config, why = config_of(self.own, distance="", device="cpu", on_bad="error")
        return {"matcher": config, "revision": REVISION}, why

    def match(
        self, a: ImageKeypoints, b: ImageKeypoints, *, distance: str
    ) -> tuple[Matches, NDArray[np.float64] | None]:
        """Return the row numbers of matching keypoints, and their confidence if known."""
        if self.own is not None:
            return user_matches(self.own, self.name, a, b, distance=distance), None
        rows = [np.flatnonzero(side.valid) for side in (a, b)]
        # in random order, because in file order the first of several tied rows is often the correct one
        rows = [r[permutation(len(r), "ties", side.key)] for r, side in zip(rows, (a, b), strict=True)]
        found = nearest_both_ways(a.values, b.values, *rows, distance=distance)
        keep = found.mutual if self.name == "mnn" else np.ones(len(found.first), bool)
        if self.ratio is not None:
            keep = keep & within_ratio(found, self.ratio)
        order = np.argsort(found.first[keep], kind="stable")
        first, second = found.first[keep][order], found.second[keep][order]
        d1, d2 = found.d1[keep][order], found.d2[keep][order]
        confidence = 1.0 - np.divide(d1, d2, out=np.ones(len(d1)), where=d2 > 0)
        return Matches(first, second, d1), confidence


def _ratio(text: str | None) -> float | None:
    if text is None or text.lower() == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not 0 < value <= 1:
        raise InputError(f"`ratio` is {text!r}; expected a number above 0 and at most 1, as in ratio=0.8")
    return value


def user_matches(matcher: Any, text: str, a: Any, b: Any, *, distance: str) -> Matches:
    """Return the matches that a user's matcher finds.

    `match` receives the features of both images (``.xy`` (n, 2), ``.values`` (n, d), ``.valid`` (n,)) and
    returns pairs of row numbers (m, 2), or (pairs, distances). Without distances, descriptor distances are
    computed. Row numbers that do not exist raise `InputError`.
    """
    made: Any = matcher.match(a, b)
    pairs, given = made if isinstance(made, tuple) else (made, None)
    rows = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    limit = np.array([len(a), len(b)])
    if len(rows) and ((rows < 0).any() or (rows >= limit).any()):
        bad = int(np.argmax(((rows < 0) | (rows >= limit)).any(axis=1)))
        raise InputError(
            f"{text}: match {bad} has rows {rows[bad].tolist()}, but there are {limit.tolist()} "
            "keypoints; return row numbers of keypoints"
        )
    first, second = np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1])
    if given is None:
        values = np.ascontiguousarray(a.values), np.ascontiguousarray(b.values)
        return Matches(first, second, pair_distances(*values, first, second, distance=distance))
    apart = np.asarray(given, np.float64).reshape(-1)
    if len(apart) != len(rows):
        raise InputError(f"{text}: {len(apart)} distances for {len(rows)} matches; return one per match")
    return Matches(first, second, apart)
