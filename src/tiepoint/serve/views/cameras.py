# SPDX-License-Identifier: BSD-3-Clause
"""The page with the cameras and points of one reconstructed scene, to turn and zoom."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...core.formatting import count_text
from ...report.figures.cameras import pyramid, visible_points
from ...report.runs.scene_views import run_views, scenes_of
from ...tasks.scene_views import SceneView
from .. import params
from ..rendering import page
from ..run_index import RunIndex


def cameras_page(library: RunIndex, request: Request) -> Response:
    """Return the page of one scene."""
    shelf = library.snapshot()
    run = params.run_param(shelf, request.path_params["run"])
    wanted = request.path_params["scene"]
    section, scenes = shelf.section_of(run), scenes_of(run)
    if wanted not in scenes:
        raise HTTPException(404, f"the run has no reconstruction of {wanted}; choose another scene")
    known = run_views(run, wanted)
    view = known.views[wanted]
    cameras = sum(len(m.cameras) for m in view.models)
    label = f"{count_text(cameras, 'estimated camera')}, {len(view.truth) or 'no'} true ones"
    return page(
        request,
        "cameras.html",
        title=f"cameras of {wanted}",
        run=run,
        name=run.method if section is None else section.names[run.id],
        scene=wanted,
        scenes=scenes,
        note=f"{view.note}, {label}",
        label=label,
        has_truth=bool(view.truth),
        worst=known.worst[wanted],
        data=json.dumps(scene_data(view), separators=(",", ":")),
    )


def scene_data(view: SceneView) -> dict[str, Any]:
    """Return the content of the picture as plain values, rounded to a thousandth of its size."""
    centres = view.centres
    cloud = np.concatenate([np.empty((0, 3)), *(visible_points(m.cloud) for m in view.models)])
    every = np.concatenate([centres, cloud])
    middle = np.median(every, axis=0) if len(every) else np.zeros(3)
    extent = float(np.quantile(np.linalg.norm(every - middle, axis=1), 0.95)) if len(every) else 1.0
    digits = max(0, 3 - int(np.floor(np.log10(extent or 1.0))))
    size = 0.05 * (extent or 1.0)

    def rounded(values: Any) -> list[Any]:
        return np.round(np.asarray(values, np.float64), digits).tolist()

    def plain(cameras: Sequence[Any]) -> list[dict[str, Any]]:
        return [
            {"name": c.name, "centre": rounded(c.centre), "corners": rounded(pyramid(c, size))}
            for c in cameras
        ]

    return {
        "middle": rounded(middle),
        "extent": extent or 1.0,
        "points": rounded(cloud),
        "truth": plain(view.truth),
        "estimate": plain([c for m in view.models for c in m.cameras]),
    }
