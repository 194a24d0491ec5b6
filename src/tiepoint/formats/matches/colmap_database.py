# SPDX-License-Identifier: BSD-3-Clause
"""Read keypoints, matches and two-view geometries from a COLMAP database (SQLite).

Tables: ``images`` (image_id, name); ``keypoints`` (image_id, rows, cols, data) with float32 values;
``matches`` and ``two_view_geometries`` (pair_id, rows, cols, data) with pairs of uint32 keypoint indices.
The pair of images i < j has ``pair_id = 2147483647 * i + j``.

In a COLMAP database the centre of the first pixel is (0.5, 0.5). All points and matrices are converted, so
that this centre is at (0, 0).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError
from ...core.records import Arrays
from ...core.regular_files import is_file, regular_file_size
from ..file_io import error_reason
from .source import index_unique, pair_text, without_ending

SUFFIX = ".db"
CENTRE_PX = 0.5
"""Coordinate of the centre of the first pixel in a database."""
_MAX_IMAGES = 2147483647
_MAGIC = b"SQLite format 3\0"
_MIN_LENGTH = 1 << 20
_BLOB = ("rows", "cols", "data")
_COLUMNS = {
    "images": ("image_id", "name"),
    "keypoints": ("image_id", *_BLOB),
    "matches": ("pair_id", *_BLOB),
    "two_view_geometries": ("pair_id", *_BLOB, "F", "H"),
}
"""Columns of the database that are read, by table."""


def is_colmap_database(path: Path) -> bool:
    """Return whether a file is an SQLite database with the suffix of COLMAP's databases."""
    if path.suffix != SUFFIX or not is_file(path):
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


