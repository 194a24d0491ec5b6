# SPDX-License-Identifier: BSD-3-Clause
"""Import results of the original benchmark tools as runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from ...core.errors import FormatError, InputError, TiepointError
from ...core.formatting import method_name
from ...core.hashing import hash_file
from ...core.regular_files import exists, regular_file_size
from ...formats.sniff import explain_wrong_type
from ...store.maintenance.edit_runs import remove_runs
from ...store.run_queries import load_heads, run_names
from ...store.store import Store
from ..result import Run
from .imported_result import ImportedResult, save_imported
from .workbench.importer import DATABASE_SUFFIXES, is_workbench, read_workbench, save_workbench
from .zeb import is_zeb_file, read_zeb_files, save_zeb

__all__ = ["ImportedResult", "import_files"]

SUFFIXES = {
    ".p": "tiepoint.run.importers.hpatches_python:read_pickle",
    ".pkl": "tiepoint.run.importers.hpatches_python:read_pickle",
    ".pickle": "tiepoint.run.importers.hpatches_python:read_pickle",
    ".json": "tiepoint.run.importers.hpatches_python:read_json_results",
    ".csv": "tiepoint.run.importers.hpatches_matlab:read_score_table",
}
"""Reader functions by file ending. Call with (path, split=, tasks=)."""
_ENDINGS = ", ".join((*SUFFIXES, *DATABASE_SUFFIXES, "[T] METHOD SET VERSION.txt"))


def import_files(
    paths: Sequence[Path],
    store: Store,
    *,
    name: str | None = None,
    split: str | None = None,
    tasks: Path | None = None,
) -> tuple[list[Run], list[str]]:
    """Import result files and folders of result files. Return the runs and notes for the user.

    Args:
        paths: Result files, and folders that are searched recursively.
        store: Store that receives the runs.
        name: Replaces the descriptor name in the files, which must have a single descriptor. If a database
            has no descriptor names, its results are numbered.
        split: Import only results of this split. Files that do not name a split are assigned to it.
        tasks: Folder with ``retr_queries_split-X.csv``, which lists the sequences of retrieval queries.

    Raises:
        InputError: A file is corrupt or has an unknown format, or an option has no effect. Nothing is stored.
    """
    if name is not None:
        method_name(name)
    files = expand_paths(paths)
    databases = {path: read_workbench(path, name=name) for path in files if is_workbench(path)}
    zeb_files = [path for path in files if is_zeb_file(path)]
    pose_errors, pose_notes = read_zeb_files(zeb_files)
    found = [
        imported
        for path in files
        if path not in databases and path not in zeb_files
        for imported in reader(path)(path, split=split, tasks=tasks)
    ]
    if tasks is not None and not any(i.task == "hpatches/retrieval" for i in found):
        raise InputError("`tasks` has no effect: these files have no retrieval results of HPatches")
    if split is not None and not found:
        tool = "ZEB" if pose_errors else "DescriptorWorkbench"
        raise InputError(f"`split` has no effect: results of {tool} have no splits; omit it")
    kept = [i for i in found if split is None or i.split == split]
    if found and not kept:
        have = ", ".join(sorted({str(i.split) for i in found}))
        raise InputError(f"these files have no results of split {split!r}; their splits are {have}")
    rows_of = (row for rows, _ in databases.values() for row in rows)
    own = (
        {i.name for i in kept}
        | {p.method for p in pose_errors}
        | {row.get("base", row["name"]) for row in rows_of}
    )
    if name is not None and len(own) > 1:
        raise InputError(
            f"`name` renames a single descriptor, but these files have {len(own)}: {', '.join(sorted(own))}"
        )
    runs: list[Run] = []
    told: list[str] = []
    ours = {hash_file(path) for path in files} | {p.sha256 for p in pose_errors}
    with _all_or_none(store, ours):
        for path, (rows, notes) in databases.items():
            more, noted = save_workbench(path, rows, store, name=name)
            runs += more
            told += [*notes, *noted]
        runs += [save_imported(i, store, name=name) for i in kept]
        poses = [save_zeb(p, store, name=name) for p in pose_errors]
    notes = [*told, *(n for i in kept for n in i.notes), *(n for p in poses for n in p.warnings), *pose_notes]
    return [*runs, *poses], list(dict.fromkeys(notes))


@contextlib.contextmanager
def _all_or_none(store: Store, ours: Collection[str]) -> Iterator[None]:
    """Undo the import if a file fails: remove the runs imported within the block.

    `ours` are the hashes of the files.
    """
    before = {run for run, _, _ in run_names(store)}
    try:
        yield
    except TiepointError:
        new = [
            head.id
            for head in load_heads(store)
            if head.id not in before and head.manifest.method.config.get("imported", {}).get("sha256") in ours
        ]
        if new:
            remove_runs(store, new)
        raise


def expand_paths(paths: Iterable[Path]) -> list[Path]:
    """Return the given files, and all importable files below the given folders, sorted by name."""
    out: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(
                p
                for p in path.rglob("*")
                if p.is_file() and (p.suffix in (*SUFFIXES, *DATABASE_SUFFIXES) or is_zeb_file(p))
            )
            if not inside:
                raise InputError(f"{path} has no result files; known suffixes are {_ENDINGS}")
            out += inside
        elif path.is_file():
            out.append(path)
        else:
            if exists(path):
                regular_file_size(path)  # raises an error that names the type
            raise InputError(f"{path} does not exist")
    return out


def reader(path: Path) -> Callable[..., list[ImportedResult]]:
    """Return the reader of a file by its ending."""
    import importlib

    if path.suffix in DATABASE_SUFFIXES:
        raise FormatError(path, explain_wrong_type(path, "is not an SQLite database of the workbench"))
    target = SUFFIXES.get(path.suffix)
    if target is None:
        raise InputError(
            f"{path}: the suffix {path.suffix!r} cannot be imported; known suffixes are {_ENDINGS}"
        )
    module, _, attribute = target.partition(":")
    read: Callable[..., list[ImportedResult]] = getattr(importlib.import_module(module), attribute)
    return read
