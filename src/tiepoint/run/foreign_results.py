# SPDX-License-Identifier: BSD-3-Clause
"""Result files of older tools: scoring those that another program made, writing those of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ..formats.hbench.benchmark import result_folders
from ..methods.spec import FilesSpec
from ..model.errors import InputError, joined
from ..model.hashing import hash_file, hash_json
from ..model.records import Records
from ..model.units import Arrays
from ..store.manifest import DatasetFacts, Manifest, MethodFacts
from ..store.runs import StoredRun, save_run
from ..store.store import Store
from ..tasks.base import OpenTask, Task
from . import manifest as about
from .engine import Progress, Request, checked_protocols, evaluate, load_task, silent
from .prepare import plain_options
from .result import Run
from .scoring import score_rows


def score_results(
    task_name: str,
    results: Path,
    data: Path,
    store: Store,
    *,
    protocols: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    jobs: int = 1,
    progress: Progress = silent,
) -> list[Run]:
    """Score result files; one run a descriptor found in the folder.

    Tasks of 2016 read ``.results`` in ``DESC/TASK``, ``TASK/DESC`` or bare; other tasks take what a method
    wrote elsewhere as the method ``files:DIR``.
    """
    task = load_task(task_name)
    if not results.is_dir():
        why = "is a file, not a folder" if results.exists() else "does not exist"
        raise InputError(f"the results folder {results} {why}")
    if not task.reads_results:
        return [_files_run(task, results, data, store, protocols, dict(options or {}), jobs, progress)]
    given = dict(options or {})
    on_bad = given.pop("on_bad", "error")
    chosen = checked_protocols(task, protocols)
    opened = task.open(data, given)
    folders = result_folders(results, task_name.split("/")[-1])
    read: dict[str, tuple[Sequence[Records], dict[str, str], float]] = {}
    errors: list[InputError] = []
    for i, (name, folder) in enumerate(folders.items()):
        progress("results", i, len(folders))
        started = time.perf_counter()
        try:
            records = task.records_from_results(folder, opened, on_bad)
            content = {p.name: hash_file(p) for p in sorted(folder.glob("*.results"))}
        except InputError as e:
            errors.append(e)
            continue
        read[name] = (records, content, time.perf_counter() - started)
    if errors:  # of all descriptors, before any is stored
        raise joined(errors)
    return [
        _stored(task, name, data, given, opened, records, content, chosen, store, seconds)
        for name, (records, content, seconds) in read.items()
    ]


def _files_run(
    task: Task,
    results: Path,
    data: Path,
    store: Store,
    protocols: Sequence[str],
    options: dict[str, Any],
    jobs: int,
    progress: Progress,
) -> Run:
    """The folder as the method ``files:DIR``, its problems listed at once where the task can tell."""
    warnings: list[str] = []
    bad = {"on_bad": options.pop("on_bad")} if "on_bad" in options else {}
    if task.checks_results:
        warnings = task.check_results(task.open(data, options), results)
    request = Request(FilesSpec(f"files:{results}"), task.name, data, tuple(protocols), options, bad, jobs)
    run = evaluate(request, store, progress)
    return replace(run, warnings=list(dict.fromkeys([*run.warnings, *warnings])))


def _stored(
    task: Task,
    name: str,
    data: Path,
    options: Mapping[str, Any],
    opened: Any,
    records: Sequence[Records],
    content: Mapping[str, str],
    protocols: Sequence[str],
    store: Store,
    seconds: float,
) -> Run:
    keys: dict[str, dict[str, str]] = {}
    made: dict[str, dict[str, Records]] = {}
    for unit, record in zip(opened.units, records, strict=True):
        for comparison in dict.fromkeys(task.comparison(p) for p in protocols):
            key = hash_json(["results", task.name, unit.definition, comparison, dict(content)])
            store.records.put(key, record)
            keys.setdefault(unit.key, {})[comparison] = key
            made.setdefault(unit.key, {})[comparison] = record
    rows = [row for p in protocols for row in score_rows(task, list(records), p)]
    config = {"results": dict(content)}
    manifest = Manifest(
        task=task.name,
        options=plain_options(options),
        protocols=tuple(sorted(protocols)),
        method=MethodFacts(name=name, family=task.family, config=config),
        dataset=DatasetFacts(
            hash=opened.data_hash, name=data.name, path=str(data.absolute()), items=len(opened.items)
        ),
        lists=hash_json([u.definition for u in opened.units]),
        units=keys,
        versions=about.versions(),
        machine=about.machine(),
        warnings=tuple(opened.warnings),
    )
    run_id = hash_json([name, config, task.name, opened.data_hash, manifest.lists, sorted(protocols)])[:12]
    run = StoredRun(run_id, task.name, "done", manifest, rows, None, about.now(), seconds)
    save_run(store, run)
    return Run(run, made, list(opened.warnings))


def has_result_files(task: Task) -> None:
    """Refuse a task that has no result files of its own, before anything is run for them."""
    if not task.writes_results:
        raise InputError(f"{task.name} has no result files of its own; use `tiepoint report --format csv`")


def write_result_files(
    request: Request, run: Run, store: Store, folder: Path, opened: OpenTask | None = None
) -> list[Path]:
    """Write the result files of a run below ``FOLDER/METHOD``; returns what was written.

    `opened` is the task of the request where it is open already.
    """
    from ..methods.resolve import resolve
    from .context import Context

    task = load_task(request.task)
    has_result_files(task)
    opened = opened or task.open(request.data, request.options)
    name = run.method.replace("/", "_")

    def arrays(key: str) -> Arrays:
        return context().arrays(key)

    @cache
    def context() -> Context:
        method = resolve(request.method, family=task.family, **request.method_options)
        return Context(task, opened, method, store.features, store.records)

    try:
        protocols = checked_protocols(task, request.protocols)
        return list(task.write_run(folder / name, opened, run.unit_records, arrays, protocols))
    except OSError as e:
        raise InputError(f"cannot write {folder}: {e.strerror or e}") from e
