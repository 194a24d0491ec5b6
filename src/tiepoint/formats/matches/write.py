# SPDX-License-Identifier: BSD-3-Clause
"""Write matches as HDF5 files in the layouts of hloc and glue-factory.

Points are float64. Extra datasets store what these layouts cannot express, so that tiepoint can read the
files without loss. Their names begin with ``tiepoint_``; other tools ignore them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.records import Arrays
from ..hdf5 import new_hdf5
from .source import EXPORTED, flat_name

FEATURES, MATCHES, PREDICTIONS = "features.h5", "matches.h5", "predictions.h5"
NamedPair = tuple[tuple[str, str], Arrays]
"""Names of both images of a pair, and its matches."""


class _ImagePoints:
    """Collector of the points of one image from all its pairs. A point in several pairs is stored once.

    Equal points of one pair remain separate, because each may have its own match.
    """

    def __init__(self) -> None:
        self.points: list[NDArray[np.float64]] = []
        self._known: dict[tuple[bytes, int], int] = {}

    def indices(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """Add the points of a pair. Return their indices in the collected points."""
        seen: Counter[bytes] = Counter()
        out = np.empty(len(points), np.int64)
        for i, point in enumerate(np.ascontiguousarray(points)):
            content = point.tobytes()
            place = content, seen[content]
            seen[content] += 1
            if place not in self._known:
                self._known[place] = len(self.points)
                self.points.append(point)
            out[i] = self._known[place]
        return out


def write_hloc_matches(folder: Path, pairs: Iterable[NamedPair]) -> None:
    """Write ``features.h5`` and ``matches.h5`` in the layout of hloc. Absent confidences become 1."""
    images: dict[str, _ImagePoints] = {}
    found = []
    for names, arrays in pairs:
        first, second = (
            images.setdefault(name, _ImagePoints()).indices(np.asarray(arrays[f"points{side}"], np.float64))
            for side, name in enumerate(names)
        )
        found.append((names, first, second, arrays.get("confidence"), _facts(arrays)))
    with new_hdf5(folder / FEATURES) as file:
        for name, own in images.items():
            file.create_group(name)["keypoints"] = np.array(own.points, np.float64).reshape(-1, 2)
    with new_hdf5(folder / MATCHES) as file:
        for names, first, second, confidence, facts in found:
            count = len(images[names[0]].points)
            partner, scores = np.full(count, -1, np.int32), np.zeros(count)
            partner[first] = second
            scores[first] = 1.0 if confidence is None else confidence
            group = file.create_group(f"{flat_name(names[0])}/{flat_name(names[1])}")
            group["matches0"], group["matching_scores0"] = partner, scores
            group[EXPORTED[0]], group[EXPORTED[1]] = first, facts


def write_glue_factory(folder: Path, pairs: Iterable[NamedPair]) -> None:
    """Write ``predictions.h5`` in the layout of glue-factory. Its keypoints are the matched points."""
    with new_hdf5(folder / PREDICTIONS) as file:
        for names, arrays in pairs:
            rows = np.arange(len(arrays["points0"]))
            group = file.create_group(f"{flat_name(names[0])}/{flat_name(names[1])}")
            for side in (0, 1):
                group[f"keypoints{side}"] = np.asarray(arrays[f"points{side}"], np.float64)
            group["matches0"] = rows
            if "confidence" in arrays:
                group["matching_scores0"] = np.asarray(arrays["confidence"], np.float64)
            group[EXPORTED[0]], group[EXPORTED[1]] = rows, _facts(arrays)


def _facts(arrays: Arrays) -> NDArray[np.int64]:
    """Return (keypoints of image 0, keypoints of image 1, has confidences). Unknown numbers are -1."""
    counts = [int(arrays[name][0]) if name in arrays else -1 for name in ("keypoints0", "keypoints1")]
    return np.array([*counts, "confidence" in arrays], np.int64)
