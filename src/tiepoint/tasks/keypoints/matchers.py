# SPDX-License-Identifier: BSD-3-Clause
"""Matches between the keypoints of two images: nearest neighbour, mutual, ratio test, the user's own.

Rows are put in a random order first, so that the "first of equals" of a tie is a random one: with rows in
file order a constant descriptor would match row 0 to row 0, which is right in projected keypoint sets.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.draws import permutation
from ...core.errors import InputError
from ...core.hashing import hash_json
from ...methods.identity import config_of
from ...methods.pairs.matchers import user_matches as matched_by
from ...methods.pairs.neighbours import FirstNeighbours, Matches, nearest_both_ways
from ...methods.source_files import source_hash
from ...methods.user_code import UserFactory, load_from_file
from .data import ComparedFeatures

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MATCHERS = ("mutual", "nn", "ratio")


def first_neighbours_mutual(
    a: ComparedFeatures, b: ComparedFeatures, *, distance: str, seed: int | None = None
) -> FirstNeighbours:
    """First neighbours from a to b, and whether each is mutual.

    Args:
        a: features of the first image.
        b: features of the second.
        distance: name of the distance.
        seed: of the random order that breaks ties; None keeps the order of the rows (lowest index first).

    Empty where a side has no valid row.
    """
    rows_a, rows_b = np.flatnonzero(a.valid), np.flatnonzero(b.valid)
    if seed is not None:
        rows_a = rows_a[permutation(len(rows_a), seed, "ties", a.key)]
        rows_b = rows_b[permutation(len(rows_b), seed, "ties", b.key)]
    return nearest_both_ways(a.values, b.values, rows_a, rows_b, distance=distance)


def select_matches(
    found: FirstNeighbours, matcher: str, *, ratio: float = 0.8, single: bool = False
) -> Matches:
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


def user_class_matches(text: str, a: ComparedFeatures, b: ComparedFeatures, *, distance: str) -> Matches:
    """Matches by the class ``FILE.py:CLASS`` of the user; what it is given and returns, see there."""
    file, _, name = text.rpartition(":")
    matcher = _factory(file, name, source_hash(Path(file)))()
    if not hasattr(matcher, "match"):
        raise InputError(f"{text} has no match(features1, features2); a matcher needs it")
    return matched_by(matcher, text, a, b, distance=distance)
