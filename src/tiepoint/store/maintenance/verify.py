# SPDX-License-Identifier: BSD-3-Clause
"""Verify a store: read and hash every file, and compare the database with the run files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...core.errors import StoreError, TiepointError
from ...core.formatting import count_text, first_few, format_bytes
from ...core.processes import cores
from ..races import StoredRace, race_file, race_paths, read_race
from ..rebuild import damaged_database, differing_rows, replace_damaged
from ..rebuild import rebuild as rebuild_database
from ..run_queries import load_runs
from ..store import REMADE, Store, store_root
from ..stored_run import StoredRun, read_run, run_file
from ..urls import DATABASE
from .file_checks import SETS, FileCheck, files_of, leftovers_of
from .journal import finish_changes, remove_leftovers

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class StoreProblem:
    """Problem found in a store: message, file, affected runs and remedy.

    >>> print(StoreProblem("a.parquet is corrupt", runs=("12ab",), again="run sift on t/a again"))
    a.parquet is corrupt (run 12ab): run sift on t/a again
    """

    what: str
    path: Path | None = None
    runs: tuple[str, ...] = ()
    again: str = ""

    def __str__(self) -> str:
        word = "run" if len(self.runs) == 1 else "runs"
        whose = f" ({word} {first_few(self.runs, 5)})" if self.runs else ""
        return f"{self.what}{whose}" + (f": {self.again}" if self.again else "")


@dataclass(frozen=True)
class StoreCheck:
    """Result of verifying a store.

    `files` and `sizes` count the verified files and bytes, by kind. `leftovers` are partial files of killed
    processes. `rebuilt` is set if the database was rebuilt from the run files. `notices` are messages for the
    user.
    """

    problems: Sequence[StoreProblem]
    runs: int
    files: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    leftovers: Sequence[Path] = ()
    rebuilt: bool = False
    notices: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether no problems were found."""
        return not self.problems

    def __str__(self) -> str:
        lines = [
            f"{count_text(self.runs, 'run')} in the store"
            + (", database rebuilt from the run files" * self.rebuilt)
        ]
        for kind, count in self.files.items():
            lines.append(f"{kind}: {count_text(count, 'file')}, {format_bytes(self.sizes[kind])} verified")
        if self.leftovers:
            left = count_text(len(self.leftovers), "leftover")
            lines.append(f"{left} of killed processes; the next run removes them")
        lines.append("no problems" if self.ok else f"{count_text(len(self.problems), 'problem')}:")
        return "\n".join([*lines, *(f"  - {p}" for p in self.problems)])


def check_store(
    store: Store | str | Path | None, *, progress: Progress | None = None, rebuild: bool | None = None
) -> StoreCheck:
    """Verify every file of a store. Report corrupt or missing files and database rows that differ.

    Features are compared with their content hashes, and dataset files with their cached hashes. Nothing is
    written unless `rebuild` is set.

    Args:
        store: An open store (for writing with `rebuild`), or a folder or URL as for `Store.open`. A store
            given by folder or URL is repaired first: a corrupt or missing SQLite database is rebuilt, and
            unfinished changes of killed processes are completed or undone.
        progress: Called with ("check", done, total).
        rebuild: Rebuild the database from the run files at the end. By default for a writable store given by
            folder or URL.
    """
    if not isinstance(store, Store):
        return _in_place(store, progress, rebuild)
    rebuild = bool(rebuild)
    if rebuild:
        finish_changes(store)
    runs, problems = _runs(store)
    problems += [StoreProblem(what, again=again) for what, again in damaged_database(store)]
    if not problems or rebuild:
        for run, what in differing_rows(store, runs):
            again = "the database was rebuilt from the files" if rebuild else "`store check` rebuilds it"
            problems.append(StoreProblem(what, store.root / "runs" / f"{run}.json", (run,), again))
    if rebuild:
        known = {str(p.path) for p in problems}
        problems += [
            StoreProblem(message)
            for message in rebuild_database(store)
            if not any(path in message for path in known)
        ]
        runs = {run.id: run for run in load_runs(store)}
    races, unreadable = _races(store)
    problems += unreadable
    users = _users(runs.values(), races)
    jobs = files_of(store, {kind: sorted(used) for kind, used in users.items()})
    files: dict[str, int] = {}
    sizes: dict[str, int] = {}
    with ThreadPoolExecutor(cores()) as threads:
        for done, check in enumerate(threads.map(lambda job: job(), jobs), start=1):
            if progress is not None:
                progress("check", done, len(jobs))
            files[check.kind] = files.get(check.kind, 0) + 1
            sizes[check.kind] = sizes.get(check.kind, 0) + check.size_bytes
            used = users.get(check.kind, {}).get(check.key, [])
            if check.problem is not None and not _removed(store, check, used):
                problems = [p for p in problems if p.what != check.problem]  # reported in more detail now
                problems.append(_problem(check, used, runs))
    return StoreCheck(problems, len(runs), files, sizes, leftovers_of(store.root), rebuild)


def _removed(store: Store, check: FileCheck, used: Sequence[tuple[str, str]]) -> bool:
    """Return whether another process removed a file, and all its runs and races, during the check."""
    if check.foreign or os.path.lexists(check.path):
        return False
    owners = ((run_file(store, name), race_file(store.root, name)) for name, _ in used)
    return not any(path.is_file() for both in owners for path in both)


