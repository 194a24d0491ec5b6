# SPDX-License-Identifier: BSD-3-Clause
"""Content of a store as values of a snapshot: SQL, manifests, cache keys, records, features.

Files are found by their form in any folder. The layout of a store may change; its keys and file formats may
not.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from equality_masks import KEY_RULES, MASKED, is_time, json_parts, mask, masked_tree, number
from equality_snapshot import Cell, Place, digest

KEY = re.compile(r"[0-9a-f]{12,64}")
MAGIC = b"SQLite format 3\0"
RUN_ID = 12
"""Digits of a run id; the keys of measured costs are longer."""
LONG = 120
"""Longer text is stored as its hash."""


def short(text: Any) -> Any:
    """Return the hash of a long text, any other value unchanged."""
    return digest(text.encode()) if isinstance(text, str) and len(text) > LONG else text


def canonical(place: Place, value: Any) -> str:
    """Return the hash of a JSON value after masking."""
    return digest(json.dumps(masked_tree(place.plain_tree(value)), sort_keys=True).encode())


# --- SQL ---


def databases(folder: Path) -> Iterator[Path]:
    """Yield the SQLite files below a folder."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                yield path


def columns_of(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return name, type, null rule and key position of every column, in order."""
    rows = connection.execute(f'pragma table_info("{table}")').fetchall()
    return [
        f"{name} {kind}{' not null' if strict else ''} {key}".strip()
        for _, name, kind, strict, _, key in rows
    ]


def score_rows(place: Place, connection: sqlite3.Connection) -> dict[str, Any]:
    """Return a hash of the score rows of each run; notes are words, only their presence counts."""
    found = connection.execute("select * from scores order by run_id, position, protocol, metric, [group]")
    names = [c[0] for c in found.description]
    by_run: dict[str, list[str]] = {}
    for row in found:
        values = dict(zip(names, row, strict=True))
        values["note"] = values["note"] is not None
        if is_time(values["metric"]):
            values |= dict.fromkeys(("value", "low", "high", "n"), MASKED)
        by_run.setdefault(values["run_id"], []).append(repr(values))
    return {k: [len(rows), digest("\n".join(rows).encode())] for k, rows in by_run.items()}


def table_rows(place: Place, connection: sqlite3.Connection, table: str) -> dict[str, Any]:
    """Return the masked rows of a table or view by their id, or by their position if they have none."""
    found = connection.execute(f'select * from "{table}"')
    names = [c[0] for c in found.description]
    rows: dict[str, Any] = {}
    made = []
    for row in found:
        values = {
            n: MASKED if n in KEY_RULES and v is not None else v for n, v in zip(names, row, strict=True)
        }
        values.pop("manifest", None)
        plain = {n: mask(place.plain(v)) if isinstance(v, str) else number(v) for n, v in values.items()}
        if plain.get("metadata") is not None:
            plain["metadata"] = re.sub(r"(\w*time\w*)=[^;]*", r"\1=MASKED", plain["metadata"])
        if isinstance(plain.get("error"), str):
            plain["error"] = True  # its wording is in the manifest or in the words of a command
        made.append((str(plain.get("id", "")), plain))
    for i, (key, plain) in enumerate(sorted(made, key=lambda m: (m[0], repr(m[1])))):
        name = key or str(i)
        while name in rows:
            name += " (again)"
        rows[name] = {n: short(v) for n, v in plain.items()}
    return rows


def sql_parts(place: Place, path: Path) -> dict[str, Any]:
    """Return the tables and views of a database, their columns and their rows, and the manifests."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        listed = connection.execute(
            "select name, type from sqlite_master where type in ('table', 'view') order by name"
        ).fetchall()
        found: dict[str, Any] = {"tables": dict(listed), "columns": {}, "rows": {}}
        for name, _ in listed:
            found["columns"][name] = columns_of(connection, name)
            found["rows"][name] = (
                score_rows(place, connection) if name == "scores" else table_rows(place, connection, name)
            )
        manifests = connection.execute("select id, manifest from runs order by id").fetchall()
    finally:
        connection.close()
    values, words = {}, {}
    for run, text in manifests:
        values[run], words[run] = json_parts(place.plain_tree(json.loads(text)))
        values[run] = {k: short(v) for k, v in values[run].items()}
    return {"sql": found, "manifests": values, "words": words}


