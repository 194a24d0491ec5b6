# SPDX-License-Identifier: BSD-3-Clause
"""Views of the scenes that a run reconstructed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core.records import Records
from ...run.result import Run
from ...tasks import stored_task
from ...tasks.capabilities import HasSceneViews
from ...tasks.scene_views import SceneView
from .lazy_records import scored_records


@dataclass(frozen=True)
class RunViews:
    """View of each scene, and a text about its worst image, by scene."""

    views: dict[str, SceneView]
    worst: dict[str, str]


def has_scene_views(run: Run) -> bool:
    """Return whether the task of a run reconstructs scenes."""
    return isinstance(stored_task(run.task), HasSceneViews)


def scenes_of(run: Run) -> list[str]:
    """Return the scenes of a run that have views, without reading its records."""
    if not has_scene_views(run):
        return []
    return list(dict.fromkeys(unit.rpartition("/")[0] for unit in run.manifest.units))


def run_views(run: Run, scene: str | None = None) -> RunViews:
    """Return the views of a run, or of one of its scenes. Empty for other tasks."""
    task = stored_task(run.task)
    if not isinstance(task, HasSceneViews):
        return RunViews({}, {})
    protocol = "exact" if "exact" in run.manifest.protocols else run.manifest.protocols[0]
    records: Sequence[Records] = scored_records(run, task, protocol)
    if scene is not None:
        records = [r for r in records if r.meta["scene"] == scene]
    if not records:
        return RunViews({}, {})
    views = {view.scene: view for view in task.scene_views(records)}
    return RunViews(views, {worst.scene: str(worst) for worst in task.worst_images(records)})
