# SPDX-License-Identifier: BSD-3-Clause
"""Result files of the original benchmark tools: write them from a run, and score them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import InputError, join_errors
from ..core.formatting import method_name, path_part
from ..core.records import Records, Unit
from ..methods.spec import FilesSpec
from ..store.store import Store
from ..store.stored_run import Manifest, MethodFacts
from ..tasks import load_task
from ..tasks.base import Task
from ..tasks.capabilities import ChecksResults, ReadsResults, WritesResults
from ..tasks.info import identity_options
from .cache_keys import result_file_key
from .context import Progress, no_progress
from .engine import evaluate
from .finish import finish_run
from .preparation import PreparedRun, checked_protocols, dataset_facts, make_context, protocol_warnings
from .request import RunRequest
from .result import (
    Run,
    lead_metric,
)
from .scoring import (
    UnitRecords,
    record_warnings,
    scores_under,
)
from .session import RunSession

FORMS = ("auto", "final", "document")
"""Layouts of result files: `final` as the released tool wrote them, `document` as its manual shows them.

`auto` is the layout that fits the definition files.
"""


def has_result_files(task: Task, form: str = "auto") -> None:
    """Raise an `InputError` if a task does not write result files in the layout `form`."""
    if not isinstance(task, WritesResults):
        raise InputError(
            f"{task.name} cannot write result files; write its scores with `report --format csv`"
        )
    if form not in ("auto", *task.result_forms):
        raise InputError(
            f"{task.name} writes result files only in the form {', '.join(task.result_forms)}; omit "
            f'`results_form="{form}"`'
        )


def refuse_options_of_writing(task: Task, options: Mapping[str, Any]) -> None:
    """Raise an `InputError` if an option is set that only applies when result files are written."""
    usual = task.options.describe()
    for name in task.info.writing_options:
        if options.get(name, usual[name]["default"]) != usual[name]["default"]:
            raise InputError(
                f"option {name} has no effect here; it applies to result files that a run writes with "
                "`write_results`"
            )


def write_result_files(
    prepared: PreparedRun, run: Run, store: Store, shared: RunSession, folder: Path, form: str = "auto"
) -> tuple[list[Path], str]:
    """Write the result files of a run. Return their paths and their form.

    The files are written to ``FOLDER/METHOD``, or to ``FOLDER/TASK/METHOD`` in the form `document`. For a
    method that reads a folder of descriptors, METHOD is the name of that folder.
    """
    task, context = prepared.task, make_context(prepared, store, shared)
    has_result_files(task, form)
    assert isinstance(task, WritesResults)
    form = task.results_form(prepared.opened) if form == "auto" else form
    name, target = run.method.replace("/", "_"), folder
    if form == "document":
        name, target = name.removeprefix("files:"), folder / task.name.split("/")[-1]
    path_part(name, "the method")
    records, arrays, protocols = run.unit_records, context.arrays, prepared.protocols
    try:
        paths = task.write_results(target / name, prepared.opened, records, arrays, protocols, form)
        return list(paths), form
    except OSError as e:
        raise InputError(f"cannot write {folder}: {e.strerror or e}") from e


def score_results(
    task_name: str,
    results: Path,
    data: Path,
    store: Store,
    *,
    protocols: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    jobs: int = 1,
    name: str | None = None,
    progress: Progress = no_progress,
    announce: Callable[[str], None] = lambda message: None,
) -> list[Run]:
    """Score result files. Return one run for each method in the folder.

    The 2016 tasks read ``.results`` files in ``DESC/TASK``, ``TASK/DESC`` or in the folder itself.
    `sfm/poses` reads reconstructions. All other tasks treat the folder as the method ``files:DIR``. `name`
    renames a single method. `announce` receives warnings that matter before the work starts.
    """
    if name is not None:
        method_name(name)
    task = load_task(task_name)
    if not results.exists():
        raise InputError(f"the results folder {results} does not exist")
    given = dict(options or {})
    if not isinstance(task, ReadsResults):
        if not results.is_dir():
            raise InputError(f"the results folder {results} is a file; pass a folder")
        bad = {"on_bad": given.pop("on_bad")} if "on_bad" in given else {}
        spec = FilesSpec(f"files:{results}")
        request = RunRequest(spec, task_name, data, tuple(protocols), given, bad, jobs, name=name)
        return [_files_run(request, task, store, progress)]
    on_bad = given.pop("on_bad", "error")
    chosen = checked_protocols(task, protocols)
    refuse_options_of_writing(task, given)
    task.options.check_protocols(task.name, given, chosen)
    opened = task.open(data, given)
    for warning in protocol_warnings(opened, chosen):
        announce(warning)
    folders = task.result_folders(results, opened)
    if name is not None and len(folders) > 1:
        raise InputError(
            f"`name` renames a single method, but {results} has {len(folders)}: {', '.join(folders)}"
        )
    read: dict[str, tuple[UnitRecords, dict[str, str], float]] = {}
    errors: list[InputError] = []
    for i, (found, folder) in enumerate(folders.items()):
        progress("results", i, len(folders))
        started = time.perf_counter()
        try:
            records = task.records_from_results(folder, opened, on_bad)
            content = dict(task.result_hashes(folder, records))
        except InputError as e:
            errors.append(e)
            continue
        comparisons = dict.fromkeys(task.comparison(p) for p in chosen)
        units = {u.key: dict.fromkeys(comparisons, r) for u, r in zip(opened.units, records, strict=True)}
        read[found] = units, content, time.perf_counter() - started
    if errors:  # report the errors of all methods before a run is stored
        raise join_errors(errors)
    runs = []
    for found, (unit_records, content, seconds) in read.items():
        keys = {u.key: _store_records(u, unit_records[u.key], content, task, store) for u in opened.units}
        manifest = Manifest(
            task=task.name,
            method=MethodFacts(
                name=name or found,
                name_given=name is not None,
                family=task.family,
                config={"results": content},
            ),
            units=keys,
            warnings=(*opened.warnings, *_warnings(task, chosen, unit_records)),
            **dataset_facts(opened, data, identity_options(task.info, given)),
        )
        scores = {p: scores_under(task, p, unit_records) for p in chosen}
        run = finish_run(manifest, scores, store=store, time_s=seconds)
        runs.append(Run.from_stored(run, store, unit_records, chosen, lead_metric(task, given)))
    return runs


def _warnings(task: Task, protocols: Sequence[str], units: UnitRecords) -> list[str]:
    found = [
        warning
        for comparison in dict.fromkeys(task.comparison(p) for p in protocols)
        for warning in record_warnings(task, [by[comparison] for by in units.values()])
    ]
    return list(dict.fromkeys(found))


def _store_records(
    unit: Unit, by: Mapping[str, Records], content: Mapping[str, str], task: Task, store: Store
) -> dict[str, str]:
    """Store the records of a unit. Return their keys by comparison."""
    keys = {c: result_file_key(task, unit, c, content) for c in by}
    for comparison, key in keys.items():
        store.records.put(key, by[comparison])
    return keys


def _files_run(request: RunRequest, task: Task, store: Store, progress: Progress) -> Run:
    """Run the task's checks, then evaluate the folder as the method ``files:DIR``."""
    warnings: list[str] = []
    if isinstance(task, ChecksResults):
        folder = Path(request.method.partition(":")[2])
        warnings = task.check_results(task.open(request.data, request.options), folder)
    run = evaluate(request, store, progress)
    return replace(run, warnings=list(dict.fromkeys([*run.warnings, *warnings])))