@contextlib.contextmanager
def opened_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database without creating files next to it. SQLite errors become a `FormatError`."""
    size = regular_file_size(path)
    for end in ("-wal", "-journal"):
        beside = path.with_name(path.name + end)
        if is_file(beside) and beside.stat().st_size:
            raise FormatError(
                path, f"has unfinished changes in {beside.name}; close the program that writes it"
            )
    connection = None
    try:
        # COLMAP uses a write-ahead log; only immutable databases are read without shared memory files.
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(size, _MIN_LENGTH))
        connection.execute("pragma trusted_schema = off")
        yield connection
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError) as e:
        raise FormatError(
            path, f"is not a readable COLMAP database ({error_reason(e)}); copy it again"
        ) from e
    finally:
        if connection is not None:
            connection.close()


def _exists(connection: sqlite3.Connection, table: str) -> bool:
    query = "select 1 from sqlite_master where type = 'table' and name = ?"
    return connection.execute(query, (table,)).fetchone() is not None


def _check_columns(connection: sqlite3.Connection, table: str, path: Path) -> None:
    if not _exists(connection, table):
        raise FormatError(path, f"has no table {table}; expected a COLMAP database")
    found = {row[1] for row in connection.execute(f"pragma table_info({table})")}
    missing = [name for name in _COLUMNS[table] if name not in found]
    if missing:
        raise FormatError(
            path, f"the table {table} has no column {', '.join(missing)}; expected a COLMAP database"
        )


def _array(row: Sequence[Any], dtype: str, what: str, path: Path) -> NDArray[Any]:
    """Return the array that the columns rows, cols and data of a table row contain."""
    rows, cols, data = row
    data = b"" if data is None else data
    if not isinstance(rows, int) or not isinstance(cols, int) or not isinstance(data, bytes):
        raise FormatError(path, f"{what}: rows and cols must be integers, and data must be bytes")
    if rows < 0 or cols < 0 or rows * cols * np.dtype(dtype).itemsize != len(data):
        raise FormatError(
            path,
            f"{what} has {len(data)} bytes for {rows} rows and {cols} columns of {dtype[1:]}; write it again",
        )
    return np.frombuffer(data, dtype).reshape(rows, cols)


class ColmapPair(NamedTuple):
    """Image pair of a database: its pair id, and the ids and names of its images."""

    number: int
    images: tuple[int, int]
    names: tuple[str, str]

    def __str__(self) -> str:
        return " and ".join(self.names)


class ColmapDatabase:
    """Match source: the image pairs of a COLMAP database.

    With `verified`, matches are the inliers of the two-view geometries, together with their fundamental
    matrices and homographies. Without it, they are the matches before verification.
    """

    resized = False

    def __init__(self, path: Path, verified: bool = False) -> None:
        self.path, self.verified = path, verified
        self.table = "two_view_geometries" if verified else "matches"
        self.what = "a COLMAP database" + (", verified matches" if verified else "")

    @cached_property
    def names(self) -> dict[int, str]:
        """Image names by id."""
        with opened_database(self.path) as connection:
            _check_columns(connection, "images", self.path)
            found = connection.execute("select image_id, name from images").fetchall()
        for number, name in found:
            if not isinstance(number, int) or not 0 <= number < _MAX_IMAGES or not isinstance(name, str):
                raise FormatError(
                    self.path,
                    f"the image {str(number)[:40]} has no valid id and name; write the database again",
                )
        return dict(found)

    @cached_property
    def pairs(self) -> dict[str, ColmapPair]:
        """Image pairs by the names of both images (`flat_name`), with and without image suffixes."""
        with opened_database(self.path) as connection:
            _check_columns(connection, self.table, self.path)
            numbers = [n for (n,) in connection.execute(f"select pair_id from {self.table} order by pair_id")]
        places = [self._pair(number) for number in numbers]
        full = index_unique(((pair_text(*p.names), p) for p in places), self.path)
        bare = [pair_text(*map(without_ending, p.names)) for p in places]
        counts = Counter(bare)
        return {name: p for name, p in zip(bare, places, strict=True) if counts[name] == 1} | full

    def _pair(self, number: Any) -> ColmapPair:
        names = self.names
        images = divmod(number, _MAX_IMAGES) if isinstance(number, int) else (0, 0)
        if not all(image in names for image in images):
            raise FormatError(
                self.path,
                f"the pair {str(number)[:40]} in {self.table} has an unknown image; write the database again",
            )
        return ColmapPair(number, images, (names[images[0]], names[images[1]]))

    def files(self, place: ColmapPair) -> Sequence[Path]:
        """Return the path of the database."""
        return [self.path]

    def read(self, place: ColmapPair) -> Arrays:
        """Read the matched points of an image pair, and with `verified` also its matrices."""
        more = ", F, H" if self.verified else ""
        with opened_database(self.path) as connection:
            query = f"select rows, cols, data{more} from {self.table} where pair_id = ?"
            row = connection.execute(query, (place.number,)).fetchone()
            tables = [self._keypoints(connection, image) for image in place.images]
        rows = _array(row[:3], "<u4", f"{self.table} of {place}", self.path)
        if len(rows) and rows.shape[1] != 2:
            raise FormatError(self.path, f"{place}: matches have {rows.shape[1]} columns, expected 2")
        rows = rows.reshape(-1, 2).astype(np.int64)
        out: dict[str, NDArray[Any]] = {}
        for side, keypoints in enumerate(tables):
            outside = np.flatnonzero(rows[:, side] >= len(keypoints))
            if len(outside):
                raise FormatError(
                    self.path,
                    f"{place}: match {outside[0]} refers to keypoint {rows[outside[0], side]} of "
                    f"{place.names[side]}, but there are {len(keypoints)}; write the matches again",
                )
            out[f"points{side}"] = keypoints[rows[:, side], :2].astype(np.float64) - CENTRE_PX
            out[f"keypoints{side}"] = np.array([len(keypoints)], np.int64)
        for name, data in zip("FH", row[3:], strict=False):
            matrix = self._matrix(data, f"{name} of {place}")
            if matrix is not None:
                out[name] = matrix
        return out

    def _keypoints(self, connection: sqlite3.Connection, image: int) -> NDArray[Any]:
        """Return the keypoints of an image as stored: x, y, and optionally scale, orientation or a shape."""
        _check_columns(connection, "keypoints", self.path)
        query = "select rows, cols, data from keypoints where image_id = ?"
        row = connection.execute(query, (image,)).fetchone()
        made = _array(row or (0, 2, b""), "<f4", f"keypoints of {self.names[image]}", self.path)
        if len(made) and made.shape[1] not in (2, 4, 6):
            found = f"{self.names[image]}: keypoints have {made.shape[1]} columns"
            raise FormatError(self.path, f"{found}, expected 2, 4 or 6")
        return made if len(made) else np.empty((0, 2), np.float32)

    def _matrix(self, data: Any, what: str) -> NDArray[np.float64] | None:
        """Return a matrix for points whose first pixel centre is (0, 0). None if it was not estimated."""
        if data is None:
            return None
        if not isinstance(data, bytes) or len(data) not in (0, 72):
            raise FormatError(self.path, f"{what} does not have nine numbers; write it again")
        stored = np.frombuffer(data, "<f8").reshape(-1, 3)
        if not stored.any() or not np.isfinite(stored).all():
            return None
        to_stored = np.array([[1.0, 0, CENTRE_PX], [0, 1, CENTRE_PX], [0, 0, 1]])
        left = to_stored.T if what.startswith("F") else np.linalg.inv(to_stored)
        return np.asarray(left @ stored @ to_stored)

    def remarks(self, place: ColmapPair) -> list[str]:
        """Return no remarks, because the database stores coordinates as float32."""
        return []
