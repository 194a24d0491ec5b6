# SPDX-License-Identifier: BSD-3-Clause
"""Result files of older tools: scoring those that another program made, writing those of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..formats.hbench.benchmark import result_folders
from ..methods.spec import FilesSpec
from ..model.errors import InputError, joined
from ..model.hashing import hash_file, hash_json
from ..model.records import Records
from ..store.manifest import Manifest, MethodFacts
from ..store.store import Store
from ..tasks.base import OpenTask, Task
from .engine import Shared, context_of, evaluate
from .finish import finished, of_data
from .prepare import Prepared, Progress, Request, checked_protocols, load_task, silent
from .result import Run
from .scoring import scores_under


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
    progress: Progress = silent,
) -> list[Run]:
    """Score result files; one run a descriptor found in the folder.

    Tasks of 2016 read ``.results`` in ``DESC/TASK``, ``TASK/DESC`` or bare; other tasks take what a method
    wrote elsewhere as the method ``files:DIR``. `name` is what the run is called, where there is one only.
    """
    task = load_task(task_name)
    if not results.is_dir():
        why = "is a file, not a folder" if results.exists() else "does not exist"
        raise InputError(f"the results folder {results} {why}")
    given = dict(options or {})
    if not task.reads_results:
        bad = {"on_bad": given.pop("on_bad")} if "on_bad" in given else {}
        spec = FilesSpec(f"files:{results}")
        request = Request(spec, task_name, data, tuple(protocols), given, bad, jobs, name=name)
        return [_files_run(request, task, store, progress)]
    on_bad = given.pop("on_bad", "error")
    chosen = checked_protocols(task, protocols)
    opened = task.open(data, given)
    folders = result_folders(results, task_name.split("/")[-1])
    if name is not None and len(folders) > 1:
        raise InputError(
            f"`name` fits one descriptor, and {results} has results of {len(folders)}: {', '.join(folders)}"
        )
    read: list[_Results] = []
    errors: list[InputError] = []
    for i, (found, folder) in enumerate(folders.items()):
        progress("results", i, len(folders))
        started = time.perf_counter()
        try:
            records = task.records_from_results(folder, opened, on_bad)
            content = {p.name: hash_file(p) for p in sorted(folder.glob("*.results"))}
        except InputError as e:
            errors.append(e)
            continue
        method = MethodFacts(
            name=name or found,
            name_given=name is not None,
            family=task.family,
            config={"results": content},
        )
        read.append(_Results(method, records, time.perf_counter() - started))
    if errors:  # of all descriptors, before any is stored
        raise joined(errors)
    about = of_data(opened, data, given) | {"task": task.name, "warnings": tuple(opened.warnings)}
    return [_stored(one, task, opened, about, chosen, store) for one in read]


@dataclass(frozen=True)
class _Results:
    """Result files of one descriptor: what made them, the records they give, and how long reading took."""

    method: MethodFacts
    records: Sequence[Records]
    seconds: float


def _files_run(request: Request, task: Task, store: Store, progress: Progress) -> Run:
    """The folder as the method ``files:DIR``, its problems listed at once where the task can tell."""
    warnings: list[str] = []
    if task.checks_results:
        folder = Path(request.method.partition(":")[2])
        warnings = task.check_results(task.open(request.data, request.options), folder)
    run = evaluate(request, store, progress)
    return replace(run, warnings=list(dict.fromkeys([*run.warnings, *warnings])))


def _stored(
    one: _Results,
    task: Task,
    opened: OpenTask,
    about: Mapping[str, Any],
    protocols: Sequence[str],
    store: Store,
) -> Run:
    """Records and scores of one descriptor."""
    keys: dict[str, dict[str, str]] = {}
    made: dict[str, dict[str, Records]] = {}
    for unit, record in zip(opened.units, one.records, strict=True):
        for comparison in dict.fromkeys(task.comparison(p) for p in protocols):
            content = one.method.config["results"]
            key = hash_json(["results", task.name, unit.definition, comparison, content])
            store.records.put(key, record)
            keys.setdefault(unit.key, {})[comparison] = key
            made.setdefault(unit.key, {})[comparison] = record
    scores = {p: scores_under(task, p, made) for p in protocols}
    run = finished(Manifest(method=one.method, units=keys, **about), scores, store=store, time_s=one.seconds)
    return Run.kept(run, store, made, protocols)


def has_result_files(task: Task) -> None:
    """Refuse a task that has no result files of its own, before anything is run for them."""
    if not task.writes_results:
        raise InputError(f"{task.name} has no result files of its own; export its scores as CSV instead")


def write_result_files(
    prepared: Prepared, run: Run, store: Store, shared: Shared, folder: Path
) -> list[Path]:
    """Write the result files of a run below ``FOLDER/METHOD``; returns what was written."""
    task, context = prepared.task, context_of(prepared, store, shared)
    has_result_files(task)
    out = folder / run.method.replace("/", "_")
    try:
        return list(
            task.write_run(out, prepared.opened, run.unit_records, context.arrays, prepared.protocols)
        )
    except OSError as e:
        raise InputError(f"cannot write {folder}: {e.strerror or e}") from e
