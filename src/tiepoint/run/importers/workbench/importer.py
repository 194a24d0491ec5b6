# SPDX-License-Identifier: BSD-3-Clause
"""Import results of DescriptorWorkbench from its database or CSV exports."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....core.errors import FormatError
from ....core.formatting import count_text
from ....core.hashing import hash_file, hash_json
from ....core.regular_files import regular_file_size
from ....formats.csv_table import named_columns, unescape_formula
from ....formats.file_io import MAX_TEXT_BYTES, check_lines
from ....store.schema import WORKBENCH_COLUMNS
from ....store.store import Store
from ....store.stored_run import DatasetFacts, Manifest, MethodFacts
from ....tasks import load_task
from ....tasks.info import metric_info
from ...finish import finish_run
from ...result import Run
from ..imported_result import not_a_fraction
from .database import check_sets, checked_count, import_sets, opened_database, table_columns, table_names
from .scores import (
    NUMBERS,
    PROTOCOL,
    counts_of,
    failure_reason,
    fractions_of,
    parse_metadata,
    skipped_notes,
    unreliable_notes,
    without_sentinels,
    workbench_scene_values,
    workbench_scores,
)

DATABASE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_MAGIC = b"SQLite format 3\0"


def is_workbench(path: Path) -> bool:
    """Return whether a file is a workbench database or has the header of its CSV export."""
    try:
        with path.open("rb") as f:
            start = f.read(4096)
    except OSError:
        return False
    if start.startswith(_MAGIC):
        return True
    return path.suffix == ".csv" and b"true_map_micro" in start.partition(b"\n")[0]


def read_workbench(path: Path, *, name: str | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    """Read and check the results of a database or a CSV export. Return them with notes for the user.

    If a database has no descriptor names, `name` or the file name is used.
    """
    if path.suffix == ".csv":
        rows, notes = _csv_rows(path), []
        if not any(workbench_scene_values(row["metadata_values"]) for row in rows):
            notes = ["the column metadata of the CSV export lists no scenes, so scores have no intervals"]
    else:
        rows, notes = _database_rows(path, name)
    for row in rows:
        _check_values(row, path)
    notes += _numbered(rows, path)
    return rows, notes + [f"{path.name}: {sentence}" for sentence in skipped_notes(rows)]


def _numbered(rows: Sequence[dict[str, Any]], path: Path) -> list[str]:
    """Number the results of each experiment in the field `again`. Return notes on repeated results."""
    seen: Counter[tuple[Any, Any]] = Counter()
    for row in rows:
        key = row["name"], row.get("experiment_id")
        row["again"] = seen[key]
        seen[key] += 1
    return [
        f"{path.name}: experiment {of} ({name}) has {count} results; each becomes a separate run"
        for (name, of), count in seen.items()
        if count > 1
    ]


def save_workbench(
    path: Path, rows: Sequence[Mapping[str, Any]], store: Store, *, name: str | None = None
) -> tuple[list[Run], list[str]]:
    """Store results. Return the runs and notes for the user.

    Every experiment becomes up to four runs under protocol `workbench`: ranking, and verification, retrieval
    and images if they were enabled. A failed experiment becomes a failed run. Keypoint sets are imported,
    too. Keypoints stay in insertion order, because intersected sets are paired by row.
    """
    notes = [] if path.suffix == ".csv" else import_sets(path, store)
    source = {"file": path.name, "sha256": hash_file(path)}
    runs = [run for row in rows for run in _runs(row, source, store, name)]
    of: dict[str, dict[str, None]] = {}
    for run in runs:
        for warning in run.warnings:
            of.setdefault(warning, {})[run.method] = None
    return runs, notes + [f"{', '.join(names)}: {warning}" for warning, names in of.items()]


def _check_values(row: Mapping[str, Any], path: Path) -> None:
    """Raise an error for non-numeric scores and for fractions outside 0 to 1, before anything is stored."""
    line = row.get("line")
    where = "" if line is not None else f"experiment {row.get('experiment_id')}, "
    for column in dict.fromkeys((*WORKBENCH_COLUMNS, *NUMBERS)):
        if row.get(column) is not None and _number(row[column]) is None:
            found = repr(row[column])[:80]
            raise FormatError(path, f"{where}{column}: expected a number, found {found}", line=line)
    values = without_sentinels(row)
    for column, (task, metric) in WORKBENCH_COLUMNS.items():
        if values.get(column) is None:
            continue
        fraction = metric_info(load_task(task).info, metric).unit == "fraction"
        wrong = not_a_fraction(float(values[column])) if fraction else None
        if wrong is not None:
            raise FormatError(path, f"{where}{column}: {wrong}", line=line)
    for key, number in fractions_of(row.get("metadata_values", {})).items():
        if (wrong := not_a_fraction(number)) is not None:
            raise FormatError(path, f"{where}metadata, {key}: {wrong}", line=line)
    for key, number in counts_of(row.get("metadata_values", {})).items():
        if not 0 <= number < 1 << 53:
            raise FormatError(path, f"{where}metadata, {key}: expected a count, found {number:g}", line=line)


def _number(value: Any) -> float | None:
    """Convert a number or numeric text to a finite number. Return None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _runs(row: Mapping[str, Any], source: Mapping[str, Any], store: Store, name: str | None) -> list[Run]:
    told = unreliable_notes(row)
    values = without_sentinels(row)
    reason = failure_reason(row)
    out = []
    tasks = dict.fromkeys(task for task, _ in WORKBENCH_COLUMNS.values())
    for task in tasks:
        scores = [] if reason else workbench_scores(task, values, row)
        if not scores and not (reason and task == "keypoints/ranking"):
            continue
        run = finish_run(
            _manifest(row, task, source, told, name),
            {PROTOCOL: scores} if scores else {},
            store=store,
            error=reason,
            created_at=str(row["timestamp"])[:32] if row.get("timestamp") else None,
            time_s=_seconds(values),
            keypoint_set=_set_row(row),
        )
        out.append(Run.from_stored(run, store, {}, (PROTOCOL,)))
    return out


