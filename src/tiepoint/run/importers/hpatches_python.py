# SPDX-License-Identifier: BSD-3-Clause
"""Import results of the Python reference implementation of HPatches from pickle and JSON files.

Pickle files are named ``NAME_TASK_SPLIT.p``. They are parsed without executing code. The parser was tested on
twelve files of a public fork: matching and verification on split full, pickle protocols 3 and 4, written by
dill. No retrieval file was available, so its layout is taken from the source code of the tool.

JSON files have one of two layouts, recognised by their keys. `tiepoint.compat.hpatches_eval` writes
``{"descriptor", "task", "split", "results"}``. Collections have the layout ``{split: {descriptor:
results}}``. They were tested on `matching_ap.json` and `verification.json` of a fork. The nested results have
the same layout in all files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError
from ...core.formatting import path_part
from ...core.records import Records
from ...formats import json_yaml
from ...formats.hpatches.task_lists import read_patches_csv
from ...formats.safe_pickle import read_plain_pickle
from .imported_result import (
    NEGATIVES,
    NOISES,
    OFFICIAL_PAIRS,
    ImportedResult,
    not_a_fraction,
    records_from_scores,
)

PROTOCOL = "hpatches-python"
TASKS = ("matching", "verification", "retrieval")
OWN_KEYS = {"descriptor", "task", "split", "results"}
_MAX_FILE_BYTES = 1e300
_DIGITS = 9
"""Maximum number of digits of a query number or a pool size."""
SAME_AUC = (
    "the balanced AUC was left out: it is the same number for inter and intra negatives, which one fork of "
    "the tool writes by mistake"
)


def read_pickle(path: Path, *, split: str | None, tasks: Path | None) -> list[ImportedResult]:
    """Read the results of one pickle file."""
    descriptor, task, named = name_parts(path)
    table = read_plain_pickle(path)
    return [_imported(descriptor, task, named, table, path, tasks)]


def name_parts(path: Path) -> tuple[str, str, str]:
    """Parse a file name and return descriptor, task and split.

    >>> name_parts(Path("hardnet+_matching_full.p"))
    ('hardnet+', 'matching', 'full')
    """
    parts = path.stem.rsplit("_", 2)
    if len(parts) != 3 or parts[1] not in TASKS or not all(parts):
        raise InputError(
            f"{path}: expected a name NAME_TASK_SPLIT{path.suffix}, where TASK is one of {', '.join(TASKS)}"
        )
    return parts[0], parts[1], parts[2]


def read_json_results(path: Path, *, split: str | None, tasks: Path | None) -> list[ImportedResult]:
    """Read the results of a JSON file. For a collection, `split` selects the results of one split."""
    raw = json_yaml.read_json(path)
    if not isinstance(raw, Mapping) or not raw:
        raise FormatError(path, "expected a JSON object of results")
    if set(raw) >= OWN_KEYS:
        name, task, own = str(raw["descriptor"]), str(raw["task"]), str(raw["split"])
        return [_imported(name, task, own, raw["results"], path, tasks)]
    found = []
    for part, by_name in raw.items():
        if split is not None and part != split:
            continue
        if not isinstance(by_name, Mapping):
            raise FormatError(path, f"{part!r}: expected an object that maps descriptors to results")
        for descriptor, table in by_name.items():
            task = _task_of(table, path)
            found.append(_imported(str(descriptor), task, str(part), table, path, None))
    if not found:
        raise FormatError(path, f"has no split {split!r}; its splits are {', '.join(map(str, raw))}")
    return found


def _imported(name: str, task: str, split: str, table: Any, path: Path, tasks: Path | None) -> ImportedResult:
    """Convert the nested results of one descriptor. The folder `tasks` has the query lists of retrieval."""
    notes: list[str] = []
    if task == "matching":
        records = matching_records(table, path)
    elif task == "verification":
        records, notes = verification_records(table, path)
    elif task == "retrieval":
        queries = None
        if tasks is not None:
            queries = tasks / path_part(f"retr_queries_split-{split}.csv", f"{path}: the list")
        records, notes = retrieval_records(table, path, queries)
    else:
        raise FormatError(path, f"unknown task {task!r}; expected verification, matching or retrieval")
    said = tuple(f"{path.name}: {n}" for n in notes)
    return ImportedResult(name, f"hpatches/{task}", PROTOCOL, split, records, path, said)


def _task_of(table: Any, path: Path) -> str:
    if isinstance(table, Mapping) and table:
        if set(table) == {"e", "h", "t"}:
            return "verification"
        if all(_is_count(k) for k in table):
            return "retrieval"
        if all(isinstance(v, Mapping) and set(v) == {"e", "h", "t"} for v in table.values()):
            return "matching"
    raise FormatError(path, "contains no verification, matching or retrieval results of the reference tool")


def _is_count(key: Any) -> bool:
    """Return whether a key is a valid index: an integer or its decimal string."""
    text = str(key) if isinstance(key, str | int) and not isinstance(key, bool) else ""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def _number(value: Any, where: str, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MAX_FILE_BYTES:
        raise FormatError(path, f"{where}: expected a number, found {repr(value)[:80]}")
    if (wrong := not_a_fraction(float(value))) is not None:
        raise FormatError(path, f"{where}: {wrong}")
    return float(value)


def _ap(cell: Any, where: str, path: Path) -> float:
    """Return the AP of an entry, which is a number or a dict with the key `ap`."""
    return _number(cell["ap"] if isinstance(cell, Mapping) and "ap" in cell else cell, where, path)


def _columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}


def _level(table: Any, key: Any, where: str, path: Path) -> Any:
    """Return the value of a key in a nested dict. Numeric keys may be integers or strings."""
    if isinstance(table, Mapping):
        for name in (key, str(key)):
            if name in table:
                return table[name]
    raise FormatError(path, f"{where}: {key!r} is missing")


def matching_records(table: Any, path: Path) -> Records:
    """Convert ``results[sequence][e|h|t][1..5]``. Entries are numbers or dicts with `ap` and maybe `sr`."""
    if not isinstance(table, Mapping) or not table:
        raise FormatError(path, "expected a dictionary that maps sequences to results")
    by_scene = {str(s): value for s, value in table.items()}
    if len(by_scene) != len(table):
        raise FormatError(path, "duplicate sequence")
    scenes = sorted(by_scene)
    rows = []
    for i, scene in enumerate(scenes):
        for z, letter in enumerate(NOISES):
            by_image = _level(by_scene[scene], letter, scene, path)
            for k in range(1, 6):
                where = f"{scene}, {letter}{k}"
                cell = _level(by_image, k, where, path)
                rate = cell.get("sr") if isinstance(cell, Mapping) else None
                success = np.nan if rate is None else _number(rate, where, path)
                rows.append((i, z, k, _ap(cell, where, path), success))
    columns = _columns(("scene", "noise", "image", "map", "success_rate"), rows)
    if np.isnan(columns["success_rate"]).any():
        del columns["success_rate"]
    return records_from_scores(PROTOCOL, columns, scenes=scenes, task="hpatches/matching")


def verification_records(table: Any, path: Path) -> tuple[Records, list[str]]:
    """Convert ``results[e|h|t][inter|intra][balanced|imbalanced]``. Entries are dicts with `auc` and `ap`."""
    rows = []
    for z, letter in enumerate(NOISES):
        for k, kind in enumerate(NEGATIVES):
            where = f"{letter}, {kind}"
            cell = _level(_level(table, letter, "results", path), kind, where, path)
            ap = _level(_level(cell, "imbalanced", where, path), "ap", where, path)
            balanced = cell.get("balanced") or {}
            if not isinstance(balanced, Mapping):
                raise FormatError(
                    path, f"{where}, balanced: expected a dictionary, found {repr(balanced)[:80]}"
                )
            auc = _number(balanced["auc"], where, path) if "auc" in balanced else float("nan")
            rows.append((z, k, _number(ap, where, path), auc))
    columns = _columns(("noise", "negatives", "ap", "auc"), rows)
    copied = _copied(np.array(columns["auc"]).reshape(len(NOISES), len(NEGATIVES)))
    if copied or np.isnan(columns["auc"]).any():
        del columns["auc"]
    notes = [SAME_AUC] if copied else []
    return records_from_scores(
        PROTOCOL, columns, negatives=list(NEGATIVES), pairs=OFFICIAL_PAIRS, task="hpatches/verification"
    ), notes


def _copied(auc: NDArray[np.float64]) -> bool:
    """Return whether the tool wrote the AUC of one kind of negatives for both kinds.

    `auc` has shape (noise levels, kinds of negatives). Equal columns indicate a copy, with two exceptions: an
    AUC of 0 everywhere (all distances are equal) and an AUC of 1 everywhere (no errors) can be correct.

    >>> auc = np.array([[0.9, 0.9], [0.8, 0.8]])
    >>> _copied(auc), _copied(auc - [[0.0, 0.1]]), _copied(0 * auc)
    (True, False, False)
    """
    return bool((auc[:, 0] == auc[:, 1]).all() and ((auc > 0) & (auc < 1)).any())


def _numbered(table: Mapping[Any, Any], where: str, path: Path) -> dict[int, Any]:
    """Convert the keys of a table to integers. ``1``, ``"1"`` and ``"01"`` are the same key."""
    made = {int(key): value for key, value in table.items()}
    if len(made) != len(table):
        raise FormatError(path, f"{where}: two keys are the same number, such as 1 and 01")
    return made


def retrieval_records(table: Any, path: Path, queries: Path | None) -> tuple[Records, list[str]]:
    """Convert ``results[query][e|h|t][pool]``. Entries have `ap`. `queries` names the query sequences."""
    if not isinstance(table, Mapping) or not table:
        raise FormatError(path, "expected a dictionary that maps query numbers to results")
    for q in table:
        if not _is_count(q):
            raise FormatError(path, f"expected query numbers as keys, found {repr(q)[:80]}")
    by_query = _numbered(table, "query", path)
    numbers = sorted(by_query)
    first = _level(by_query[numbers[0]], "e", f"query {numbers[0]}", path)
    if not isinstance(first, Mapping) or not all(_is_count(k) for k in first):
        raise FormatError(path, f"query {numbers[0]}, noise e: expected a dictionary by pool size")
    pools = sorted(_numbered(first, f"query {numbers[0]}, e: pool", path))
    rows = []
    for q in numbers:
        for z, letter in enumerate(NOISES):
            cells = _level(by_query[q], letter, f"query {q}", path)
            if isinstance(cells, Mapping) and len(cells) != len(pools):
                reason = f"query {q}, {letter} has {len(cells)} pools, query {numbers[0]} has {len(pools)}"
                raise FormatError(path, reason)
            for p, size in enumerate(pools):
                where = f"query {q}, {letter}, pool {size}"
                rows.append((q, z, p, _ap(_level(cells, size, where, path), where, path)))
    columns = _columns(("query", "noise", "pool", "map"), rows)
    meta: dict[str, Any] = {"pools": pools, "task": "hpatches/retrieval"}
    if queries is None:
        note = "retrieval results name queries by number; give the task files (`tasks`) to get intervals"
        return records_from_scores(PROTOCOL, columns, **meta), [note]
    listed = read_patches_csv(queries)
    if len(listed) <= numbers[-1]:
        raise FormatError(
            queries,
            f"has only {len(listed)} queries, but {path} has query {numbers[-1]}; pass the query list "
            "of the same split",
        )
    columns["scene"] = listed.seq[np.array(columns["query"])].tolist()
    return records_from_scores(PROTOCOL, columns, scenes=list(listed.sequences), **meta), []
