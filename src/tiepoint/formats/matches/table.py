# SPDX-License-Identifier: BSD-3-Clause
"""Read tables of matches or predicted points: CSV or Parquet, one row per match or point.

Matches have the columns ``x0, y0, x1, y1`` and optionally ``confidence``. Predicted points have ``x, y``, in
the order of the query points. The pair is in a column ``pair``, in the columns ``image0, image1``, or in the
file name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import FormatError
from ...core.records import Arrays
from ...core.regular_files import regular_file_size
from ..csv_table import csv_rows, named_columns
from ..file_io import check_lines, check_unpacked_size, error_reason
from .source import flat_name, index_unique, pair_text

SUFFIXES = (".csv", ".parquet")
NAMES = ("pair", "image0", "image1")
_MISSING = [
    "", "nan", "NaN", "NAN", "-nan", "-NaN", "NA", "N/A", "n/a", "#N/A", "<NA>", "null", "NULL", "None"
]  # fmt: skip
"""Texts that count as a missing number."""
MATCH, ANSWER = ("x0", "y0", "x1", "y1"), ("x", "y")


class TableRows(NamedTuple):
    """Rows of an image pair in a table: the file, the row numbers (None for all) and the name of the pair."""

    file: Path
    rows: Any
    name: str

    def __str__(self) -> str:
        return f"{self.file.name}, {self.name}"


class MatchTables:
    """Match source: the image pairs of all tables in a folder."""

    what = "tables of matches (CSV, Parquet)"
    resized = False

    def __init__(self, files: Sequence[Path]) -> None:
        self.all = list(files)

    @cached_property
    def pairs(self) -> dict[str, TableRows]:
        """Rows of the image pairs, by pair name."""
        found: dict[str, TableRows] = {}
        for file in self.all:
            table = self._table(file)
            if "pair" in table.columns:
                groups = [
                    (flat_name(str(k)), v) for k, v in table.groupby("pair", sort=False).indices.items()
                ]
            elif {"image0", "image1"} <= set(table.columns):
                both = table.groupby(["image0", "image1"], sort=False).indices
                groups = [(pair_text(str(a), str(b)), v) for (a, b), v in both.items()]
            else:
                groups = [(flat_name(file.stem), None)]
            found = index_unique(
                [*found.items(), *((n, TableRows(file, rows, n)) for n, rows in groups)], file, _line
            )
        return found

    def _table(self, file: Path) -> Any:
        if file not in self._read:
            self._read[file] = read_table(file)
        return self._read[file]

    @cached_property
    def _read(self) -> dict[Path, Any]:
        return {}

    def files(self, place: TableRows) -> Sequence[Path]:
        """Return the table file of an image pair."""
        return [place.file]

    def read(self, place: TableRows) -> Arrays:
        """Read the matched points or the predicted points of an image pair."""
        table = self._table(place.file)
        own = table if place.rows is None else table.iloc[place.rows]
        try:
            if any(kind.kind in "mM" for kind in own.dtypes):
                raise ValueError("a date or a time")
            if set(MATCH) <= set(own.columns):
                points = own[list(MATCH)].to_numpy(np.float64)
                out = {"points0": points[:, :2], "points1": points[:, 2:]}
                if "confidence" in own.columns:
                    out["confidence"] = own["confidence"].to_numpy(np.float64)
                return out
            return {"answers": own[list(ANSWER)].to_numpy(np.float64)}
        except (TypeError, ValueError, OverflowError) as e:
            raise FormatError(place.file, f"contains a value that is not a number ({e}); correct it") from e
        except KeyError as e:
            raise FormatError(
                place.file, f"expected columns {', '.join(MATCH)}, or {', '.join(ANSWER)}"
            ) from e

    def remarks(self, place: TableRows) -> list[str]:
        """Return no remarks, because tables are assumed to store coordinates with full precision."""
        return []


def _line(place: TableRows) -> str:
    """Return the line number of the first row of a pair, for error messages."""
    return place.file.name if place.rows is None else f"{place.file.name}, row {place.rows[0] + 1}"


def header_columns(file: Path) -> list[str]:
    """Read the column names of a CSV or Parquet table."""
    regular_file_size(file)
    try:
        if file.suffix == ".parquet":
            import pyarrow.parquet as pq

            return [str(name) for name in pq.read_schema(file).names]
        with file.open(encoding="utf-8-sig", errors="replace") as text:
            return [name.strip() for name in next(csv_rows([text.readline()], file), [])]
    except FormatError:
        raise
    except OSError as e:
        raise FormatError(file, f"cannot be read ({error_reason(e)})") from e
    except Exception as e:  # pyarrow raises many types
        raise FormatError(file, f"is not a readable Parquet file ({error_reason(e)}); write it again") from e


def _parquet(file: Path) -> Any:
    """Read a Parquet file as a data frame. The size in its header is checked first."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as opened:
            facts = opened.metadata
            groups = [facts.row_group(i) for i in range(facts.num_row_groups)]
            wide = 8 * max(1, facts.num_columns) * max([facts.num_rows, *(g.num_rows for g in groups)])
            check_unpacked_size(
                file, regular_file_size(file), max([wide, *(g.total_byte_size for g in groups)])
            )
            # Ignore the index metadata: pandas trusts it without checks.
            table = opened.read()
            table.validate(full=True)
            return table.to_pandas(ignore_metadata=True)
    except FormatError:
        raise
    except Exception as e:  # pyarrow raises many types
        raise FormatError(file, f"is not a readable Parquet file ({error_reason(e)}); write it again") from e


def is_match_table(file: Path) -> bool:
    """Return whether a table has the columns of matches or of predicted points."""
    if file.suffix not in SUFFIXES:
        return False
    names = set(header_columns(file))
    return set(MATCH) <= names or (set(ANSWER) <= names and not names & {"size", "d0", "class_id"})


def read_table(file: Path) -> Any:
    """Read a table as a pandas data frame. Pair and image names (``001``, ``NA``) are read as text.

    Raises:
        FormatError: The file is not a table, has a duplicate column, or a row without the name of its pair.
    """
    import pandas as pd

    regular_file_size(file)
    columns = named_columns(header_columns(file), file)
    if file.suffix == ".parquet":
        table = _parquet(file)
    else:
        try:
            check_lines(file)
            table = pd.read_csv(
                file,
                skipinitialspace=True,
                float_precision="round_trip",
                dtype=dict.fromkeys(NAMES, str),
                keep_default_na=False,
                na_values={name: _MISSING for name in columns if name not in NAMES},
            )
        except (ValueError, OSError, OverflowError) as e:
            raise FormatError(
                file, f"is not a readable table ({' '.join(str(e).split())}); correct the file"
            ) from e
        if not isinstance(table.index, pd.RangeIndex):  # pandas turns surplus fields into an index
            raise FormatError(file, "a row has more fields than the header; correct the file")
    for name in set(NAMES) & set(table.columns):
        if table[name].dtype.kind not in "iu":
            nameless = [i for i, value in enumerate(table[name]) if not isinstance(value, str) or not value]
            if nameless:
                raise FormatError(file, f"row {nameless[0] + 1} has an empty {name}; add the name")
    return table
