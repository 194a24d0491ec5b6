# SPDX-License-Identifier: BSD-3-Clause
"""Records of a reconstruction: the poses as in `sfm/poses`, and what the pipeline reported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ....core.records import Records
from ....datasets.reconstructions.image_scenes import ImageScene, SceneCamera
from ....datasets.reconstructions.poses import Poses
from ....datasets.reconstructions.scenes import EstimatedScene, TrueScene
from ..compare import scene_records
from ..pipeline.mapping import MapperSettings, Reconstruction
from ..pipeline.matches import SceneMatches


def compare_reconstruction(
    scene: ImageScene,
    cameras: Mapping[str, SceneCamera],
    matches: SceneMatches,
    settings: MapperSettings,
    made: Reconstruction,
    *,
    cluster: str,
    absolute: str,
    merge_px: float | None,
    orientations: Mapping[str, int] | None = None,
) -> Records:
    """Return the records of one scene and seed. Without truth, images are numbered as in the first model.

    `orientations` has the EXIF orientation of each image that is not upright.
    """
    estimate = EstimatedScene(made.models, found=True)
    true = scene.truth or _without_truth(scene.name)
    records = scene_records(true, estimate, cluster=cluster, absolute=absolute)
    found = made.found
    inliers = found.get("inliers", [0] * len(matches.pairs))
    meta: dict[str, Any] = {
        **records.meta,
        "seed": settings.seed,
        "mapper": settings.mapper,
        "has_truth": scene.truth is not None,
        "images": list(cameras),
        "sources": sorted({c.source for c in cameras.values()}),
        "camera": [[c.model, list(c.size), list(c.params)] for c in dict.fromkeys(cameras.values())],
        "pairs": [
            [i, j, len(rows), int(n)]
            for (i, j), rows, n in zip(matches.pairs.tolist(), matches.rows, inliers, strict=True)
        ],
        "keypoints": [len(k) for k in matches.keypoints],
        "merge_px": merge_px,
        "orientations": dict(orientations or {}),
        "seconds": _seconds(matches, found),
        "peak_mib": float(found.get("peak_mib", 0.0)),
        "cloud": found.get("points", []),
        "options": found.get("options", ""),
        "failure": made.failure,
        "keys": dict(made.keys),
    }
    words = [] if scene.truth is None else [w for w in meta["warnings"] if made.models or "no regis" not in w]
    if made.failure:
        words.append(
            f"{scene.name}, seed {settings.seed}: {made.failure}; there is no model, so every pair is a miss"
        )
    elif not made.models:
        words.append(f"{scene.name}, seed {settings.seed}: COLMAP found no model; every pair is a miss")
    meta["warnings"] = words
    return Records(records.kind, records.columns, meta)


def _seconds(matches: SceneMatches, found: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the wall time and CPU time in seconds of each stage."""
    seconds = {stage: [float(s) for s in two] for stage, two in found.get("seconds", {}).items()}
    if math.isfinite(matches.seconds[0]):
        seconds["matching"] = list(matches.seconds)
    return seconds


def _without_truth(name: str) -> TrueScene:
    none = Poses((), np.empty((0, 4)), np.empty((0, 3)), np.empty(0, bool), name)
    return TrueScene(name, none, np.empty(0, np.int64))