def _seconds(values: Mapping[str, Any]) -> float | None:
    time_ms = values.get("processing_time_ms")
    return None if time_ms is None else float(time_ms) / 1000


def _manifest(
    row: Mapping[str, Any], task: str, source: Mapping[str, Any], told: Sequence[str], name: str | None
) -> Manifest:
    config = {
        "imported": dict(source),
        "experiment_id": row.get("experiment_id"),
        "parameters": row.get("parameters"),
        "pooling_strategy": row.get("pooling_strategy"),
    }
    dataset = str(row.get("dataset_name") or "not known")
    return Manifest(
        task=task,
        protocols=(PROTOCOL,),
        method=MethodFacts(
            name=row["name"] if name is None or "base" in row else name,
            name_given=name is not None,
            family="keypoints",
            config=config,
        ),
        dataset=DatasetFacts(
            hash=hash_json(["workbench", dataset]),
            name=Path(dataset).name or dataset,
            path=dataset,
            imported=True,
        ),
        warnings=tuple(told),
        content=hash_json(
            [
                "workbench",
                source["sha256"],
                row.get("experiment_id"),
                *([row["again"]] if row["again"] else []),
            ]
        ),
    )


def _set_row(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the database row of an experiment's keypoint set. None if the database does not name the set."""
    if row.get("keypoint_set_name") is None:
        return None
    return {
        "id": hash_json(["workbench set", row.get("dataset_name"), row["keypoint_set_name"]]),
        "name": str(row["keypoint_set_name"]),
        "generator_type": _text(row.get("generator_type")),
        "generation_method": _text(row.get("generation_method")),
        "dataset_path": _text(row.get("dataset_path")),
        "max_features": None if (most := _number(row.get("max_features"))) is None else int(most),
        "tolerance_px": _number(row.get("tolerance_px")),
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _csv_rows(path: Path) -> list[dict[str, Any]]:
    regular_file_size(path, most=MAX_TEXT_BYTES)
    check_lines(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as f:
            reader = csv.DictReader(f)
            named_columns(reader.fieldnames or [], path)
            found = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise FormatError(path, f"is not a readable CSV file ({e})") from e
    rows = []
    for number, line in enumerate(found, start=2):
        row: dict[str, Any] = {}
        for key, text in line.items():
            if key is None or text is None:
                raise FormatError(path, "the row has more or fewer fields than the header", line=number)
            row[key] = _plain(text)
        if "descriptor_type" not in row:
            raise FormatError(path, "the column descriptor_type is missing; name the descriptors", line=1)
        if not (called := unescape_formula(line["descriptor_type"].strip())):
            raise FormatError(path, "descriptor_type is empty; name the descriptor", line=number)
        if "processing_time_s" in row and row["processing_time_s"] is not None:
            seconds = _number(row["processing_time_s"])
            row["processing_time_ms"] = row["processing_time_s"] if seconds is None else 1000 * seconds
        row["name"], row["line"] = called, number
        _read_texts(row)
        row.setdefault("experiment_id", number)
        rows.append(row)
    return rows


def _plain(text: str) -> Any:
    if text.strip() == "" or text.strip().lower() in ("nan", "null", "none"):
        return None
    try:
        return float(text)
    except ValueError:
        return unescape_formula(text)


def _database_rows(path: Path, name: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    with opened_database(path) as connection:
        check_sets(connection, path)
        tables = table_names(connection)
        columns = table_columns(connection, "results")
        if "results" not in tables or columns.isdisjoint(WORKBENCH_COLUMNS):
            lacks = "the table results is missing" if not columns else "the table results has no known scores"
            raise FormatError(path, f"is not a workbench database: {lacks}")
        every = checked_count(connection, "results", path)
        named = table_columns(connection, "experiments")
        if "experiments" not in tables or "experiment_id" not in columns:
            found = connection.execute("select *, rowid as row_number from results order by rowid").fetchall()
            return _unnamed(found, name or path.stem, path)
        if not {"id", "descriptor_type"} <= named:
            raise FormatError(path, "is corrupt: the table experiments has no column id or descriptor_type")
        sets = {}
        if {"id", "name"} <= table_columns(connection, "keypoint_sets"):
            sets = {r["id"]: r for r in connection.execute("select * from keypoint_sets")}
        query = (
            "select e.*, r.*, e.id as experiment_id from results r "
            "join experiments e on e.id = r.experiment_id order by r.rowid"
        )
        rows = [_joined(r, sets) for r in connection.execute(query)]
        notes = []
        if lost := every - len(rows):
            notes.append(f"{lost} results were skipped, because their experiments are missing in {path.name}")
        patches = "patch_benchmark_results"
        if patches in tables and (count := checked_count(connection, patches, path)):
            notes.append(
                f"{count_text(count, 'patch result was', 'patch results were')} skipped, because the patches "
                "are not those of HPatches tasks, and SIFT and SURF keypoints extend far beyond the patch"
            )
        return rows, notes


def _unnamed(rows: list[dict[str, Any]], base: str, path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of a database that has only the table `results`. Method names are generated."""
    for k, row in enumerate(rows, start=1):
        row["name"] = base if len(rows) == 1 else f"{base}-{k}"
        row["base"] = base
        row["experiment_id"] = row.pop("row_number")
        _read_texts(row)
    if not rows:
        return rows, []
    called = f"it is {base}" if len(rows) == 1 else f"they are {base}-1 to {base}-{len(rows)}, in row order"
    note = f"{path.name} has no table experiments with descriptor names: {called}; `name` renames them"
    return rows, [note]


def _read_texts(row: dict[str, Any]) -> None:
    row["metadata_values"] = parse_metadata(str(row.get("metadata") or ""))
    row["parameter_values"] = parse_metadata(str(row.get("parameters") or ""))


def _joined(row: dict[str, Any], sets: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any]:
    row["name"] = str(row["descriptor_type"])
    found = sets.get(row.get("keypoint_set_id"))
    if found is not None:
        row["keypoint_set_name"] = found["name"]
        for key in ("generator_type", "generation_method", "dataset_path", "tolerance_px"):
            row[key] = found.get(key)
    _read_texts(row)
    return row