def _in_place(where: str | Path | None, progress: Progress | None, rebuild: bool | None) -> StoreCheck:
    """Repair a store, then verify it. A corrupt or missing database is reported as the first problem."""
    root = store_root(where)
    ours = rebuild is not False and (os.access(root, os.W_OK) or not root.exists())
    if not ours:
        with Store.open(where, mode="read") as store:
            found = check_store(store, progress=progress)
            message = f"{root} is read-only, so the database was not rebuilt"
            return replace(found, notices=(*store.notices, *([] if rebuild is False else [message])))
    aside = replace_damaged(root)
    first = (
        []
        if aside is None
        else [StoreProblem(f"the database was corrupt and is now {aside.name}", aside, again=REMADE)]
    )
    with Store.open(where, create=False) as store:
        notices = store.notices
        if store.remade:
            first.append(StoreProblem("the database was missing", root / DATABASE, again=REMADE))
            notices = ()
        remove_leftovers(store)
        if first:
            rebuild_database(store)  # a change that was just completed is not a difference
        found = check_store(store, progress=progress, rebuild=True)
    return replace(found, problems=[*first, *found.problems], notices=notices)


def _runs(store: Store) -> tuple[dict[str, StoredRun], list[StoreProblem]]:
    """Return all runs by id, from their run files, or from the database if a run file is unreadable."""
    runs: dict[str, StoredRun] = {}
    problems = []
    for path in sorted((store.root / "runs").glob("*.json")):
        try:
            runs[path.stem] = read_run(path)
        except StoreError as e:
            problems.append(StoreProblem(str(e), path, (path.stem,)))
    try:
        for run in load_runs(store):
            runs.setdefault(run.id, run)
    except (TiepointError, ValueError, KeyError, TypeError) as e:
        problems.append(StoreProblem(f"the runs of the database cannot be read: {e}"))
    return runs, [replace(p, again=_run_again(p, runs)) for p in problems]


def _run_again(problem: StoreProblem, runs: Mapping[str, StoredRun]) -> str:
    """Return the remedy for a corrupt run file: remove it, check the store and repeat the run."""
    known = [runs[name] for name in problem.runs if name in runs]
    return "" if not known else f"remove {problem.path}, then `store check`, then {_rerun_hints(known)}"


def _races(store: Store) -> tuple[list[StoredRace], list[StoreProblem]]:
    """Return all races, and a problem for each race file that cannot be read."""
    races, problems = [], []
    for path in race_paths(store.root):
        try:
            races.append(read_race(path))
        except StoreError as e:
            problems.append(StoreProblem(str(e), path))
    return races, problems


def _users(
    runs: Iterable[StoredRun], races: Iterable[StoredRace]
) -> dict[str, dict[str, list[tuple[str, str]]]]:
    """Return (id of a run or race, its part that needs the file) for each file, by kind and key."""
    found: dict[str, dict[str, list[tuple[str, str]]]] = {"records": {}, "values": {}, SETS: {}}
    for run in runs:
        if run.keypoint_set is not None:
            found[SETS].setdefault(str(run.keypoint_set.get("name")), []).append((run.id, "keypoint set"))
        for unit, by in run.manifest.units.items():
            for key in by.values():
                found["records"].setdefault(key, []).append((run.id, f"unit {unit}"))
        for protocol, key in run.manifest.values.items():
            found["values"].setdefault(key, []).append((run.id, f"protocol {protocol}"))
    for race in races:
        for name, by_unit in race.records.items():
            for unit, key in by_unit.items():
                found["records"].setdefault(key, []).append((race.id, f"{name}, unit {unit}"))
    return found


def _problem(
    check: FileCheck, used: Sequence[tuple[str, str]], runs: Mapping[str, StoredRun]
) -> StoreProblem:
    ids = tuple(dict.fromkeys(run for run, _ in used)) if used else _of_method(check.method, runs)
    what = f"{used[0][1]}: {check.problem}" if used else str(check.problem)
    known = [runs[i] for i in ids if i in runs]
    again = _again(check, known)
    if used and not known:  # of races alone
        again = f"{again}race again" if again.endswith("then ") else f"remove {check.path}, then race again"
    return StoreProblem(what, check.path, ids, again)


def _of_method(method: str | None, runs: Mapping[str, StoredRun]) -> tuple[str, ...]:
    return tuple(run.id for run in runs.values() if method is not None and run.method == method)


def _again(check: FileCheck, users: Sequence[StoredRun]) -> str:
    """Return the remedy for a corrupt file."""
    if check.foreign:
        return ""
    if check.kind == SETS:
        return f"create or import the keypoint set {check.key} again under its name, with `overwrite`"
    exists = check.path.exists() or check.path.is_symlink()
    if check.heals:
        return f"remove {check.path}; the next run that needs it recomputes it" if exists else ""
    gone = f"remove {check.path}, then " if exists else ""
    if not users:
        return f"no run needs it; remove {check.path}" if gone else ""
    return gone + _rerun_hints(users)


def _rerun_hints(runs: Sequence[StoredRun]) -> str:
    return "; ".join(dict.fromkeys(run.rerun_hint for run in runs))
