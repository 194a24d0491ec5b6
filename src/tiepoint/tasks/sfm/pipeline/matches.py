# SPDX-License-Identifier: BSD-3-Clause
"""Keypoints of the images of a scene, and matches between them as pairs of keypoint rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.errors import InputError
from ....core.hashing import hash_array, hash_json
from ....core.records import Arrays

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SceneMatches:
    """Keypoints (n, 2) of each image, and matched keypoint rows (m, 2) of each pair of images.

    In keypoints, the centre of the first pixel is (0, 0). `pairs` (p, 2) are indices of images, i < j.
    `seconds` are wall time and CPU time of matching, NaN if the method itself returned the matches.
    """

    keypoints: tuple[Floats, ...]
    pairs: Ints
    rows: tuple[Ints, ...]
    seconds: tuple[float, float] = (float("nan"), float("nan"))

    def check(self, where: str) -> None:
        """Raise an `InputError` if a match refers to a keypoint that does not exist.

        COLMAP would accept it.
        """
        for (i, j), rows in zip(self.pairs.tolist(), self.rows, strict=True):
            counts = np.array([len(self.keypoints[i]), len(self.keypoints[j])])
            bad = (rows < 0) | (rows >= counts)
            if bad.any():
                k = int(np.argmax(bad.any(axis=1)))
                raise InputError(
                    f"{where}: match {k} of images {i} and {j} has rows {rows[k].tolist()}, but there are "
                    f"{counts.tolist()} keypoints; correct the matcher"
                )

    def key(self) -> str:
        """Hash of keypoints and matches, part of cache keys."""
        arrays = [self.pairs, *self.keypoints, *self.rows]
        return hash_json([hash_array(np.ascontiguousarray(a)) for a in arrays])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the matches as arrays for the cache, without the keypoints."""
        return {
            "pairs": self.pairs,
            "counts": np.array([len(r) for r in self.rows], np.int64),
            "rows": np.concatenate([np.empty((0, 2), np.int64), *self.rows]),
            "seconds": np.array(self.seconds),
        }

    @classmethod
    def from_arrays(cls, keypoints: tuple[Floats, ...], arrays: Arrays) -> SceneMatches:
        """Build the matches from keypoints and the arrays of `to_arrays`."""
        rows = np.split(np.asarray(arrays["rows"]), np.cumsum(arrays["counts"])[:-1])
        wall, cpu = np.asarray(arrays["seconds"]).tolist()
        pairs = np.asarray(arrays["pairs"])
        return cls(keypoints, pairs, tuple(rows) if len(pairs) else (), (wall, cpu))


def unique_rows(rows: Ints) -> Ints:
    """Return matches (m, 2) without duplicates, sorted by the row in the first image.

    >>> unique_rows(np.array([[2, 1], [0, 3], [2, 1]])).tolist()
    [[0, 3], [2, 1]]
    """
    return np.unique(rows.reshape(-1, 2), axis=0) if len(rows) else np.empty((0, 2), np.int64)
