# SPDX-License-Identifier: BSD-3-Clause
"""Results as JSON: those of the drop-in scripts, and collections by split and descriptor.

Two forms are read, told apart by their keys: ``{"descriptor", "task", "split", "results"}`` as
`tiepoint.compat.hpatches_eval` writes it, and ``{split: {descriptor: results}}``. `results` has the layout of
the reference's pickles. Tried on the collections `matching_ap.json` and `verification.json` that were made
from the pickles of a fork.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...formats.text_file import read_bytes
from ...model.errors import FormatError
from ...model.records import Records
from .hpatches_tables import PROTOCOL, matching_records, retrieval_records, verification_records
from .result import Imported

OWN_KEYS = {"descriptor", "task", "split", "results"}


def read(path: Path, *, name: str | None, split: str | None, tasks: Path | None) -> list[Imported]:
    """All results of one file; of a collection, those of `split` where one is named."""
    try:
        raw = json.loads(read_bytes(path))
    except ValueError as e:
        raise FormatError(path, f"is not JSON ({e})") from e
    if not isinstance(raw, Mapping) or not raw:
        raise FormatError(path, "expected an object of results")
    if set(raw) >= OWN_KEYS:
        task = str(raw["task"])
        queries = None if tasks is None else tasks / f"retr_queries_split-{raw['split']}.csv"
        records, notes = _records(raw["results"], task, path, queries)
        said = tuple(f"{path.name}: {n}" for n in notes)
        return [
            Imported(
                name or str(raw["descriptor"]),
                f"hpatches/{task}",
                PROTOCOL,
                str(raw["split"]),
                records,
                path,
                said,
            )
        ]
    found = []
    for part, by_name in raw.items():
        if split is not None and part != split:
            continue
        if not isinstance(by_name, Mapping):
            raise FormatError(path, f"{part!r}: expected results by descriptor")
        for descriptor, table in by_name.items():
            task = _task_of(table, path)
            records, notes = _records(table, task, path, None)
            said = tuple(f"{path.name}: {n}" for n in notes)
            found.append(
                Imported(
                    name or str(descriptor), f"hpatches/{task}", PROTOCOL, str(part), records, path, said
                )
            )
    if not found:
        raise FormatError(path, f"has no results of split {split!r}; it has {', '.join(map(str, raw))}")
    return found


def _task_of(table: Any, path: Path) -> str:
    if isinstance(table, Mapping) and table:
        if set(table) == {"e", "h", "t"}:
            return "verification"
        if all(str(k).isdigit() for k in table):
            return "retrieval"
        if all(isinstance(v, Mapping) and set(v) == {"e", "h", "t"} for v in table.values()):
            return "matching"
    raise FormatError(path, "these are no verification, matching or retrieval results of the reference tool")


def _records(table: Any, task: str, path: Path, queries: Path | None) -> tuple[Records, list[str]]:
    if task == "matching":
        return matching_records(table, path), []
    if task == "verification":
        return verification_records(table, path)
    if task == "retrieval":
        return retrieval_records(table, path, queries)
    raise FormatError(path, f"unknown task {task!r}; verification, matching or retrieval")
