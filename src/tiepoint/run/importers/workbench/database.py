# SPDX-License-Identifier: BSD-3-Clause
"""Read and check the database of DescriptorWorkbench, and import its keypoint sets."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ....core.errors import FormatError, InputError
from ....core.formatting import count_text, path_part, printable
from ....core.keypoints import COLUMNS, Keypoints
from ....core.regular_files import regular_file_size
from ....formats.keypoints.set_folder import KeypointSet, sets_below
from ....store.store import Store
from ....store.writers import save_keypoint_set

MAX_DATABASE_ROWS = 100_000
"""Largest number of results read from a database."""
_MAX_TEXT_CHARS = 1 << 24
_UNSET = {"angle": -1, "response": 0, "octave": 0, "class_id": -1}
"""Placeholder for a missing value of a keypoint."""
_NAMES = ("scene_name", "image_name")
_MAX_NUMBER = "1e15"


@contextmanager
def opened_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a read-only connection. SQLite errors within the block become a `FormatError`.

    Invalid UTF-8 is replaced by replacement characters, and bytes are read as text. Values larger than 16 MiB
    are errors.
    """
    regular_file_size(path)
    connection = None
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_TEXT_CHARS)
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.row_factory = _row
        connection.execute("pragma trusted_schema = off")
        yield connection
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError) as e:
        raise FormatError(path, f"is a corrupt database ({e})") from e
    finally:
        if connection is not None:
            connection.close()


def _row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> dict[str, Any]:
    plain = (v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values)
    return dict(zip((column[0] for column in cursor.description), plain, strict=True))


def table_names(connection: sqlite3.Connection) -> set[str]:
    """Return the table names of a database."""
    return {r["name"] for r in connection.execute("select name from sqlite_master where type = 'table'")}


def table_columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return the column names of a table. Empty if the table is missing."""
    found = connection.execute("select name from pragma_table_info(?)", (table,))
    return {r["name"] for r in found}


def checked_count(connection: sqlite3.Connection, table: str, path: Path) -> int:
    """Return the number of rows of a table. Raise an error for more than 100,000 rows."""
    count = int(connection.execute(f'select count(*) as n from "{table}"').fetchone()["n"])
    if count > MAX_DATABASE_ROWS:
        raise FormatError(path, f"has {count:,} rows in {table}; the limit is {MAX_DATABASE_ROWS:,}")
    return count


def _has_sets(connection: sqlite3.Connection, path: Path) -> bool:
    if not {"keypoint_sets", "locked_keypoints"} <= table_names(connection):
        return False
    wanted = {"keypoint_sets": {"id", "name"}}
    wanted["locked_keypoints"] = {"id", "keypoint_set_id", *_NAMES, *COLUMNS}
    for table, columns in wanted.items():
        if lacking := sorted(columns - table_columns(connection, table)):
            raise FormatError(path, f"is corrupt: the table {table} lacks {', '.join(lacking)}")
    return True


def check_sets(connection: sqlite3.Connection, path: Path) -> None:
    """Raise an error for non-numeric keypoints, invalid scene names and duplicate image numbers.

    Scene names must be valid folder names, because exporting a set creates a folder for every scene. A scene
    named ``../x`` would be written outside the export folder.
    """
    if not _has_sets(connection, path):
        return
    checked_count(connection, "keypoint_sets", path)
    wrong = " or ".join(
        f"typeof({c}) not in ({kinds}) or {c} not between -{_MAX_NUMBER} and {_MAX_NUMBER}"
        for c in COLUMNS
        for kinds in ["'real', 'integer'" + (", 'null'" if c in _UNSET else "")]
    )
    wrong += "".join(f" or typeof({c}) not in ('text', 'integer')" for c in _NAMES)
    query = (
        f"select keypoint_set_id, scene_name, image_name, max(case when {wrong} then id end) as wrong "
        "from locked_keypoints group by keypoint_set_id, scene_name, image_name"
    )
    names: dict[tuple[Any, str, str], str] = {}
    for row in connection.execute(query):
        if row["wrong"] is not None:
            raise FormatError(
                path,
                f"keypoint {row['wrong']}: expected numbers in the columns {', '.join(COLUMNS)} "
                "and text as names",
            )
        try:
            path_part(str(row["scene_name"]), "the scene of keypoints")
            number = path_part(_image_number(str(row["image_name"])), "the image of keypoints")
        except InputError as e:
            raise FormatError(path, str(e)) from e
        scene, image = str(row["scene_name"]), str(row["image_name"])
        other = names.setdefault((row["keypoint_set_id"], scene, number), image)
        if other != image:
            both = f"{printable(other)} and {printable(image)}"
            raise FormatError(path, f"keypoints of {scene}: {both} are both image {number}; rename one")


def import_sets(path: Path, store: Store) -> list[str]:
    """Import every non-empty keypoint set. Return notes for the user."""
    notes = []
    for made in read_sets(path):
        if made.name in sets_below(store.root):
            notes.append(f"keypoint set {made.name} is already in the store and was not replaced")
            continue
        save_keypoint_set(store, made)
        notes.append(f"keypoint set {made.name}: {count_text(made.total, 'keypoint')} imported")
    return notes


def read_sets(path: Path) -> Iterator[KeypointSet]:
    """Yield the non-empty keypoint sets.

    Rows stay in insertion order, because the two sets of an intersection are paired by row. The workbench
    itself sorted rows by response.
    """
    with opened_database(path) as connection:
        if not _has_sets(connection, path):
            return
        check_sets(connection, path)
        for header in connection.execute("select * from keypoint_sets order by id").fetchall():
            made = _set(connection, header)
            if made is not None:
                yield made


def _set(connection: sqlite3.Connection, header: dict[str, Any]) -> KeypointSet | None:
    columns = ", ".join(f"coalesce({c}, {_UNSET[c]})" if c in _UNSET else c for c in COLUMNS)
    query = (
        f"select scene_name, image_name, {columns} from locked_keypoints "
        "where keypoint_set_id = ? order by id"
    )
    rows: dict[str, list[tuple[float, ...]]] = {}
    cursor = connection.cursor()
    cursor.row_factory = None
    for row in cursor.execute(query, (header["id"],)):
        rows.setdefault(f"{row[0]}/{_image_number(str(row[1]))}", []).append(row[2:])
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
    return KeypointSet(_set_name(str(header["name"])), images, recipe, pairs)


def _set_name(name: str) -> str:
    """Convert the name of a keypoint set to a valid folder name.

    >>> _set_name("sift 8000"), _set_name("../x"), len(_set_name("a" * 300))
    ('sift_8000', 'set_.._x', 100)
    """
    plain = re.sub(r"[^\w.-]", "_", name)[:100].rstrip(".")
    return plain if re.match(r"[A-Za-z0-9]", plain) else f"set_{plain}".rstrip(".")


def _image_number(image: str) -> str:
    """Parse the number in an image name: 1 for ``1.ppm``, ``img1.png`` and the workbench's ``1ppm.ppm``."""
    found = re.search(r"[0-9]+", image)
    return found[0] if found else Path(image).stem
