# SPDX-License-Identifier: BSD-3-Clause
"""Matches between the keypoints of two images: nearest neighbour, mutual, ratio test, the user's own.

Rows are put in a random order first, so that the "first of equals" of a tie is a random one: with rows in
file order a constant descriptor would match row 0 to row 0, which is right in projected keypoint sets.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...kernels import first_two, pair_distances
from ...methods.identity import config_of
from ...methods.sources import source_hash
from ...methods.user_code import UserFactory, load_from_file
from ...model.errors import InputError
from ...model.hashing import hash_json
from .distractors import permutation
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


def select(found: Neighbours, matcher: str, *, ratio: float = 0.8, single: bool = False) -> Matches:
    """The matches a matcher keeps.

    `nn` keeps all first neighbours, `mutual` those that choose each other, `ratio` those with d1/d2 strictly
    below the ratio (a lone candidate has no second distance and is rejected; two zeros are a tie). With
    `single` distances, their quotient and the ratio are float32, as in OpenCV programs: a quotient that is
    the ratio in exact numbers may then pass.
    """
    if matcher == "mutual":
        keep = found.mutual
    elif matcher == "ratio":
        keep = np.isfinite(found.d2) & _below(found.d1, found.d2, ratio, single)
    else:
        keep = np.ones(len(found.first), bool)
    return Matches(found.first[keep], found.second[keep], found.d1[keep])


def _below(d1: Floats, d2: Floats, ratio: float, single: bool) -> NDArray[np.bool_]:
    if not single:
        return np.asarray(d1 < ratio * d2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(d1.astype(np.float32) / d2.astype(np.float32) < np.float32(ratio))


def is_matcher(text: str | None) -> bool:
    """Whether a text names a class in a Python file, ``my.py:Class``."""
    return text is not None and text.rpartition(":")[0].endswith(".py")


def matcher_hash(text: str | None) -> str | None:
    """Hash of the source and settings of a matcher, None for one of ours: a change is another comparison."""
    if text is None or not is_matcher(text):
        return None
    file, _, name = text.rpartition(":")
    config, _ = config_of(load_from_file(file, name)(), distance="", device="cpu", on_bad="error")
    return hash_json(config)


@lru_cache(maxsize=8)
def _factory(file: str, name: str, source: str) -> UserFactory:
    """What makes the matcher; loaded once, and again when its source has changed."""
    return load_from_file(file, name)


def user_matches(text: str, a: ImageFeatures, b: ImageFeatures, *, distance: str) -> Matches:
    """Matches by the user's class.

    `match` is given the features of both images (``.xy`` (n, 2), ``.values`` (n, d), ``.valid`` (n,)) and
    returns index pairs (m, 2), or (pairs, distances). Without distances those of the descriptors are taken.
    Rows that do not exist are an `InputError`.
    """
    file, _, name = text.rpartition(":")
    matcher = _factory(file, name, source_hash(Path(file)))()
    if not hasattr(matcher, "match"):
        raise InputError(f"{text} has no match(features1, features2); a matcher needs it")
    made: Any = matcher.match(a, b)
    pairs, given = made if isinstance(made, tuple) else (made, None)
    rows = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    limit = np.array([len(a), len(b)])
    if len(rows) and ((rows < 0).any() or (rows >= limit).any()):
        bad = int(np.argmax(((rows < 0) | (rows >= limit)).any(axis=1)))
        raise InputError(f"{text}: match {bad} names rows {rows[bad].tolist()} of {limit.tolist()} keypoints")
    first, second = np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1])
    if given is None:
        values = np.ascontiguousarray(a.values), np.ascontiguousarray(b.values)
        return Matches(first, second, pair_distances(*values, first, second, distance=distance))
    apart = np.asarray(given, np.float64).reshape(-1)
    if len(apart) != len(rows):
        raise InputError(f"{text}: {len(rows)} matches and {len(apart)} distances; return one for each")
    return Matches(first, second, apart)
