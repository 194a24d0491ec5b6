# SPDX-License-Identifier: BSD-3-Clause
"""Nested results of the Python reference (dicts by sequence, noise, image …) as records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.hpatches.task_csv import read_patches_csv
from ...model.errors import FormatError
from ...model.records import Records
from .result import NOISES, OFFICIAL_PAIRS, not_a_fraction, records_of

PROTOCOL = "hpatches-python"
NEGATIVES = ("inter", "intra")
SAME_AUC = (
    "the balanced AUC was left out: it is the same number for inter and intra negatives, which one fork of "
    "the tool writes by mistake"
)


def _number(value: Any, where: str, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise FormatError(path, f"{where}: expected a number, found {value!r}")
    if (wrong := not_a_fraction(float(value))) is not None:
        raise FormatError(path, f"{where}: {wrong}")
    return float(value)


def _level(table: Any, key: Any, where: str, path: Path) -> Any:
    """One step down a nested dict; numbers may be keys of text or of whole numbers."""
    if isinstance(table, Mapping):
        for name in (key, str(key)):
            if name in table:
                return table[name]
    raise FormatError(path, f"{where}: there is no {key!r}")


def matching_records(table: Any, path: Path) -> Records:
    """``[sequence][e|h|t][1..5]`` with a number, or with `ap` and perhaps `sr`."""
    if not isinstance(table, Mapping) or not table:
        raise FormatError(path, "expected results by sequence")
    scenes = sorted(str(s) for s in table)
    rows: dict[str, list[Any]] = {k: [] for k in ("scene", "noise", "image", "map", "success_rate")}
    for i, scene in enumerate(scenes):
        for z, letter in enumerate(NOISES):
            by_image = _level(table[scene], letter, scene, path)
            for k in range(1, 6):
                where = f"{scene}, {letter}{k}"
                cell = _level(by_image, k, where, path)
                ap = cell["ap"] if isinstance(cell, Mapping) and "ap" in cell else cell
                rate = cell.get("sr") if isinstance(cell, Mapping) else None
                rows["scene"].append(i)
                rows["noise"].append(z)
                rows["image"].append(k)
                rows["map"].append(_number(ap, where, path))
                rows["success_rate"].append(np.nan if rate is None else _number(rate, where, path))
    if np.isnan(rows["success_rate"]).any():
        del rows["success_rate"]
    return records_of(PROTOCOL, rows, scenes=scenes, task="hpatches/matching")


def verification_records(table: Any, path: Path) -> tuple[Records, list[str]]:
    """``[e|h|t][inter|intra][balanced|imbalanced]`` with `auc` and `ap`."""
    rows: dict[str, list[Any]] = {k: [] for k in ("noise", "negatives", "ap", "auc")}
    for z, letter in enumerate(NOISES):
        for k, kind in enumerate(NEGATIVES):
            where = f"{letter}, {kind}"
            cell = _level(_level(table, letter, "results", path), kind, where, path)
            ap = _level(_level(cell, "imbalanced", where, path), "ap", where, path)
            balanced = cell.get("balanced") or {}
            if not isinstance(balanced, Mapping):
                raise FormatError(path, f"{where}, balanced: expected results by name, found {balanced!r}")
            rows["noise"].append(z)
            rows["negatives"].append(k)
            rows["ap"].append(_number(ap, where, path))
            rows["auc"].append(_number(balanced["auc"], where, path) if "auc" in balanced else float("nan"))
    notes = []
    by_noise = np.array(rows["auc"]).reshape(len(NOISES), len(NEGATIVES))
    if np.isnan(by_noise).any():
        del rows["auc"]
    elif (by_noise[:, 0] == by_noise[:, 1]).all():
        del rows["auc"]
        notes.append(SAME_AUC)
    return records_of(
        PROTOCOL, rows, negatives=list(NEGATIVES), pairs=OFFICIAL_PAIRS, task="hpatches/verification"
    ), notes


def retrieval_records(table: Any, path: Path, queries: Path | None) -> tuple[Records, list[str]]:
    """``[query][e|h|t][pool]`` with `ap`; `queries` names the sequence of each query."""
    if not isinstance(table, Mapping) or not table:
        raise FormatError(path, "expected results by query")
    for q in table:
        if not str(q).isdigit():
            raise FormatError(path, f"expected results by query number, found {q!r}")
    numbers = sorted(int(q) for q in table)
    by_query = {int(q): v for q, v in table.items()}
    first = _level(by_query[numbers[0]], "e", f"query {numbers[0]}", path)
    if not isinstance(first, Mapping) or not all(str(k).isdigit() for k in first):
        raise FormatError(path, f"query {numbers[0]}, e: expected results by pool size")
    pools = sorted(int(k) for k in first)
    rows: dict[str, list[Any]] = {k: [] for k in ("query", "noise", "pool", "map")}
    for q in numbers:
        for z, letter in enumerate(NOISES):
            cells = _level(by_query[q], letter, f"query {q}", path)
            for p, size in enumerate(pools):
                where = f"query {q}, {letter}, pool {size}"
                cell = _level(cells, size, where, path)
                ap = cell["ap"] if isinstance(cell, Mapping) and "ap" in cell else cell
                rows["query"].append(q)
                rows["noise"].append(z)
                rows["pool"].append(p)
                rows["map"].append(_number(ap, where, path))
    meta: dict[str, Any] = {"pools": pools, "task": "hpatches/retrieval"}
    if queries is None:
        note = "retrieval results name queries by number: give the task files with --tasks DIR for intervals"
        return records_of(PROTOCOL, rows, **meta), [note]
    listed = read_patches_csv(queries)
    if len(listed) <= numbers[-1]:
        raise FormatError(
            queries, f"lists {len(listed)} queries, and {path} has results of query {numbers[-1]}"
        )
    rows["scene"] = listed.seq[np.array(rows["query"])].tolist()
    return records_of(PROTOCOL, rows, scenes=list(listed.sequences), **meta), []