# --- files by key ---


def record_parts(place: Place, path: Path) -> dict[str, Any]:
    """Return type, rows and hash of every column of a record file, and hashes of its header and bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path, use_threads=False)
    columns = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        flat = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
        array = flat.to_numpy(zero_copy_only=False)
        raw = (
            repr(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()
        )
        columns[name] = f"{column.type} {len(column)} {digest(raw)[:32]}"
    header = json.loads((table.schema.metadata or {}).get(b"tiepoint", b"{}"))
    return {
        "columns": columns,
        "header": canonical(place, header),
        "kind": header.get("kind"),
        "bytes": digest(path.read_bytes())[:32],
    }


def feature_parts(place: Place, path: Path) -> list[Any]:
    """Return the content hash of a feature entry, and hashes of its masked header and of its arrays."""
    header = json.loads(path.read_text(encoding="utf-8"))
    arrays = [f"{p.name} {digest(p.read_bytes())}" for p in sorted(path.parent.glob("*.npy"))]
    return [header.get("content"), canonical(place, header), digest("\n".join(arrays).encode())]


def run_file_hash(place: Place, path: Path) -> str:
    """Return the hash of a run file without times and wording."""
    values, _ = json_parts(place.plain_tree(json.loads(path.read_text(encoding="utf-8"))))
    return digest(json.dumps(values).encode())


def array_hash(path: Path) -> str:
    """Return the hash of the arrays of an ``.npz`` file and of its bytes."""
    with np.load(path, allow_pickle=False) as arrays:
        made = {
            n: (str(arrays[n].dtype), arrays[n].shape, digest(arrays[n].tobytes())) for n in sorted(arrays)
        }
    return f"{digest(repr(made).encode())[:32]} {digest(path.read_bytes())[:32]}"


def store_parts(place: Place, folder: Path) -> dict[str, Any]:
    """Return everything that a store holds; manifests without times and versions."""
    values: dict[str, Any] = {"records": {}, "features": {}, "arrays": {}, "run files": {}}
    words: dict[str, Any] = {}
    for path in databases(folder):
        found = sql_parts(place, path)
        values["sql"], values["manifests"] = found["sql"], found["manifests"]
        words["manifests"] = found["words"]
    keys: dict[str, list[str]] = {"record": [], "feature": [], "array": [], "list": [], "cost": []}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        stem = path.stem
        if path.suffix == ".parquet" and KEY.fullmatch(stem):
            keys["record"].append(stem)
            values["records"][stem] = record_parts(place, path)
        elif path.name == "meta.json" and KEY.fullmatch(path.parent.name):
            keys["feature"].append(path.parent.name)
            values["features"][path.parent.name] = feature_parts(place, path)
        elif path.suffix == ".npz" and KEY.fullmatch(stem):
            keys["array"].append(stem)
            values["arrays"][stem] = array_hash(path)
        elif path.suffix == ".bin" and KEY.fullmatch(stem.rpartition("-")[2]) and "-" in stem:
            keys["list"].append(stem)
        elif path.suffix == ".json" and KEY.fullmatch(stem) and len(stem) != RUN_ID:
            keys["cost"].append(stem)
        elif path.suffix == ".json" and KEY.fullmatch(stem):
            values["run files"][stem] = run_file_hash(place, path)
    values["cache keys"] = {kind: sorted(found) for kind, found in keys.items()}
    return {"values": values, "words": words}


def store_cells() -> Iterator[Cell]:
    """Snapshot the store that all cells share; run last."""
    yield Cell("store", "content of the shared store", lambda place: store_parts(place, place.store))
