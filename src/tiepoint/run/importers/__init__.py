# SPDX-License-Identifier: BSD-3-Clause
"""Results of older tools as runs in the store. Each importer gives `Imported` results; `save` stores them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ...model.errors import InputError
from ...store.store import Store
from ..result import Run
from .result import Imported, save
from .workbench import DATABASE_SUFFIXES, import_workbench, is_workbench

__all__ = ["Imported", "import_files"]

SUFFIXES = {
    ".p": "tiepoint.run.importers.hpatches_pickle:read",
    ".pkl": "tiepoint.run.importers.hpatches_pickle:read",
    ".pickle": "tiepoint.run.importers.hpatches_pickle:read",
    ".json": "tiepoint.run.importers.hpatches_json:read",
    ".csv": "tiepoint.run.importers.hpatches_matlab:read",
}
"""By ending, what reads a file: called with (path, name=, split=, tasks=)."""


def import_files(
    paths: Sequence[Path],
    store: Store,
    *,
    name: str | None = None,
    split: str | None = None,
    tasks: Path | None = None,
) -> tuple[list[Run], list[str]]:
    """Import result files, or all that are below folders; returns the runs and what should be known of them.

    Args:
        paths: Files and folders.
        store: Where the runs go.
        name: Name of the descriptor where a file does not say it.
        split: Import only results of this split; a file that does not say its split is taken to be of it.
        tasks: Folder with ``retr_queries_split-X.csv``: tells the sequences of retrieval queries.

    Raises:
        InputError: A file that no importer knows, a damaged file; nothing is stored then.
    """
    found: list[Imported] = []
    runs: list[Run] = []
    told: list[str] = []
    for path in expanded(paths):
        if is_workbench(path):
            more, notes = import_workbench(path, store)
            runs += more
            told += notes
            continue
        found += reader(path)(path, name=name, split=split, tasks=tasks)
    kept = [i for i in found if split is None or i.split == split]
    if found and not kept:
        have = ", ".join(sorted({str(i.split) for i in found}))
        raise InputError(f"these files have no results of split {split!r}; they have {have}")
    found = kept
    if name is not None and len({i.name for i in found}) > 1:
        raise InputError(
            f"--name {name} fits one descriptor, and these files have {len({i.name for i in found})}"
        )
    notes = list(dict.fromkeys(n for i in found for n in i.notes))
    return [*runs, *(save(i, store) for i in found)], [*told, *notes]


def expanded(paths: Iterable[Path]) -> list[Path]:
    """The files among paths; of folders, all files below that an importer knows, in order of name."""
    out: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(
                p for p in path.rglob("*") if p.suffix in (*SUFFIXES, *DATABASE_SUFFIXES) and p.is_file()
            )
            if not inside:
                raise InputError(f"{path} has no result file; known endings are {', '.join(SUFFIXES)}")
            out += inside
        elif path.is_file():
            out.append(path)
        else:
            raise InputError(f"{path} does not exist")
    return out


def reader(path: Path) -> Callable[..., list[Imported]]:
    """What reads a file, by its ending."""
    import importlib

    target = SUFFIXES.get(path.suffix)
    if target is None:
        raise InputError(
            f"{path}: no importer knows the ending {path.suffix!r}; {', '.join(SUFFIXES)} are known"
        )
    module, _, attribute = target.partition(":")
    read: Callable[..., list[Imported]] = getattr(importlib.import_module(module), attribute)
    return read
