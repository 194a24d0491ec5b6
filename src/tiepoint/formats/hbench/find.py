# SPDX-License-Identifier: BSD-3-Clause
"""Where 2016 definition and result files are in a folder."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from ...model.errors import InputError, UnknownNameError
from .benchmark import TASKS, task_of


def find_benchmarks(folder: str | Path, task: str, pattern: str = "*") -> list[Path]:
    """`.benchmark` files of a task below a folder, sorted by name.

    Looked for in ``FOLDER/TASK``, ``FOLDER/benchmarks/TASK`` and ``FOLDER`` itself (there, the task is told
    from the content); the first of these that has any counts. `pattern` selects by name (``train_*``).
    """
    root = Path(folder)
    if task not in TASKS:
        raise UnknownNameError("2016 task", task, TASKS)
    if not root.is_dir():
        raise InputError(f"the task folder {root} does not exist")
    found: list[Path] = []
    for place in (root / task, root / "benchmarks" / task, root):
        found = sorted(place.glob("*.benchmark"))
        if place == root:
            found = [p for p in found if task_of(p) == task]
        if found:
            break
    if not found:
        raise InputError(
            f"no {task} .benchmark file in {root}, {root / task} or {root / 'benchmarks' / task}; "
            "name their folder, or draw them with 'tiepoint data tasks --suite hpatches-v1'"
        )
    chosen = [p for p in found if fnmatchcase(p.stem, pattern)]
    if not chosen:
        raise UnknownNameError(f"{task} benchmark", pattern, (p.stem for p in found))
    return chosen


def result_folders(folder: str | Path, task: str) -> dict[str, Path]:
    """Folders with `.results` files of a task, by descriptor name.

    Understands ``FOLDER/DESC/TASK``, ``FOLDER/TASK/DESC``, ``FOLDER/TASK`` and ``FOLDER`` itself with the
    files in it (then the descriptor is named after FOLDER).
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"the results folder {root} does not exist")
    found: dict[str, Path] = {}
    for place in sorted(root.glob(f"*/{task}")):
        if any(place.glob("*.results")):
            found[place.parent.name] = place
    for place in sorted((root / task).glob("*")):
        if place.is_dir() and any(place.glob("*.results")):
            found[place.name] = place
    for place in (root / task, root):
        if not found and place.is_dir() and any(place.glob("*.results")):
            found[root.resolve().name] = place
    if not found:
        raise InputError(
            f"no .results file in {root} (looked in DESC/{task}, {task}/DESC, {task} and itself)"
        )
    return found
