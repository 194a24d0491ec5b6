# SPDX-License-Identifier: BSD-3-Clause
"""Keypoint CSV: one keypoint a line under the header ``x,y,size,angle,response,octave,class_id``.

The layout of DescriptorWorkbench's ``export-csv``. An unset angle is -1 in the file and NaN in memory.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ...core.errors import FormatError
from ...core.keypoints import COLUMNS, Keypoints
from ..file_io import read_lines, write_bytes

HEADER = ",".join(COLUMNS)
_WHOLE = (5, 6)


def write_keypoint_csv(path: str | Path, keypoints: Keypoints) -> None:
    """Write keypoints; reading the file gives the same numbers, bit for bit.

    An empty set is a file with the header alone. NaN or infinite values cannot be written, except an unset
    angle, which becomes -1.
    """
    table = keypoints.to_array()
    table[np.isnan(table[:, 3]), 3] = -1.0
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(bad):
        raise FormatError(path, f"keypoint {bad[0]} is not finite and cannot be written")
    lines = [HEADER]
    for row in table:
        lines.append(",".join(str(int(v)) if i in _WHOLE else repr(float(v)) for i, v in enumerate(row)))
    write_bytes(path, [("\n".join(lines) + "\n").encode()])


def read_keypoint_csv(path: str | Path) -> Keypoints:
    """Read keypoints; a wrong header, a short or long row, NaN, inf or text is a `FormatError` with its line.

    A file without any line is an error (the header says what the columns are); a header alone is an empty
    set.

    >>> import tempfile, pathlib
    >>> p = pathlib.Path(tempfile.mkdtemp()) / "1.csv"
    >>> write_keypoint_csv(p, Keypoints.at([[1.5, 2]], size_px=4))
    >>> read_keypoint_csv(p).angle_deg
    array([nan])
    """
    lines = read_lines(path)
    found = lines[0].replace(" ", "") if lines else "nothing"
    if found != HEADER:
        raise FormatError(path, f"expected the header {HEADER!r}, found {found!r}", line=1)
    rows = [_row(path, number, line) for number, line in enumerate(lines[1:], start=2)]
    table = np.array(rows, dtype=np.float64).reshape(-1, len(COLUMNS))
    table[table[:, 3] < 0, 3] = np.nan
    return Keypoints.from_array(table)


def _row(path: str | Path, number: int, line: str) -> list[float]:
    parts = line.split(",")
    if len(parts) != len(COLUMNS):
        raise FormatError(path, f"expected {len(COLUMNS)} fields, found {len(parts)}", line=number)
    values = []
    for i, (name, text) in enumerate(zip(COLUMNS, parts, strict=True)):
        try:
            value = float(text)
        except ValueError:
            raise FormatError(path, f"{name} is {text.strip()!r}, expected a number", line=number) from None
        if not math.isfinite(value):
            raise FormatError(path, f"{name} is {text.strip()!r}, expected a finite number", line=number)
        if i in _WHOLE and value != int(value):
            raise FormatError(path, f"{name} is {text.strip()!r}, expected a whole number", line=number)
        values.append(value)
    return values
