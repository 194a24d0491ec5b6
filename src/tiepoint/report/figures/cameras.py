# SPDX-License-Identifier: BSD-3-Clause
"""Draw the cameras and points of reconstructions, true and estimated, from above and from the side."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.formatting import count_text
from ...formats.csv_table import to_csv
from ...tasks.scene_views import Camera, SceneView
from ..runs.scene_views import run_views
from ..runs.sections import TaskSection
from .figure import Figure, short
from .svg import INK, PALETTE, Drawing

MAX_METHODS, MAX_SCENES = 4, 3
"""Maximum numbers of methods, and of scenes per method, that a report draws."""
TRUE, ESTIMATED = PALETTE[2], PALETTE[1]
_SIZE = 0.06
"""Length of a drawn camera as a share of the picture."""
_FAR, _REACH, _RARE = 1.6, 4.0, 0.03
"""Distance from the middle, in extents, up to which the axes show all cameras (`_FAR`) and points (`_REACH`).
`_RARE` is the share of points on each side that is not drawn."""

Floats = NDArray[np.float64]


def camera_figures(section: TaskSection) -> list[Figure]:
    """Return one figure per scene for each of the best methods. Empty without reconstructions."""
    found = []
    for run in section.methods[:MAX_METHODS]:
        known = run_views(run)
        for scene, view in list(known.views.items())[:MAX_SCENES]:
            found.append(_figure(section, view, section.names[run.id], run.id, known.worst[scene]))
    return found


def _figure(section: TaskSection, view: SceneView, method: str, run: str, worst: str) -> Figure:
    registered = sum(len(m.cameras) for m in view.models)
    models, true = count_text(len(view.models), "model"), len(view.truth)
    caption = f"{view.note}: {count_text(registered, 'estimated camera')} in {models}"
    caption += f", {true} true ones." if true else "; no truth."
    caption += f" Worst image: {worst.partition('the worst image is ')[2]}." if worst else ""
    drawing = Drawing(
        lambda axes: _draw(axes, view),
        label=f"cameras of {view.scene} by {method}",
        width=7.4,
        height=3.7,
        left=0.1,
        right=0.1,
        bottom=0.1,
        top=0.25,
    )
    return Figure(
        f"cameras {section.title} {run[:8]} {view.scene}",
        f"Cameras of {short(view.scene, 30)} by {short(method, 40)}.",
        caption,
        drawing,
        _csv(view),
        wide=True,
        kind="cameras",
        group=f"run={run[:8]},scene={view.scene}",
    )


def _csv(view: SceneView) -> str:
    rows = [["true", c.name, *c.centre.tolist()] for c in view.truth]
    rows += [[f"model {k}", c.name, *c.centre.tolist()] for k, m in enumerate(view.models) for c in m.cameras]
    return to_csv(["poses", "image", "x", "y", "z"], rows)


def _draw(axes: Any, view: SceneView) -> None:
    axes.set_axis_off()
    centres = view.centres
    if not len(centres):
        axes.text(0.5, 0.5, "no model", ha="center", va="center")
        return
    middle, extent = np.median(centres, axis=0), _extent(centres)
    for k, (title, across, up) in enumerate((("from above", 0, 1), ("from the side", 1, 2))):
        panel = axes.inset_axes((0.51 * k, 0.0, 0.48, 1.0))
        panel.set_axis_off()
        panel.set_aspect("equal", adjustable="box")
        panel.set_title(title, fontsize=8.5, loc="left", pad=2)
        _panel(panel, view, middle, extent, across, up)
    handles = [_handle(axes, TRUE, "true")] if view.truth else []
    handles += [_handle(axes, ESTIMATED, "estimated")] if any(m.cameras for m in view.models) else []
    axes.legend(handles=handles, loc="upper right", fontsize=8, ncols=2, borderaxespad=0.0)


def _handle(axes: Any, colour: str, label: str) -> Any:
    return axes.plot([], [], color=colour, linewidth=1.4, label=label)[0]


def _extent(centres: Floats) -> float:
    """Return the size of the picture: twice the distance of most cameras from their middle."""
    distance = np.linalg.norm(centres - np.median(centres, axis=0), axis=1)
    return 2 * float(np.quantile(distance, 0.8)) or 1.0


def _panel(panel: Any, view: SceneView, middle: Floats, extent: float, across: int, up: int) -> None:
    shown = view.centres
    shown = shown[np.linalg.norm(shown - middle, axis=1) < _FAR * extent]
    for model in view.models:
        cloud = visible_points(model.cloud)
        panel.plot(
            cloud[:, across], cloud[:, up], ".", color=INK, alpha=0.45, markersize=1.1,
            markeredgewidth=0, zorder=1, rasterized=True,
        )  # fmt: skip
        near = np.linalg.norm(cloud - middle, axis=1) < _REACH * extent
        shown = np.concatenate([shown, cloud[near]])
    true = {c.name: c for c in view.truth}
    for model in view.models:
        for camera in model.cameras:
            other = true.get(camera.name)
            if other is not None and model.aligned:
                ends = np.array([other.centre, camera.centre])
                panel.plot(ends[:, across], ends[:, up], color=ESTIMATED, linewidth=0.5, alpha=0.6, zorder=2)
    for camera in view.truth:
        _camera(panel, camera, extent, across, up, TRUE, 3, width=2.6)
    for model in view.models:
        for camera in model.cameras:
            _camera(panel, camera, extent, across, up, ESTIMATED, 4)
    low, high = shown[:, (across, up)].min(axis=0), shown[:, (across, up)].max(axis=0)
    pad = 0.1 * extent
    panel.set_xlim(low[0] - pad, high[0] + pad)
    panel.set_ylim(low[1] - pad, high[1] + pad)


def _camera(
    panel: Any,
    camera: Camera,
    extent: float,
    across: int,
    up: int,
    colour: str,
    order: int,
    width: float = 0.8,
) -> None:
    """Draw the viewing pyramid of a camera."""
    world = pyramid(camera, _SIZE * extent)
    for k in range(4):
        path = np.array([camera.centre, world[k], world[(k + 1) % 4]])
        panel.plot(path[:, across], path[:, up], color=colour, linewidth=width, zorder=order)


def pyramid(camera: Camera, size: float) -> Floats:
    """Return the corners (4, 3) of the viewing pyramid of a camera."""
    corners = np.array([[x, y, 1.0] for x, y in ((-0.6, -0.45), (0.6, -0.45), (0.6, 0.45), (-0.6, 0.45))])
    return np.asarray(camera.centre + size * corners @ camera.R)


def visible_points(cloud: Floats) -> Floats:
    """Return the points without outliers: the few that are far away on each side."""
    if not len(cloud):
        return cloud
    low, high = np.quantile(cloud, (_RARE, 1 - _RARE), axis=0)
    return np.asarray(cloud[((cloud >= low) & (cloud <= high)).all(axis=1)])
