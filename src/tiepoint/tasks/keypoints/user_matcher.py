# SPDX-License-Identifier: BSD-3-Clause
"""A user's matcher: a class in a file with ``match(features1, features2)``."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...kernels import pair_distances
from ...methods.identity import config_of
from ...methods.sources import source_hash
from ...methods.user_code import UserFactory, load_from_file
from ...model.errors import InputError
from ...model.hashing import hash_json
from .matchers import Matches
from .opened import ImageFeatures


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
