# SPDX-License-Identifier: BSD-3-Clause
"""Score camera poses of a reconstruction, from arrays or files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..datasets.reconstructions.poses import PoseBuilder, Poses
from ..datasets.reconstructions.scenes import (
    EstimatedScene,
    check_truth,
    read_estimates,
    read_truth,
    true_scene,
)
from ..tasks.sfm.compare import scene_records
from ..tasks.sfm.poses.task import TASK
from .inputs import check_protocol
from .result import Result, score_records

_HEADLINES = {
    "colmap-absolute": "absolute_auc",
    "imc2021": "maa",
    "imc2023": "maa",
    "imc2024": "maa",
    "imc2025": "maa_clusterness",
    "evo": "ape_translation",
}
Images = Mapping[str, Any]


def reconstruction(
    models: str | Path | Images | Sequence[Images],
    truth: str | Path | Images,
    *,
    outliers: Sequence[str] = (),
    components: Mapping[str, int] | None = None,
    protocol: str = "exact",
    **options: Any,
) -> Result:
    """Score the poses of a reconstruction, as `sfm/poses` does.

    Poses are world to camera, x_camera = R x_world + t.

    Args:
        models: A file or folder of results; or poses (4, 4) or (3, 4) by image name; or a list of such
            mappings, one per model.
        truth: A file or folder of true poses; or poses by image name.
        outliers: Images that belong to no part of the scene. Only for poses by name.
        components: Number of the scene part that each true image belongs to. Only for poses by name.
        protocol: ``exact`` or the protocol of another benchmark, such as ``colmap`` or ``imc2024``.
        **options: Options of the task: ``position_accuracy``, ``absolute``, ``cluster``, ``scenes``.

    Returns:
        A `Result`. Its metric is `auc` up to 5 degrees for ``exact`` and ``colmap``. For other protocols it
        is the score of their benchmark. ``values`` has ``auc[threshold_deg=1]``, `registered` and others.
    """
    check_protocol("reconstruction", protocol, TASK.protocols)
    TASK.options.check_protocols("score.reconstruction", options, [protocol])
    if isinstance(truth, Mapping):
        scene = true_scene(
            "scene", [_poses("truth", truth)], outliers=tuple(outliers), components=components or {}
        )
        check_truth("score.reconstruction", [scene])
        opened = TASK.open_scenes([scene], options)
    elif outliers or components:
        raise InputError("score.reconstruction: outliers and components need true poses by image name")
    else:
        opened = TASK.open_scenes(read_truth(truth), options)
    if isinstance(models, str | Path):
        found = read_estimates(models, [s.name for s in opened.scenes])
    elif len(opened.scenes) > 1:
        raise InputError(
            f"score.reconstruction: the truth has {len(opened.scenes)} scenes; pass a folder of results, or "
            "select one with `scenes`"
        )
    else:
        listed = [models] if isinstance(models, Mapping) else list(models)
        made = tuple(_poses(f"model {i}" if len(listed) > 1 else "models", m) for i, m in enumerate(listed))
        found = {opened.scenes[0].name: EstimatedScene(made)}
    records = [
        scene_records(s, found[s.name], cluster=opened.options.cluster, absolute=opened.options.absolute)
        for s in opened.scenes
    ]
    return score_records(TASK, records, protocol, metric=_HEADLINES.get(protocol))


def _poses(what: str, images: Any) -> Poses:
    """Return the poses of a mapping. An image with None or a matrix of NaN has no pose."""
    place = Path(f"score.reconstruction: {what}")
    if not isinstance(images, Mapping):
        raise InputError(f"{place}: expected poses by image name, found {type(images).__name__}")
    found = PoseBuilder(place)
    for name, pose in images.items():
        matrix = np.asarray([] if pose is None else pose)
        if pose is None:
            found.add_missing(str(name))
        elif matrix.shape not in ((3, 4), (4, 4)) or matrix.dtype.kind not in "iuf":
            raise InputError(f"{place}: {name}: expected numbers (3, 4) or (4, 4), found {matrix.shape}")
        else:
            found.add_matrix(str(name), matrix[:3, :3], matrix[:3, 3])
    return found.build()
