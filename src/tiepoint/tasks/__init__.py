# SPDX-License-Identifier: BSD-3-Clause
"""Registry of tasks. A task defines its data, its ground truth and its scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.errors import InputError
from ..core.plugins import Registry, RegistryEntry

if TYPE_CHECKING:
    from .base import Task


class TaskRegistry(Registry):
    """Registry of the tasks by name. An entry is either a task object or a task class."""

    def __init__(self, what: str, *, group: str) -> None:
        super().__init__(what, group=group)
        self._checked: dict[str, Any] = {}

    def load_entry(self, entry: RegistryEntry) -> Any:
        """Return the task of a registry entry. A plug-in may register a task class or an instance."""
        from .base import Task

        found = super().load_entry(entry)
        if found is self._checked.get(entry.name):
            return found
        found = found() if isinstance(found, type) and isinstance(found, Task) else found
        if isinstance(found, type) or not isinstance(found, Task) or found.name != entry.name:
            raise InputError(
                f"{entry.target} of {entry.package or 'tiepoint'} is registered as the task {entry.name!r}, "
                "but is not a task with this name; derive it from tiepoint.tasks.base.BaseTask"
            )
        self._checked[entry.name] = found
        return found


TASKS = TaskRegistry("task", group="tiepoint.tasks")

for _family, _room, _names in (
    ("patches", "hpatches_v1", ("classification", "matching", "retrieval")),
    ("patches", "hpatches", ("verification", "matching", "retrieval")),
    ("dense", "dense", ("flow", "pck")),
    ("keypoints", "keypoints", ("ranking", "verification", "retrieval", "matching", "images", "geometry")),
):
    for _name in _names:
        TASKS.add(
            f"{_room.replace('_', '-')}/{_name}", f"tiepoint.tasks.{_room}.{_name}.task:TASK", family=_family
        )
TASKS.add("tss", "tiepoint.tasks.tss.task:TASK", family="dense")
for _name, _target in (
    ("pose/relative", "pose.task:TASK"),
    ("wxbs/fundamental", "wxbs.task:FUNDAMENTAL"),
    ("wxbs/points", "wxbs.task:POINTS"),
    ("evd/homography", "evd.task:TASK"),
    ("homography/pairs", "homography.task:TASK"),
    ("mmim/homography", "mmim.task:TASK"),
    ("satast/points", "satast.task:TASK"),
    ("semantic/pck", "semantic.task:TASK"),
):
    TASKS.add(_name, f"tiepoint.tasks.{_target}", family="pairs")
for _name in ("rotation", "scale", "tilt", "blur", "gamma", "jpeg", "noise"):
    TASKS.add(f"stress/{_name}", f"tiepoint.tasks.stress.task:{_name.upper()}", family="pairs")
TASKS.add("sfm/poses", "tiepoint.tasks.sfm.poses.task:TASK", family="sfm")
TASKS.add("sfm/reconstruct", "tiepoint.tasks.sfm.reconstruct.task:TASK", family="sfm")


def load_task(name: str) -> Task:
    """Return the task with a given name.

    Raises:
        UnknownNameError: No task has this name; the message lists similar names.
    """
    task: Task = TASKS.load(name)
    return task


def stored_task(name: str) -> Task:
    """Return the task of a stored run, or a placeholder if the task is not installed.

    >>> stored_task("tss").family, stored_task("gone/task").family
    ('dense', 'not installed')
    """
    from .base import MissingTask

    try:
        found: Task = TASKS.load(name)
    except InputError:
        return MissingTask(name)
    return found
