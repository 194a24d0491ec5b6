# SPDX-License-Identifier: BSD-3-Clause
"""Result files of older tools, written from a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.formatting import path_part
from ..store.store import Store
from ..tasks.base import Task
from .engine import RunSession, make_context
from .preparation import PreparedRun
from .result import Run

FORMS = ("final", "document")
"""Of result files: as the program wrote them in the end, or as its original document shows them."""


def has_result_files(task: Task, form: str = "final") -> None:
    """Refuse a task that has no result files of its own in a form, before anything is run for them."""
    if not task.writes_results:
        raise InputError(f"{task.name} has no result files of its own; export its scores as CSV instead")
    if form not in task.result_forms:
        raise InputError(
            f"{task.name} writes its result files in the form {', '.join(task.result_forms)} only; leave out "
            f'`results_form="{form}"`'
        )


def refuse_options_of_writing(task: Task, options: Mapping[str, Any]) -> None:
    """Refuse options about written result files where none are written; a default is no mistake."""
    usual = task.options.describe()
    for name in task.writing_options:
        if options.get(name, usual[name]["default"]) != usual[name]["default"]:
            raise InputError(
                f"option {name} has no effect here: it is about the result files that a run writes with "
                "`write_results`"
            )


def write_result_files(
    prepared: PreparedRun, run: Run, store: Store, shared: RunSession, folder: Path, form: str = "final"
) -> list[Path]:
    """Write the result files of a run, returns what was written.

    They lie below ``FOLDER/METHOD``; in the form `document` below ``FOLDER/TASK/METHOD``, a folder of
    descriptors under its own name.
    """
    task, context = prepared.task, make_context(prepared, store, shared)
    has_result_files(task, form)
    name, records = run.method.replace("/", "_"), run.unit_records
    if form == "document":
        name = name.removeprefix("files:")
    path_part(name, "the method")
    try:
        if form == "document":
            return list(task.write_document(folder, name, prepared.opened, records, context.arrays))
        opened, protocols = prepared.opened, prepared.protocols
        return list(task.write_run(folder / name, opened, records, context.arrays, protocols))
    except OSError as e:
        raise InputError(f"cannot write {folder}: {e.strerror or e}") from e
