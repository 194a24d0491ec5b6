# SPDX-License-Identifier: BSD-3-Clause
"""How large a descriptor file is, found without parsing its numbers."""

from __future__ import annotations

from pathlib import Path

from ...core.errors import FormatError
from ..file_io import map_bytes
from ..text.numbers import find_delimiter
from .descriptors import read_array


def count_descriptor_rows(path: str | Path) -> int:
    """Rows of a descriptor file without parsing its numbers, for early checks."""
    p = Path(path)
    if p.suffix in (".npy", ".npz"):
        return len(read_array(p).values)
    from ..text import _number_loops as kernel

    return int(kernel.count_rows(map_bytes(p))[0])


def table_shape(path: str | Path, *, delimiter: str | None = None) -> tuple[int, int]:
    """Rows and columns of a descriptor file without parsing its numbers; columns are those of the first line.

    Raises:
        FormatError: An empty file, an array of the wrong shape.
    """
    p = Path(path)
    if p.suffix in (".npy", ".npz"):
        rows, columns = read_array(p).values.shape
        return rows, columns
    rows = count_descriptor_rows(p)
    if not rows:
        raise FormatError(p, "the file is empty; expected one row of numbers per line")
    with p.open("rb") as f:
        head = f.readline().decode("utf-8", "replace").strip()
    sep = find_delimiter(head) if delimiter is None else delimiter
    return rows, len(head.split()) if sep == " " else head.count(sep) + 1
