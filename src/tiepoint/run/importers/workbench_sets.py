# SPDX-License-Identifier: BSD-3-Clause
"""Keypoint sets of a workbench database as keypoint sets of ours."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.keypoints.set_folder import KeypointSet, sets_below
from ...model.keypoints import COLUMNS, Keypoints
from ...store.keypoint_sets import save_keypoint_set
from ...store.store import Store


def import_sets(path: Path, store: Store) -> list[str]:
    """Import every set that has keypoints; returns what should be known.

    Rows keep the order they were inserted in: that order, not the response by which the workbench read them
    back, pairs the two sides of an intersection.
    """
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        connection.row_factory = sqlite3.Row
        tables = {r[0] for r in connection.execute("select name from sqlite_master where type = 'table'")}
        if not {"keypoint_sets", "locked_keypoints"} <= tables:
            return []
        notes = []
        for header in connection.execute("select * from keypoint_sets order by id").fetchall():
            made = _set(connection, dict(header))
            if made is None:
                continue
            if made.name in sets_below(store.root):
                notes.append(f"keypoint set {made.name} is in the store already and was not replaced")
                continue
            save_keypoint_set(store, made)
            notes.append(f"keypoint set {made.name}: {made.total:,} keypoints imported")
        return notes
    finally:
        connection.close()


def _set(connection: sqlite3.Connection, header: dict[str, Any]) -> KeypointSet | None:
    columns = ", ".join(COLUMNS)
    query = (
        f"select scene_name, image_name, {columns} from locked_keypoints "
        "where keypoint_set_id = ? order by id"
    )
    rows: dict[str, list[tuple[float, ...]]] = {}
    for row in connection.execute(query, (header["id"],)):
        rows.setdefault(f"{row[0]}/{_number(str(row[1]))}", []).append(tuple(row)[2:])
    if not rows:
        return None
    images = {}
    for key in sorted(rows):
        table = np.array(rows[key], np.float64).reshape(-1, len(COLUMNS))
        table[table[:, 3] < 0, 3] = np.nan
        table[table[:, 2] <= 0, 2] = 1.0
        images[key] = Keypoints.from_array(table)
    paired = header.get("source_set_a_id") is not None
    pairs = {key: np.arange(len(k), dtype=np.int64) for key, k in images.items()} if paired else None
    recipe = {
        "method": header.get("generation_method"), "detector": header.get("generator_type"),
        "max_features": header.get("max_features"), "border_px": None, "data": header.get("dataset_path"),
        "tolerance_px": header.get("tolerance_px"), "imported_as": header["name"],
    }  # fmt: skip
    name = re.sub(r"[^\w.-]", "_", str(header["name"]))
    return KeypointSet(name, images, recipe, pairs)


def _number(image: str) -> str:
    """``1.ppm``, ``1ppm.ppm`` (the workbench's own import) and ``img1.png`` are image 1."""
    found = re.search(r"\d+", image)
    return found[0] if found else Path(image).stem
